// The skim of an answer finds what a parse of it would.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonBody } from '../../src/ledger/answer-body.ts';
import { JsonSkim, type JsonFacts } from '../../src/ledger/json-skim.ts';
import { fc } from '../support/fast-check.ts';

function skim(text: string, stepBytes = Infinity): JsonFacts | undefined {
  const one = new JsonSkim(Buffer.from(text));
  while (!one.step(stepBytes));
  return one.facts;
}

/** The value of `JSON.parse`; `undefined`: no JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function assertSame(text: string, stepBytes: number): void {
  const facts = skim(text, stepBytes);
  const value = parse(text);
  assert.equal(facts !== undefined, value !== undefined, text);
  if (facts === undefined) return;
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  const kind = Array.isArray(value) ? 'array' : isObject ? 'object' : typeof value === 'number' ? 'number' : 'other';
  assert.equal(facts.kind, kind, text);
  assert.equal(facts.items, Array.isArray(value) ? value.length : undefined, text);
  const members = (isObject ? value : {}) as Readonly<Record<string, unknown>>;
  for (const name of read) {
    const member = Object.hasOwn(members, name) ? members[name] : undefined;
    assert.deepEqual(facts.members[name], typeof member === 'object' ? null : member, text);
  }
  assert.equal(facts.names.length > 0, Object.keys(members).length > 0, text);
}

/** Members that readers of answers ask for. */
const read = ['error_code', 'message', 'version', 'hash', 'success', 'block_height', 'chain_id'];

const value = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(null, true, false),
    fc.string({ unit: 'grapheme' }),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.array(tie('value')),
    fc.dictionary(fc.oneof(fc.constantFrom(...read), fc.string({ unit: 'grapheme' })), tie('value')),
  ),
})).value;
const spacing = fc.constantFrom(undefined, '\t', 2);
const stepBytes = fc.integer({ min: 1, max: 40 });

test('whatever JSON.stringify writes is read as JSON.parse reads it, in steps of any length', () => {
  fc.assert(
    fc.property(value, spacing, stepBytes, (any, space, bytes) => {
      assertSame(JSON.stringify(any, undefined, space), bytes);
    }),
    { numRuns: 1_000 },
  );
});

test('a text with a flaw is refused exactly when JSON.parse refuses it', () => {
  const flaw = fc.constantFrom(...'|"|\\|\\u12|\\u00e9|,|:|{|}|[|]|0|-|.|e|x| '.split('|'));
  fc.assert(
    fc.property(value, flaw, fc.nat(), fc.nat(2), stepBytes, (any, text, place, dropped, bytes) => {
      const whole = JSON.stringify(any);
      const at = place % (whole.length + 1);
      const flawed = whole.slice(0, at) + text + whole.slice(at + dropped);
      // A half of a surrogate pair is none in UTF-8.
      if (flawed.isWellFormed()) assertSame(flawed, bytes);
    }),
    { numRuns: 10_000 },
  );
});

test('any byte in a long string is judged as JSON.parse judges it, wherever the string stands in memory', () => {
  const memory = Buffer.alloc(400);
  const place = { byte: fc.nat(255), at: fc.nat(150), from: fc.nat(7), stepBytes: fc.integer({ min: 1, max: 200 }) };
  fc.assert(
    fc.property(fc.record(place), ({ byte, at, from, stepBytes: bytes }) => {
      const text = memory.subarray(from, from + memory.write(`["${'~'.repeat(150)}\\n"]`, from));
      text[2 + at] = byte;
      const one = new JsonSkim(text);
      while (!one.step(bytes));
      assert.equal(one.facts !== undefined, parse(text.toString()) !== undefined, text.toString('latin1'));
    }),
    { numRuns: 3_000 },
  );
});

test('texts of single tokens, complete and not, are read as JSON.parse reads them', () => {
  const texts = [
    ['', ' ', '0', '-0', '01', '-', '1.', '.5', '1.5', '1e', '1e+', '1E-5', '1e5.', '+1', 'true', 'tru'],
    ['truee', 'nul', 'null ', '"', '"a', '"\\', '"\\u', '"\\u00g0"', '"\\x"', '"\t"', '"\u007f"', '[', ']'],
    ['[,]', '[1,]', '[1 2]', '{', '}', '{,}', '{"a"}', '{"a":}', '{"a":1,}', '{"a":1 "b":2}', '{1:2}', '[}'],
    ['{]', '[1}', '{"a":1]', '1 2', '[] []', '\ufeff1', '\u00a01', 'NaN', '/**/1'],
    ['{"version":"1","version":"2"}', '{"versio\\u006e":"3"}', '{"__proto__":{"a":1}}'],
  ].flat();
  for (const text of texts) for (const bytes of [1, 2, Infinity]) assertSame(text, bytes);
});

test('long texts and nested values of members are known by their kind', () => {
  const long = 'a'.repeat(1_023);
  const facts = skim(
    JSON.stringify({ message: long, error_code: '', type: { a: 1 }, hash: long.slice(1), other: 1, more: 2 }),
  );
  assert.deepEqual(facts?.members, { message: '', error_code: '', type: null, hash: long.slice(1), '': null });
  assert.deepEqual(facts.names, ['message', 'error_code', 'type', 'hash', '']);
});

test('nesting is read to depth 1,024, and a number of 4,096 bytes', () => {
  assert.equal(skim('['.repeat(1_024) + ']'.repeat(1_024))?.items, 1);
  assert.equal(skim('['.repeat(1_025) + ']'.repeat(1_025)), undefined);
  assert.equal(skim('9'.repeat(4_096))?.kind, 'number');
  assert.equal(skim('9'.repeat(4_097)), undefined);
});

const forms: readonly (readonly [title: string, text: string])[] = [
  ['an error', '{"message":"m","error_code":"version_pruned","vm_error_code":null}'],
  ['an error with another member', '{"message":"m","error_code":"version_pruned","data":1}'],
  ['a transaction', '{"type":"user_transaction","version":"7","hash":"0x1","success":true,"changes":[{"a":[1]}]}'],
  ['an object without members', '{}'],
  ['a list', '[{"version":"1"},{"version":"2"},[3]]'],
  ['a number', '5'],
  ['a text', '"a"'],
  ['a cut object', '{"version":"7"'],
];

function factsOf(json: JsonBody) {
  const { isJson, isClosed, isObject, isError, list } = json;
  const { version, success, hash, error_code: code } = json.members;
  return { isJson, isClosed, isObject, isError, items: list?.count, version, success, hash, code };
}

for (const [title, text] of forms) {
  test(`${title} has the same facts at any size, and when it is read in turns`, async () => {
    const small = new JsonBody(Buffer.from(text));
    const skimmed = new JsonBody(Buffer.from(text.padEnd(17_000)));
    const large = new JsonBody(Buffer.from(text.padEnd(200_000)));

    assert.deepEqual(
      [small, skimmed].map((json) => json.readInTurns('a')),
      [undefined, undefined],
    );
    await large.readInTurns('a');

    assert.deepEqual([skimmed, large].map(factsOf), [small, small].map(factsOf));
    assert.equal(factsOf(small).isJson, title !== 'a cut object');
  });
}

test('large JSON is read in pieces, and JSON above 1 MiB not at all', async () => {
  const body = Buffer.from(JSON.stringify(Array.from({ length: 100_000 }, () => [0])));
  let turns = 0;
  let next = setImmediate(function count() {
    turns += 1;
    next = setImmediate(count);
  });
  const sixteen = Array.from({ length: 16 }, () => new JsonBody(body));
  await Promise.all(sixteen.map(async (json) => json.readInTurns('a')));
  clearImmediate(next);

  assert.deepEqual(new Set(sixteen.map(({ list }) => list?.count)), new Set([100_000]));
  assert.ok(turns > 16, `${turns} turns for others`);
  const opaque = new JsonBody(Buffer.from('0'.padEnd(1024 * 1024 + 1)));
  assert.deepEqual([opaque.readInTurns('a'), opaque.isOpaque, opaque.isJson], [undefined, true, false]);
});

test('a skim that keeps items has the place of each object and array', () => {
  const nested = fc.oneof(fc.array(value), fc.dictionary(fc.string({ unit: 'grapheme' }), value));
  fc.assert(
    fc.property(fc.array(nested), spacing, stepBytes, (items, space, bytes) => {
      const text = Buffer.from(JSON.stringify(items, undefined, space));
      const one = new JsonSkim(text, true);
      while (!one.step(bytes));
      const ranges = one.facts?.ranges ?? assert.fail();

      assert.deepEqual(
        ranges.map(([index, from, to]) => [index, JSON.parse(text.toString('utf8', from, to)) as unknown]),
        items.map((item, index) => [index, JSON.parse(JSON.stringify(item))]),
      );
      assert.equal(skim(text.toString())?.ranges, undefined);
    }),
    { numRuns: 200 },
  );
});

const places = async (text: string) => JsonBody.items(Buffer.from(text), '');

test('items are those of an array of objects and arrays alone', async () => {
  assert.deepEqual(await places(' [{} ,[1,{}]]'), [
    [0, 2, 4],
    [1, 6, 12],
  ]);
  assert.deepEqual(await places('[]'), []);
  for (const text of ['[{},1]', '["{}"]', '[null]', '{"a":[{}]}', '{}', '1', '[{}', '[{}],', '']) {
    assert.equal(await places(text), undefined, text);
  }
});
