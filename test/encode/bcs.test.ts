import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bcs } from '@mysten/bcs';
import { findAbiType, isSigner } from '../../src/encode/abi-type.ts';
import { compileModule, type CompiledStruct } from '../../src/encode/abi.ts';
import { BcsWriter } from '../../src/encode/bcs.ts';
import { Steps } from '../../src/encode/outcome.ts';
import { Address, TypeTag } from '../../src/ledger/type-tag.ts';
import { fc } from '../support/fast-check.ts';
import { readText } from './vectors.ts';

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

test('signers are no parameters, wherever they stand and however they are taken', () => {
  for (const text of ['signer', '&signer', '&mut signer', '& signer']) {
    const type = findAbiType(text, new Steps());
    assert.ok(type !== undefined && isSigner(type), text);
  }
  for (const text of ['vector<signer>', '&u8', '0x1::signer::signer', 'T0']) {
    const type = findAbiType(text, new Steps());
    assert.ok(type !== undefined && !isSigner(type), text);
  }
});

test('a type that is not written as an ABI writes it is not read', () => {
  const texts = [
    ['', '&', 'u7', 'U8', 'vector', 'vector<>', 'vector<u8', 'u8>', '0x1', '0x1::a', '0x1::a::b<', 'T'],
    ['1::a::b', '0x1::a::b<>', 'u8 u8', '::a', `${'vector<'.repeat(100)}u8${'>'.repeat(100)}`, '0x1:a::b'],
    [`0x${'1'.repeat(65)}::a::b`],
  ].flat();
  for (const text of texts) assert.equal(findAbiType(text, new Steps()), undefined, text);
});

test('entry functions of any visibility are found, others are not', () => {
  const { abi } = compileModule(readText('modules/0x1__coin.json'));
  assert.equal(abi?.findEntryFunction('transfer', new Steps())?.id, '0x1::coin::transfer');
  assert.equal(abi?.findEntryFunction('transfer', new Steps())?.parameters?.length, 2);
  assert.equal(abi?.findEntryFunction('balance', new Steps()), undefined);
  assert.equal(abi?.findEntryFunction('toString', new Steps()), undefined);
});

test('what is no module answer has no ABI', () => {
  const bodies = [
    '',
    '{',
    '[]',
    'null',
    '{"bytecode":"0x"}',
    '{"bytecode":"0x","abi":null}',
    '{"abi":{"address":"0x1"}}',
  ];
  for (const body of bodies) assert.equal(compileModule(body).abi, undefined, body);
});

test('two functions of one name make an ABI unreadable', () => {
  const f = { name: 'f', is_entry: true, params: [], generic_type_params: [] };
  const abi = { address: '0x1', name: 'm', exposed_functions: [f, f], structs: [] };
  assert.equal(compileModule(JSON.stringify({ abi })).abi, undefined);
});

test('a struct is laid out by its fields; enums, native structs and those without fields are not', () => {
  const struct = { name: 'S', is_native: false, generic_type_params: [], fields: [{ name: 'a', type: 'u8' }] };
  const find = (source: object): CompiledStruct | undefined => {
    const abi = { address: '0x1', name: 'm', exposed_functions: [], structs: [{ ...struct, ...source }] };
    return compileModule(JSON.stringify({ abi })).abi?.findStruct('S', new Steps());
  };
  assert.equal(find({})?.fields.length, 1);
  assert.equal(find({ is_enum: false })?.fields.length, 1);
  const others = [{ is_enum: true }, { is_native: true }, { fields: [] }, { is_native: undefined }, { is_enum: 'no' }];
  for (const other of others) assert.equal(find(other), undefined, JSON.stringify(other));
});
