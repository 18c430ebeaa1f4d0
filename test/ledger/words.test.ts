/** Addresses, versions, hashes and names: what is read, and what is refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayError, quote } from '../../src/ledger/errors.ts';
import { Address, FunctionId, isIdentifier, TypeTag } from '../../src/ledger/type-tag.ts';
import { findU64, LedgerVersion, withVersion } from '../../src/ledger/version.ts';
import { fc } from '../support/fast-check.ts';
import { Draw, hex, seed, spellAddress, plainTag, spellTag, structTag } from '../support/spellings.ts';

const maxU64 = 18446744073709551615n;

test('an address is written short and lowercase, and stands for its 32 bytes', () => {
  fc.assert(
    fc.property(hex, seed, (digits, seed) => {
      const address = Address.parse(spellAddress(new Draw(seed), digits));
      assert.equal(address, `0x${digits}`);
      assert.equal(Buffer.from(Address.bytes(address)).toString('hex'), digits.padStart(64, '0'));
    }),
  );
});

test('what is not 1 to 64 hex digits is no address', () => {
  const texts = [
    ['', '0x', '0X1', '0x0x1', '00x1', ' 0x1', '0x1 ', '0x1\n', '+1', '-1', '0x-1', '1_0', 'g', '0xg', '1.0'],
    ['\uff11', '0x\u0661', `0x${'0'.repeat(65)}`, '0'.repeat(65), '0x1\0', '0x1::a'],
  ].flat();
  for (const text of texts) assert.throws(() => Address.parse(text), refusal, text);
});

test('a version is read as nodes read a u64: a plus sign and leading zeros do not matter', () => {
  const texts: readonly (readonly [string, bigint])[] = [
    ['0', 0n],
    ['5', 5n],
    ['005', 5n],
    ['+5', 5n],
    ['+005', 5n],
    ['000', 0n],
    ['9007199254740993', 9007199254740993n],
    ['18446744073709551615', maxU64],
    ['00000018446744073709551615', maxU64],
    [`${'0'.repeat(100_000)}7`, 7n],
  ];
  for (const [text, version] of texts) assert.equal(LedgerVersion.parse(text), version, text.slice(0, 40));
  fc.assert(fc.property(fc.bigInt(0n, maxU64), (value) => assert.equal(LedgerVersion.parse(String(value)), value)));
});

test('what is not a u64 is no version', () => {
  const texts = ['', '+', '-0', '-1', '++1', '1+', ' 1', '1 ', '1\n', '0x1', '1e3', '1.0', '1_000', 'latest', '\u0661'];
  texts.push('18446744073709551616', '99999999999999999999', '100000000000000000000', '9'.repeat(100_000));
  for (const text of texts) {
    assert.throws(() => LedgerVersion.parse(text), refusal, text.slice(0, 40));
    assert.equal(findU64(text), undefined);
  }
  assert.throws(() => LedgerVersion.of(-1n), RangeError);
  assert.throws(() => LedgerVersion.of(maxU64 + 1n), RangeError);
});

test('a path is pinned by a parameter of its query', () => {
  const version = LedgerVersion.of(7n);
  const pinned = [withVersion('/a', version), withVersion('/a?b=1', version), withVersion('/a', undefined)];
  assert.deepEqual(pinned, ['/a?ledger_version=7', '/a?b=1&ledger_version=7', '/a']);
});

test('names are what Move calls identifiers, case-sensitive', () => {
  for (const name of ['a', 'A1', 'a_b$', '_a', '__', '$x', '_1', '<SELF>', 'u8', 'vector'])
    assert.ok(isIdentifier(name), name);
  for (const name of ['', '_', '$', '1a', 'a-b', 'a b', 'a\n', '<self>', '<SELF', 'a::b', '\u00e4', 'a\0', '..']) {
    assert.ok(!isIdentifier(name), JSON.stringify(name));
  }
});

/** The function that the text names, written canonically. */
function functionIn(text: string): string | undefined {
  const id = FunctionId.find(text);
  return id === undefined ? undefined : FunctionId.format(id);
}

test('a function is split at the first and the last pair of colons', () => {
  assert.equal(functionIn('0x00A::coin::balance'), '0xa::coin::balance');
  assert.equal(functionIn('1::coin::balance'), '0x1::coin::balance');
  const texts = ['', '::', '::::', '0x1', '0x1::coin', '0x1::coin::', '0x1::::balance', '::coin::balance', '0x1:::b'];
  texts.push(
    ...[
      ['0x1::a::b::c', '0X1::a::b', ' 0x1::a::b', '0x1::a::b ', '0x1::a ::b', '0x1::a::b<u8>', '0x1:a:b'],
      ['0x1:::a::b'],
    ].flat(),
  );
  for (const text of texts) assert.equal(functionIn(text), undefined, text);
});

test('a message quotes at most 120 characters of what the client wrote, on one line', () => {
  assert.equal(quote('a\nb'), '"a\\nb"');
  assert.ok(quote('a'.repeat(1_000_000)).length < 130);
  assert.throws(
    () => Address.parse('x'.repeat(100_000)),
    (error) => error instanceof Error && error.message.length < 200,
  );
});

const statuses: Readonly<Record<GatewayError['fault'], number>> = {
  malformed: 400,
  ambiguous: 400,
  invalidInput: 400,
  unauthorized: 401,
  rateLimited: 429,
  notFound: 404,
  methodNotAllowed: 405,
  requestTimeout: 408,
  lengthRequired: 411,
  payloadTooLarge: 413,
  uriTooLong: 414,
  unsupportedMediaType: 415,
  expectationFailed: 417,
  headersTooLarge: 431,
  disabled: 403,
  internal: 500,
  unavailable: 503,
};

test('every fault has its HTTP status, and framework faults the code nodes give them', () => {
  for (const [fault, status] of Object.entries(statuses)) {
    const error = new GatewayError(fault as GatewayError['fault'], 'why');
    assert.equal(error.status, status);
    const ownCodes = ['invalidInput', 'disabled', 'rateLimited'];
    if (!ownCodes.includes(fault) && status < 500) assert.equal(error.code, 'web_framework_error');
  }
});

test('an error body has the three specified members in their order', () => {
  const { body } = new GatewayError('invalidInput', 'm"');
  assert.equal(body, '{"message":"m\\"","error_code":"invalid_input","vm_error_code":null}');
});

function refusal(error: unknown): boolean {
  return error instanceof GatewayError && error.status === 400;
}

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
