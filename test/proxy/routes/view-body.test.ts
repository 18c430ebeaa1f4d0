import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digestInTurns, parseViewBody } from '../../../src/proxy/routes/canonical-body.ts';
import { GatewayError } from '../../../src/ledger/errors.ts';

function body(values: string, { types = '', space = '' } = {}): Buffer {
  return Buffer.from(`{${space}"function":"0x1::a::f","type_arguments":[${types}],"arguments":[${values}]}`);
}

/** With another member, which nodes read and then ignore. */
function bare(member: string): Buffer {
  return Buffer.from(`{"function":"0x1::a::f","type_arguments":[],"arguments":[]${member}}`);
}

function subjectOf(bytes: Buffer): string {
  return parseViewBody('application/json', bytes).subject;
}

const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);

test('spellings of a body of usual size share a canonical form', () => {
  assert.equal(subjectOf(body('1,2')), subjectOf(body('1,\n2', { space: '  ' })));
  assert.match(subjectOf(body('1,2')), /^json:/);
});

const none = Buffer.alloc(0);
const types = (last: string): Buffer => body('', { types: `"u8","|u64|u64 has ${last}"` });
/** By what they have, two bodies whose bytes differ. */
const unread: Readonly<Record<string, readonly Buffer[]>> = {
  'above 8 kB': ['', 'b'].map((end) => body(`"${'a'.repeat(8 * 1024)}${end}"`)),
  'with a key that nodes keep for numbers': [
    body('{"a":"1","$serde_json::private::Number":"2"}'),
    body('{"$serde_json::private::Number":"2","a":"1"}'),
  ],
  'with an escape in such a key': ['\\u0024', '$'].map((sign) => body(`{"${sign}serde_json::private::Number":"2"}`)),
  'with half of a pair in a member that nodes ignore': [bare(',"x":"\\ud800"'), bare(',"x":"\\udc00"')],
  'with half of a pair behind another': ['\\ud83d', '\\ude00'].map((half) => bare(`,"x":["\\ud83d${half}\\ude00"]`)),
  'with half of a pair in a key': [bare(',"x":{"a\\uDFFF":0}'), bare(',"x":{"a\\uDFFE":0}')],
  'with half of a pair in an argument': [body('"\\ud800"'), body('"\\ud801"')],
  'with a number that no double holds': [bare(',"x":1e999'), bare(',"x":-1e999')],
  'with a number of very many digits': [400, 401].map((digits) => bare(`,"x":${'9'.repeat(digits)}`)),
  'with a number at the edge of a double': [
    bare(',"x":[17976931348623158e292]'),
    bare(',"x":[1.7976931348623158e308]'),
  ],
  'with a number out of range in an argument': [body('1E+400'), body('1E+401')],
  'with a key written twice': [body('{"a":1,"a":2}'), body('{"a":2,"a":1}')],
  'with type arguments that only newer nodes may know': [types('copy'), types('drop')],
  'of 8 MB that is not even JSON': [Buffer.alloc(8 << 20, '0,'), Buffer.alloc(8 << 20, '1,')],
};

for (const [title, [bytes = none, other = none]] of Object.entries(unread)) {
  test(`a body ${title} is sent as it came, under a short key of all its bytes`, () => {
    const view = parseViewBody('application/json', bytes);

    assert.equal(view.bytes, bytes);
    assert.match(view.subject, /^text:.{43}$/);
    assert.equal(subjectOf(Buffer.from(bytes)), view.subject);
    assert.notEqual(subjectOf(other), view.subject);
    assert.notEqual(parseViewBody('application/x.aptos.view_function+bcs', bytes).subject, view.subject);
  });
}

test('a large body is hashed in turns, and keyed as if it had been hashed at once', async () => {
  const bytes = Buffer.alloc(8 << 20, '0,');
  let turns = 0;
  const takeTurn = (): void => {
    turns += 1;
    next = setImmediate(takeTurn);
  };
  let next = setImmediate(takeTurn);

  const digest = await digestInTurns(bytes);

  clearImmediate(next);
  assert.ok(turns >= 60, `${turns} turns for others`);
  for (const contentType of ['application/json', 'application/x.aptos.view_function+bcs'] as const) {
    assert.deepEqual(parseViewBody(contentType, bytes, { digest }), parseViewBody(contentType, bytes));
  }
});

test('a body that every node reads has a canonical form, however near it is to a bound', () => {
  const plain = subjectOf(bare(''));
  const taken = ['"\\ud83d\\ude00"', '"\\\\ud800"', '1e-999', '0e999', '1e307', '9'.repeat(308), nested(126)];
  for (const value of taken) assert.equal(subjectOf(bare(`,"x":${value}`)), plain, value);
});

test('a body that is nested deeper than nodes read is refused with 400', () => {
  assert.throws(() => subjectOf(bare(`,"x":${nested(127)}`)), /nested deeper than 127/);
  assert.throws(() => subjectOf(body(nested(126))), /nested deeper than 127/);
  assert.match(subjectOf(body(nested(125))), /^json:/);
});

test('the canonical form is sent, and is the key', () => {
  const types = ' "0x01::coin::Coin<0x0001::a::B>" , "u8"';
  const view = parseViewBody('application/json', body('{"b":1, "a":[true,null]},"x"', { types, space: ' ' }));
  const canonical =
    '{"function":"0x1::a::f","type_arguments":["0x1::coin::Coin<0x1::a::B>","u8"],"arguments":[{"a":[true,null],"b":1},"x"]}';
  assert.equal(view.subject, `json:${canonical}`);
  assert.equal(view.bytes.toString(), canonical);
});

test('a body in BCS is its own canonical form', () => {
  const bytes = body('1,2');
  const view = parseViewBody('application/x.aptos.view_function+bcs', bytes);
  assert.match(view.subject, /^bcs:.{43}$/);
  assert.equal(view.bytes, bytes);
});

/** A body of so many bytes. */
function sized(bytes: number): Buffer {
  return body(`"${'a'.repeat(bytes - body('""').length)}"`);
}

test('a body of 8 kB is read, and a larger one is not', () => {
  const forms = [sized(8 * 1024), sized(8 * 1024 + 1)].map((bytes) => subjectOf(bytes).slice(0, 5));
  assert.deepEqual(forms, ['json:', 'text:']);
});

test('a larger body is not even decoded: the node judges it', () => {
  const bytes = Buffer.alloc(8 * 1024 + 1, 0xff);
  assert.equal(parseViewBody('application/json', bytes).bytes, bytes);
});

test('bodies at the bound with as many values or escapes as fit have a canonical form', () => {
  const room = 8 * 1024 - body('').length;
  for (const dense of [body(`[${'0,'.repeat(room / 2 - 2)}0]`), body(`"${'\\n'.repeat(room / 2 - 1)}"`)]) {
    assert.ok(dense.length > 8 * 1024 - 4 && dense.length <= 8 * 1024, `${dense.length} bytes`);
    assert.match(subjectOf(dense), /^json:/);
  }
});

const whole = body('').toString();
const noList = (name: string): string => `"${name}" is missing or not an array`;
const noFunction = '"function" is missing or not a string';

/** Bodies and the begin of their error, behind `parse request payload error: `. */
const wrong: readonly (readonly [body: string | Buffer, message: string])[] = [
  ['', ''],
  [' \n', ''],
  ['{', ''],
  [whole.slice(0, -1), ''],
  [`${whole}{}`, ''],
  [whole.replace(/\}$/, ',}'), ''],
  [whole.replaceAll('"', "'"), ''],
  [`\ufeff${whole}`, 'expected a value'],
  [Buffer.from([0x22, 0xff, 0x22]), 'the body is not UTF-8'],
  [
    Buffer.concat([Buffer.from(whole.slice(0, -2)), Buffer.from([0x22, 0xff, 0x22, 0x5d, 0x7d])]),
    'the body is not UTF-8',
  ],
  // An overlong encoding of a slash.
  [Buffer.from([0x22, 0xc0, 0xaf, 0x22]), 'the body is not UTF-8'],
  ['null', 'an object is expected'],
  ['[]', 'an object is expected'],
  ['"x"', 'an object is expected'],
  ['{}', noList('type_arguments')],
  ['{"type_arguments":null}', noList('type_arguments')],
  ['{"type_arguments":"x"}', noList('type_arguments')],
  ['{"type_arguments":{}}', noList('type_arguments')],
  ['{"type_arguments":[1]}', '"type_arguments" holds something that is not a string'],
  ['{"type_arguments":[]}', noList('arguments')],
  ['{"type_arguments":[],"arguments":null}', noList('arguments')],
  ['{"type_arguments":[],"arguments":{}}', noList('arguments')],
  ['{"type_arguments":[],"arguments":[]}', noFunction],
  ['{"type_arguments":[],"arguments":[],"function":5}', noFunction],
  ...['f', '0x1::f', '0x1::m::f::g', '0X1::m::f'].map(
    (id) => [`{"type_arguments":[],"arguments":[],"function":"${id}"}`, `invalid entry function ID "${id}"`] as const,
  ),
  [`{"type_arguments":[],"arguments":${'['.repeat(8_000)}`, ''],
];

for (const [text, message] of wrong) {
  test(`the body ${JSON.stringify(text.toString()).slice(0, 100)} is refused: ${message}`, () => {
    assert.throws(
      () => parseViewBody('application/json', Buffer.from(text)),
      (error) =>
        error instanceof GatewayError &&
        error.fault === 'malformed' &&
        error.message.startsWith(`parse request payload error: ${message}`),
    );
  });
}

test('an error keeps the fault of an unreadable body as its cause', () => {
  for (const bytes of [Buffer.from('{'), Buffer.from([0xff])]) {
    assert.throws(
      () => parseViewBody('application/json', bytes),
      (error) => error instanceof GatewayError && error.cause instanceof Error,
    );
  }
});
