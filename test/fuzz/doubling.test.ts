// Twice the input is twice the work, counted by the blocks of code that run: a busy machine changes nothing. What takes
// V8's own loops longer (regular expressions) shows in growth.test.ts; encode/steps.test.ts counts the encoder's.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseViewBody } from '../../src/proxy/routes/canonical-body.ts';
import { JsonValue } from '../../src/ledger/json-value.ts';
import { TypeTag } from '../../src/ledger/type-tag.ts';
import { countWork, startCounting } from '../support/counted-work.ts';

const list = (count: number, item: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => item(index)).join();
const view = (types: string, values: string): Buffer =>
  Buffer.from(`{"function":"0x1::m::f","type_arguments":[${types}],"arguments":[${values}]}`);
const readView = (text: string) => parseViewBody('application/json', view('', text));
const readTag = (text: string) => {
  const tag = TypeTag.find(text);
  return tag && TypeTag.format(tag);
};
const readJson = (text: string) => JsonValue.canonical(JsonValue.parse(text));

const rows: readonly (readonly [title: string, make: (n: number) => string, read: (text: string) => unknown])[] = [
  ['arguments of a type tag', (n) => `0x1::a::B<${list(n, () => 'u8')}>`, readTag],
  ['arguments of a type tag that is cut off', (n) => `0x1::a::B<${list(n, () => '0x1::c::D<u8>')}`, readTag],
  [
    'arguments of arguments',
    (n) => `0x1::a::B<${list(n, () => `0x1::c::D<${list(8, () => 'vector<u8>')}>`)}>`,
    readTag,
  ],
  ['blanks of a type tag', (n) => `0x1::a::B<${list(n, () => '  u8  ')}>`, readTag],
  ['an open type tag', (n) => 'vector<'.repeat(n), readTag],
  ['values of JSON', (n) => `[${list(n, () => '{"a":[1,true,null]}')}]`, readJson],
  ['members of JSON', (n) => `{${list(n, (at) => `"k${at}":"v"`)}}`, readJson],
  ['escapes of JSON', (n) => `"${'\\u0041\\n'.repeat(n)}"`, readJson],
  ['characters of JSON', (n) => `["${'a'.repeat(n)}"]`, readJson],
  ['digits of JSON', (n) => `[${'1'.repeat(n)}e]`, readJson],
  ['blanks of JSON', (n) => `[${' '.repeat(n)}1${' '.repeat(n)}`, readJson],
  ['brackets of JSON', (n) => list(n, () => '[[[[]]]]'), (text) => readJson(`[${text}]`)],
  ['values of a view', (n) => list(n, () => '{"a":"0x1"}'), readView],
  ['characters of a view', (n) => `"${'a'.repeat(n)}"`, readView],
  [
    'type arguments of a view',
    (n) => list(n, () => '"0x1::a::B<u8>"'),
    (text) => parseViewBody('application/json', view(text, '')),
  ],
];

await startCounting();

async function workOf(read: (text: string) => unknown, text: string): Promise<number> {
  return countWork(/\/src\/(?:ledger|proxy\/routes)\//, async () => {
    try {
      await read(text);
    } catch {
      // Refusing takes work as well.
    }
  });
}

/** Between these two, inside of all bounds: beyond them less is read. */
const [few, many] = [600, 1_200];
/** Of twice as many; squared it would be 4. Counts differ by a tenth with what V8 has compiled. */
const most = 2.6;

/** The most of some goes. In the first ones V8 has not compiled every function for counts of blocks, and counts fewer. */
async function settledWork(read: (text: string) => unknown, text: string): Promise<number> {
  const goes: number[] = [];
  while (goes.length < 6) goes.push(await workOf(read, text));
  return Math.max(...goes);
}

for (const [title, make, read] of rows) {
  test(`${title}: twice as many are twice the work`, async () => {
    await settledWork(read, make(many));
    const [small, large] = [await settledWork(read, make(few)), await settledWork(read, make(many))];

    assert.ok(small > 0);
    assert.ok(large <= small * most, `${small} and ${large} blocks`);
  });
}
