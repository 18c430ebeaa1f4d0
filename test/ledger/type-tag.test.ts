import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayError } from '../../src/ledger/errors.ts';
import { TypeTag } from '../../src/ledger/type-tag.ts';
import { fc } from '../support/fast-check.ts';
import { Draw, plainTag, seed, spellTag, structTag } from '../support/spellings.ts';

function canonical(text: string): string {
  return TypeTag.format(TypeTag.parseStruct(text));
}

function isRefused(text: string): boolean {
  try {
    TypeTag.parseStruct(text);
    return false;
  } catch (error) {
    assert.ok(error instanceof GatewayError, String(error));
    assert.equal(error.status, 400);
    return true;
  }
}

test('every spelling of a tag is written as nodes print it', () => {
  fc.assert(
    fc.property(structTag, seed, (tag, seed) => {
      assert.equal(canonical(spellTag(new Draw(seed), tag)), plainTag(tag));
    }),
    { numRuns: 1000 },
  );
});

const accepted: readonly (readonly [string, string])[] = [
  ['0x1::a::B', '0x1::a::B'],
  ['0X0A::a::B', '0xa::a::B'],
  [`0x${'0'.repeat(63)}1::a::B`, '0x1::a::B'],
  [`0x${'F'.repeat(64)}::a::B`, `0x${'f'.repeat(64)}::a::B`],
  ['0x0::a::B', '0x0::a::B'],
  ['0x00::a::B<>', '0x0::a::B'],
  ['\t0x1\n::\fa\r:: B \n', '0x1::a::B'],
  ['0x1::a$::B_9', '0x1::a$::B_9'],
  ['0x1::u8x::Vector', '0x1::u8x::Vector'],
  ['0x1::a::B<u8,u16,u32,u64,u128,u256,bool,address,signer>', ''],
  ['0x1::a::B<i8,i16,i32,i64,i128,i256>', ''],
  ['0x1::a::B<vector<vector<0x2::c::D<u8>>>,bool,>', '0x1::a::B<vector<vector<0x2::c::D<u8>>>, bool>'],
];

for (const [text, printed] of accepted) {
  test(`${JSON.stringify(text)} is a struct tag`, () => {
    assert.equal(canonical(text), printed === '' ? text.replaceAll(',', ', ') : printed);
  });
}

const refused = [
  ['', ' ', '0x1', '0x1::', '0x1::a', '0x1::a::', '0x1::a::B::C', '0x1::a::B C', '0x1::a::B,', '0x1:: ::B'],
  ['u8', 'vector<u8>', 'vector<0x1::a::B>', 'signer', '1::a::B', 'x1::a::B', '0x::a::B', '0xg::a::B', '0 x1::a::B'],
  ['0x1:a::B', '0x1: :a::B', '0x1:::a::B', '0x1::a:::B', '::0x1::a::B', '0x1::0x2::B', '-0x1::a::B', '+0x1::a::B'],
  ['0x1::a::B<', '0x1::a::B>', '0x1::a::B<u8', '0x1::a::B<u8>>', '0x1::a::B<<u8>', '0x1::a::B<u8><u8>'],
  ['0x1::a::B<,>', '0x1::a::B<,u8>', '0x1::a::B<u8,,>', '0x1::a::B<u8 u8>', '0x1::a::B<u7>', '0x1::a::B<T0>'],
  ['0x1::a::B<vector>', '0x1::a::B<vector<>>', '0x1::a::B<vector<u8,u8>>', '0x1::a::B<u8<u8>>', '0x1::a::B<U8>'],
  ['0x1::a::B<vector<u8,>>', '0x1::a::B<vector<u8 , >>', '0x1::a::B<vector<vector<u8>,>>'],
  ['0x1::a::B<&u8>', '0x1::a::B<&mut u8>', '0x1::a::B<|u8|u8>', '0x1::a::B<0x2>', '0x1::a::B<0x2::c>'],
  ['0x1::_a::B', '0x1::a::_B', '0x1::$a::B', '0x1::9a::B', '0x1::a-b::B', '0x1::a.b::B', '0x1::\u00e4::B'],
  ['0x1::vector::B', '0x1::a::vector', '0x1::bool::B', '0x1::a::true', '0x1::false::B', '0x1::address::B'],
  [
    '0x1::a::B\0',
    '\u00a00x1::a::B',
    '\u30000x1::a::B',
    '\v0x1::a::B',
    '\ufeff0x1::a::B',
    '0x1::a::B%20',
    '0x1::a::B\u2028',
  ],
  [`0x${'0'.repeat(64)}1::a::B`, `0x${'1'.repeat(65)}::a::B`],
].flat();

for (const text of refused) {
  test(`${JSON.stringify(text)} is refused`, () => {
    assert.ok(isRefused(text));
  });
}

/** A struct tag whose innermost type stands `depth` levels deep. */
function nested(depth: number, open: string): string {
  return `0x1::a::B<${open.repeat(depth - 1)}u8${'>'.repeat(depth)}`;
}

test('types are read nine levels deep and refused from ten, however deep the text goes', () => {
  for (const open of ['vector<', '0x1::a::B<']) {
    assert.equal(canonical(nested(9, open)), nested(9, open));
    for (const depth of [10, 11, 1000, 100_000]) assert.ok(isRefused(nested(depth, open)), `${open} ${depth}`);
  }
  assert.ok(isRefused(`0x1::a::B<${'vector<'.repeat(1_000_000)}`));
});
