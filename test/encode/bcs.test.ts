import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findAbiType, isSigner } from '../../src/encode/abi-type.ts';
import { compileModule, type CompiledStruct } from '../../src/encode/abi.ts';
import { BcsWriter } from '../../src/encode/bcs.ts';
import { Steps } from '../../src/encode/outcome.ts';
import { TypeTag } from '../../src/ledger/type-tag.ts';
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

test('an integer that does not fit its width is not written', () => {
  for (const bits of [8, 16, 32, 64, 128, 256] as const) {
    const limit = 1n << BigInt(bits);
    assertHex((writer) => writer.integer(limit - 1n, bits), 'ff'.repeat(bits / 8));
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

test('a lone surrogate is not written', () => {
  assert.throws(() => new BcsWriter().string('\ud800'), RangeError);
});

test('type tags nest eight deep and not nine, and signed integers have no number', () => {
  assertHex((writer) => writer.typeTag(tag(vectorsOfU8(8))), '060606060606060601');
  assert.throws(() => new BcsWriter().typeTag(tag(vectorsOfU8(9))), RangeError);
  assert.throws(() => new BcsWriter().typeTag(tag('i8')), RangeError);
});

test('a writer forgets with reset, and its bytes are a copy', () => {
  const writer = new BcsWriter();
  writer.raw(Buffer.alloc(3_000_000, 1));
  writer.reset();
  writer.byte(2);
  const bytes = writer.toBytes();
  writer.reset();
  writer.byte(3);
  assert.deepEqual([[...bytes], [...writer.toBytes()]], [[2], [3]]);
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
