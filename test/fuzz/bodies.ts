/** Bodies of clients. */
import assert from 'node:assert/strict';
import { parseViewBody } from '../../src/proxy/routes/canonical-body.ts';
import { compileModule } from '../../src/encode/abi.ts';
import { Steps } from '../../src/encode/outcome.ts';
import { Address } from '../../src/ledger/type-tag.ts';
import { JsonError, JsonValue } from '../../src/ledger/json-value.ts';
import { bodyOf, encodeBy, moduleOf, moduleText } from '../encode/requests.ts';
import { fc } from '../support/fast-check.ts';
import { isRefusedByNodes } from '../support/node-json.ts';
import { changed, soup } from './soup.ts';
import { attempt, fuzzTarget } from './target.ts';
import { isRefusal } from './words.ts';

const jsonWords = [...'{ } [ ] " : , "a" "a": 0 - 1.5 e9 null true \\ d800 1e999'.split(' '), '\\u00', '\n', ' '];
const json = fc.oneof(soup(...jsonWords), changed(fc.json(), ...jsonWords));

const view = '{"function":"0x1::m::f","type_arguments":["0x1::a::B<u8>","vector<u8>"],"arguments":["1",{"a":[1.0]}]}';
const views = fc.oneof(
  changed(fc.constant(view), ...jsonWords, '0x1::m::f', '"type_arguments"', '"arguments"', '::', '<', '0x00'),
  soup(...jsonWords),
);

/** Bytes around those of a view in BCS: an address, two names behind their lengths, and more. */
const calls = fc
  .tuple(
    fc.uint8Array({ minLength: 31, maxLength: 33 }),
    fc.array(fc.tuple(fc.constantFrom('', 'a', 'coin', '_', 'a b', 'b'.repeat(130)), fc.integer({ min: -1, max: 1 })), {
      maxLength: 3,
    }),
    fc.uint8Array({ maxLength: 5 }),
  )
  .map(([address, names, rest]) => {
    const texts = names.map(([name, off]) => Buffer.from(bcsText(name, Math.max(0, name.length + off)), 'hex'));
    return new Uint8Array(Buffer.concat([address, ...texts, rest]));
  });

/** A name behind its length in ULEB128, as hex. */
function bcsText(name: string, length = name.length): string {
  const bytes = length < 128 ? [length] : [(length % 128) + 128, Math.floor(length / 128)];
  return Buffer.from(bytes).toString('hex') + Buffer.from(name).toString('hex');
}

/** The function of a view by other means than those of the gateway. */
function functionByBigInt(text: string): string {
  const [address = '', ...names] = (JSON.parse(text) as { readonly function: string }).function.split('::');
  const digits = address.startsWith('0x') ? address : `0x${address}`;
  return [`0x${BigInt(digits).toString(16)}`, ...names].join('::');
}

/** Values that readers of JSON differ in, and some on this side of each difference. */
const doubtful = fc.oneof(
  fc.constantFrom('"\\ud800"', '"\\udfff\\ud800"', '"\\ud83d\\ude00"', '"\\\\ud800"', '{"\\uD800":1}', '"\\u00zz"'),
  fc.constantFrom('1e999', '-1e309', '1e-999', '0e999', '1e308', '9e307', '01', '-', '1.', '.5', '+1', '1e+', 'NaN'),
  fc.nat(400).map((digits) => `1${'0'.repeat(digits)}.0e${300 - digits}`),
  fc.integer({ min: 120, max: 130 }).map((depth) => '['.repeat(depth) + ']'.repeat(depth)),
  fc.constantFrom(
    '{"a":1,"a":1}',
    '{"$serde_json::private::Number":"x"}',
    '"\u0000"',
    '"\u0001"',
    '\ufeff1',
    '"\ud800"',
  ),
  soup(...jsonWords),
);
/** A body with such a value in a member that nodes ignore, and in one that they read, in place of `argument`. */
const doubtfulIn = (body: string, argument: string): fc.Arbitrary<string> =>
  fc
    .tuple(doubtful, fc.boolean(), fc.constantFrom('', ' ', '\n\t', ',', '\u00a0', '\0'))
    .map(([value, isIgnored, end]) =>
      isIgnored ? `${body.slice(0, -1)},"x":${value}}${end}` : body.replace(argument, value) + end,
    );

const parameters = 'u8 u64 u128 address bool vector<u8> vector<u64> 0x1::string::String T0 &signer'.split(' ');
const types = fc.oneof(
  fc.constantFrom(...parameters, '0x1::option::Option<u64>', '0x1::object::Object<T0>'),
  soup(...parameters, '<', '>', ','),
);

/** A module whose function `f` has these parameters. */
const moduleTexts = fc
  .record({
    params: fc.array(types, { maxLength: 4 }),
    generics: fc.nat({ max: 2 }),
    fields: fc.array(types, { maxLength: 2 }),
  })
  .map(({ params, generics, fields }) => {
    const typed = fields.map((type) => ({ name: 'a', type }));
    return moduleText(params, generics, {
      structs: [{ name: 'S', is_native: false, generic_type_params: [], fields: typed }],
    });
  });
const abiWords = '"abi" "name" "params" "u8" [ ] { } null "" true "structs" "is_entry"'.split(' ');
const modules = fc.oneof(moduleTexts, changed(moduleTexts, ...abiWords));

const values = fc.oneof(
  fc.constantFrom('"1"', '"0xab"', '"0x"', '[]', '["1"]', 'true', 'null', '{"vec":[]}', '"18446744073709551616"', '1'),
  fc.json(),
);
const submissions = fc
  .record({
    types: fc.array(types, { maxLength: 2 }),
    list: fc.array(values, { maxLength: 4 }),
    u64: fc.constantFrom('0', '9', '-1', '18446744073709551616', '+1'),
  })
  .map(({ types, list, u64 }) => bodyOf({ types, values: `[${list.join()}]` }).replace('"0"', `"${u64}"`));
const encodable = bodyOf({ values: '["9"]' });
const encodableModule = moduleOf(['u64']);
const submissionWords = [
  ...jsonWords,
  '"multisig_payload"',
  '"script_payload"',
  '"secondary_signers":[],',
  '"replay_protection_nonce":"1",',
  '\ufffd',
  '\ud800',
];

export const bodyTargets = [
  fuzzTarget('JSON', json, (text) => {
    let fault: string | undefined;
    const value = attempt(
      () => JsonValue.parse(text),
      (error) => error instanceof JsonError && (fault = error.fault) !== undefined,
    );
    const plain = attempt(
      () => ({ value: JSON.parse(text) as unknown }),
      (error) => error instanceof SyntaxError,
    );
    if (plain === undefined) assert.equal(value, undefined);
    else if (value === undefined) assert.notEqual(fault, 'syntax');
    else {
      const canonical = JsonValue.canonical(value);
      assert.equal(JsonValue.canonical(JsonValue.parse(canonical)), canonical);
      assert.deepEqual(JSON.parse(canonical), plain.value);
    }
  }),
  fuzzTarget('view body', fc.oneof(views, doubtfulIn(view, '"1"')), (text) => {
    const read = attempt(() => parseViewBody('application/json', Buffer.from(text)), isRefusal);
    if (read === undefined) return;
    const again = parseViewBody('application/json', read.bytes);
    assert.equal(again.subject, read.subject);
    assert.ok(again.bytes.equals(read.bytes));
    assert.match(read.subject, /^(?:json|text):/);
    if (read.subject.startsWith('json:')) assert.equal(isRefusedByNodes(Buffer.from(text)), false);
    const padded = ' '.repeat(9_000) + text;
    const { functionId } = parseViewBody('application/json', Buffer.from(padded), { isRestricted: true });
    assert.equal(functionId, read.functionId);
    assert.equal(functionId !== undefined, read.subject.startsWith('json:'));
    if (functionId !== undefined) assert.equal(functionId, functionByBigInt(text));
  }),
  fuzzTarget('view body, bytes', fc.oneof(fc.uint8Array({ maxLength: 200 }), calls), (bytes) => {
    attempt(() => parseViewBody('application/json', Buffer.from(bytes)), isRefusal);
    const bcs = parseViewBody('application/x.aptos.view_function+bcs', Buffer.from(bytes));
    assert.ok(bcs.bytes.equals(bytes));
    if (bcs.functionId === undefined) return;
    const [address = '', module = '', name = ''] = bcs.functionId.split('::');
    const written = [address.slice(2).padStart(64, '0'), ...[module, name].map((text) => bcsText(text))].join('');
    assert.ok(bcs.bytes.toString('hex').startsWith(written));
  }),
  fuzzTarget('encode request', fc.tuple(changed(submissions, ...submissionWords), modules), async ([text, module]) => {
    const outcome = await encodeBy(compileModule(module), text);
    if (outcome.kind === 'encoded') assert.match(outcome.hex, /^0x(?:[0-9a-f]{2})+$/);
    else assert.notDeepEqual(outcome, { kind: 'forward', reason: 'encoder fault' });
    if (outcome.kind === 'encoded') assert.equal(isRefusedByNodes(Buffer.from(text)), false);
  }),
  fuzzTarget('encode request, JSON that readers differ in', doubtfulIn(encodable, '"9"'), async (text) => {
    const outcome = await encodeBy(encodableModule, text);
    if (outcome.kind === 'encoded') assert.equal(isRefusedByNodes(Buffer.from(text)), false);
  }),
  fuzzTarget('module', fc.oneof(modules, soup(...jsonWords, ...abiWords)), (text) => {
    const { address, abi } = compileModule(text);
    if (address !== undefined) assert.equal(Address.find(address), address);
    abi?.findEntryFunction('f', new Steps());
    abi?.findStruct('S', new Steps());
    for (const name of ['__proto__', 'constructor', 'toString']) {
      assert.equal(abi?.findEntryFunction(name, new Steps()), undefined);
      assert.equal(abi?.findStruct(name, new Steps()), undefined);
    }
  }),
];
