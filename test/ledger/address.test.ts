import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Address } from '../../src/ledger/address.ts';
import { fc } from '../support/fast-check.ts';

test('every spelling of an address has one canonical text and one value', () => {
  const digits = fc.string({
    unit: fc.constantFrom(...'0123456789abcdefABCDEF'.split('')),
    minLength: 1,
    maxLength: 64,
  });
  fc.assert(
    fc.property(digits, fc.nat(63), fc.boolean(), (hex, zeros, prefix) => {
      const padded = hex.padStart(Math.min(64, hex.length + zeros), '0');
      const value = BigInt(`0x${hex}`);
      assert.equal(Address.find(`${prefix ? '0x' : ''}${padded}`), `0x${value.toString(16)}`);
    }),
  );
});

test('what is no address is not one', () => {
  for (const text of [
    '',
    '0x',
    '0X1',
    'x1',
    '0x0x1',
    ' 1',
    '1 ',
    '0x1\n',
    '-1',
    '0xg',
    '0x\u0661',
    `0x${'1'.repeat(65)}`,
  ]) {
    assert.equal(Address.find(text), undefined, JSON.stringify(text));
  }
});

test('the bytes are 32, filled from the left', () => {
  assert.deepEqual([...Address.bytes(Address.parse('0x102'))], [...Array.from({ length: 30 }, () => 0), 1, 2]);
});
