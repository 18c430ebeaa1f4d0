import assert from 'node:assert/strict';
import { test } from 'node:test';
import { durationMs, findDurationMs, findSizeBytes, sizeBytes } from '../../../src/config/schema/schema-parts.ts';

test('a duration is a whole number and a unit', () => {
  const table = { '0ms': 0, '200ms': 200, '5s': 5_000, '2m': 120_000, '3h': 10_800_000, '7d': 604_800_000 };
  for (const [text, ms] of Object.entries(table)) assert.equal(findDurationMs(text), ms, text);
});

test('a size is a whole number and a unit', () => {
  const table = { '0B': 0, '64KiB': 65_536, '256MiB': 268_435_456, '2GiB': 2_147_483_648, '1TiB': 1_099_511_627_776 };
  for (const [text, bytes] of Object.entries(table)) assert.equal(findSizeBytes(text), bytes, text);
});

test('other texts are neither', () => {
  for (const text of ['', '5', '5 s', 's', '-5s', '1.5s', '5S', '5sec', '0x5s', '5s\n', 5, null, undefined, ['5s']]) {
    assert.equal(findDurationMs(text), undefined, String(text));
  }
  for (const text of ['', '5', '5 MiB', '5MB', '5mib', '-5MiB', '1.5GiB', '5M', '9999999999TiB', 5, null]) {
    assert.equal(findSizeBytes(text), undefined, String(text));
  }
});

test('the functions for checked text refuse unchecked text', () => {
  assert.throws(() => durationMs('5'), RangeError);
  assert.throws(() => sizeBytes('5'), RangeError);
});
