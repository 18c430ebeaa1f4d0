import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findU64, maxU64 } from '../../src/ledger/version.ts';
import { cpuMs } from '../support/cpu-time.ts';

test('a u64 is decimal digits with leading zeros or one plus', () => {
  const table: [string, bigint | undefined][] = [
    ['0', 0n],
    ['000', 0n],
    ['+05', 5n],
    ['100', 100n],
    [String(maxU64), maxU64],
    [`000${maxU64}`, maxU64],
    [String(maxU64 + 1n), undefined],
    ['99999999999999999999', undefined],
  ];
  for (const [text, value] of table) assert.equal(findU64(text), value, text);
  for (const text of ['', '+', '-0', '++1', ' 1', '1 ', '1\n', '1.0', '0x1', '1e1', '1_0', '\u0661']) {
    assert.equal(findU64(text), undefined, JSON.stringify(text));
  }
});

test('megabytes of leading zeros are read in the time they take to scan', () => {
  const zeros = '0'.repeat(8_000_000);
  const started = cpuMs();
  assert.equal(findU64(`${zeros}7`), 7n);
  assert.equal(findU64(`${zeros}x`), undefined);
  assert.ok(cpuMs() - started < 1000);
});
