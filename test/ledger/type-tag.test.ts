import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { GatewayError } from '../../src/ledger/errors.ts';
import { TypeTag } from '../../src/ledger/type-tag.ts';
import { fc } from '../support/fast-check.ts';
import { Draw, plainTag, seed, spellTag, structTag } from '../support/spellings.ts';

/** Texts that look like tags more often than not. */
const nearlyTag = fc
  .array(
    fc.oneof(
      fc.constantFrom(...'0x1|0X|0xZ|::|:|<|>|,| |\t|u8|vector|a|_a|$|\u00a0'.split('|')),
      fc.string({ unit: 'binary', maxLength: 3 }),
    ),
    { maxLength: 30 },
  )
  .map((pieces) => pieces.join(''));

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

test('the canonical text is its own canonical text', () => {
  fc.assert(
    fc.property(fc.oneof(structTag.map(plainTag), nearlyTag), (text) => {
      const tag = TypeTag.find(text);
      if (tag === undefined) return;
      const once = TypeTag.format(tag);
      assert.equal(TypeTag.format(TypeTag.find(once) ?? tag), once);
      assert.deepEqual(TypeTag.find(once), tag);
    }),
    { numRuns: 5000 },
  );
});

test('text that is no struct tag is refused with 400, whatever it is', () => {
  fc.assert(
    fc.property(fc.oneof(nearlyTag, fc.string({ unit: 'binary' })), (text) => {
      assert.equal(isRefused(text), TypeTag.find(text)?.kind !== 'struct');
    }),
    { numRuns: 5000 },
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

/** Texts of `length` characters or a little more, each built to make a careless parser look at them again and again. */
const hostile: Readonly<Record<string, (length: number) => string>> = {
  'many arguments': (length) => `0x1::a::B<${'u8,'.repeat(length / 3)}>`,
  'many arguments, never closed': (length) => `0x1::a::B<${'u8,'.repeat(length / 3)}`,
  'white space': (length) => `0x1::a::B${' '.repeat(length)}`,
  'white space before a fault': (length) => `0x1::a::B${' '.repeat(length)}!`,
  'white space everywhere': (length) => `0x1::a::B<${' u8 , '.repeat(length / 6)}u8>`,
  'a long name': (length) => `0x1::a::${'B'.repeat(length)}`,
  'a long address': (length) => `0x${'1'.repeat(length)}::a::B`,
  'a long number without prefix': (length) => '1'.repeat(length),
  'many addresses': (length) => `0x1::a::B<${'0x1::a::B,'.repeat(length / 10)}>`,
  'many empty lists': (length) => `0x1::a::B<${'0x1::a::B<>,'.repeat(length / 12)}>`,
  colons: (length) => `0x1${':'.repeat(length)}`,
  brackets: (length) => `0x1::a::B${'<'.repeat(length)}`,
};

for (const [name, build] of Object.entries(hostile)) {
  test(`parsing takes steps in proportion to the text: ${name}`, (t) => {
    const steps = countCalls(t, [RegExp.prototype, 'exec'], [String.prototype, 'startsWith']);
    const stepsFor = (length: number): number => {
      const text = build(length);
      const before = steps();
      TypeTag.find(text);
      return steps() - before;
    };
    const [small, large] = [stepsFor(10_000), stepsFor(100_000)];
    assert.ok(large <= 11 * small, `${small} steps for 10^4 characters, ${large} for 10^5`);
    assert.ok(large <= 8 * 100_000, `${large} steps for 10^5 characters`);
  });
}

/** Counts calls of built-in methods until the end of the test; the test runner's own mocks keep a stack for each call. */
function countCalls(t: TestContext, ...methods: readonly (readonly [object, string])[]): () => number {
  let calls = 0;
  for (const [owner, name] of methods) {
    const original = Reflect.get(owner, name) as (...values: unknown[]) => unknown;
    Reflect.set(owner, name, function counted(this: unknown, ...values: unknown[]): unknown {
      calls += 1;
      return Reflect.apply(original, this, values);
    });
    t.after(() => Reflect.set(owner, name, original));
  }
  return () => calls;
}
