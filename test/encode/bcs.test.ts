import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bcs } from '@mysten/bcs';
import { BcsWriter } from '../../src/encode/bcs.ts';
import { Address, TypeTag } from '../../src/ledger/type-tag.ts';
import { fc } from '../support/fast-check.ts';

function assertHex(write: (writer: BcsWriter) => void, hex: string, message?: string): void {
  const writer = new BcsWriter();
  write(writer);
  assert.equal(writer.toHex(), hex, message);
}

function vectorsOfU8(levels: number): string {
  return `${'vector<'.repeat(levels)}u8${'>'.repeat(levels)}`;
}

function tag(text: string): TypeTag {
  const found = TypeTag.find(text);
  assert.ok(found, text);
  return found;
}

test('ULEB128 is minimal and covers u32', () => {
  const table: [number, string][] = [
    [0, '00'],
    [127, '7f'],
    [128, '8001'],
    [16_383, 'ff7f'],
    [16_384, '808001'],
    [2 ** 31, '8080808008'],
    [2 ** 32 - 1, 'ffffffff0f'],
  ];
  for (const [value, hex] of table) assertHex((writer) => writer.uleb128(value), hex);
  for (const value of [-1, 0.5, 2 ** 32, Number.NaN]) assert.throws(() => new BcsWriter().uleb128(value), RangeError);
});

test('a length of 2^31 is not written', () => {
  assertHex((writer) => writer.sequenceLength(2 ** 31 - 1), 'ffffffff07');
  assert.throws(() => new BcsWriter().sequenceLength(2 ** 31), RangeError);
});

test('integers of every width are little-endian, and what does not fit is not written', () => {
  const types = { 8: bcs.u8(), 16: bcs.u16(), 32: bcs.u32(), 64: bcs.u64(), 128: bcs.u128(), 256: bcs.u256() };
  for (const bits of [8, 16, 32, 64, 128, 256] as const) {
    const limit = 1n << BigInt(bits);
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: limit - 1n }), (value) => {
        const input = (bits < 64 ? Number(value) : value) as never;
        assertHex((writer) => writer.integer(value, bits), types[bits].serialize(input).toHex());
      }),
    );
    assert.throws(() => new BcsWriter().integer(limit, bits), RangeError);
    assert.throws(() => new BcsWriter().integer(-1n, bits), RangeError);
  }
});

test('hex is taken in any case and nothing else is: not half a byte, no sign that only looks like a digit', () => {
  assertHex((writer) => assert.ok(writer.hex('00fFAb')), '0300ffab');
  for (const digits of ['0', '0g', '0x01', ' 0', '\u0130\u0130', '0\u0100', '\uff11\uff11']) {
    assertHex((writer) => assert.equal(writer.hex(digits), false), '', digits);
  }
});

test('strings are counted in bytes of UTF-8, and a lone surrogate is not written', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
      assertHex((writer) => writer.string(text), bcs.string().serialize(text).toHex());
    }),
  );
  assert.throws(() => new BcsWriter().string('\ud800'), RangeError);
});

test('addresses are 32 bytes, filled from the left', () => {
  assertHex((writer) => writer.address(Address.parse('0x1')), `${'0'.repeat(63)}1`);
  assertHex((writer) => writer.address(Address.parse('abc')), `${'0'.repeat(61)}abc`);
  assertHex((writer) => writer.address(Address.parse('F'.repeat(64))), 'f'.repeat(64));
});

test('type tags nest eight deep and not nine, and signed integers have no number', () => {
  assertHex((writer) => writer.typeTag(tag(vectorsOfU8(8))), '060606060606060601');
  assert.throws(() => new BcsWriter().typeTag(tag(vectorsOfU8(9))), RangeError);
  assert.throws(() => new BcsWriter().typeTag(tag('i8')), RangeError);
});

test('bytes of unknown length get theirs when they end, however long they are', () => {
  for (const count of [0, 1, 127, 128, 16_383, 16_384, 100_000]) {
    const content = Buffer.alloc(count, 0xab);
    const write = (writer: BcsWriter): void => {
      writer.byte(7);
      const start = writer.beginBytes();
      writer.raw(content);
      writer.endBytes(start);
      writer.byte(9);
    };
    assertHex(write, `07${bcs.byteVector().serialize(content).toHex()}09`);
  }
});

test('a writer forgets with reset, and its bytes are a copy', () => {
  const writer = new BcsWriter();
  writer.raw(Buffer.alloc(3_000_000, 1));
  writer.reset();
  writer.byte(2);
  const bytes = writer.toBytes();
  writer.reset();
  writer.byte(3);
  assert.deepEqual([...bytes], [2]);
  assert.equal(writer.length, 1);
});
