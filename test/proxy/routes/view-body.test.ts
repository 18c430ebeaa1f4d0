import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { digestInTurns, parseViewBody, parseTableBody } from '../../../src/proxy/routes/canonical-body.ts';

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

// The function of a view, as rights by function see it: canonical, or not certain.

const bcsType = 'application/x.aptos.view_function+bcs';

interface Spelling {
  readonly name?: string;
  readonly types?: string;
  readonly values?: string;
  readonly more?: string;
}

function json({ name = '"0x1::coin::balance"', types = '', values = '', more = '' }: Spelling): Buffer {
  return Buffer.from(`{"function":${name},"type_arguments":[${types}],"arguments":[${values}]${more}}`);
}

function functionOf(bytes: Buffer, isRestricted = true): string | undefined {
  return parseViewBody('application/json', bytes, { isRestricted }).functionId;
}

test('every spelling of a function in JSON is one function', () => {
  for (const name of [
    '"0x1::coin::balance"',
    '"1::coin::balance"',
    `"0x${'0'.repeat(63)}1::coin::balance"`,
    '"0x0001::\\u0063oin::balanc\\u0065"',
    '"0x1\\u003A:coin::balance"',
  ]) {
    assert.equal(functionOf(json({ name })), '0x1::coin::balance', name);
  }
  assert.equal(functionOf(json({ name: '"0xABC::M::f"' })), '0xabc::M::f');
  const reordered = '\n{ "arguments":[], "type_arguments":[], "functio\\u006e" : "0x01::a::b" }';
  assert.equal(functionOf(Buffer.from(reordered)), '0x1::a::b');
});

test('a body that nodes may read otherwise has no certain function', () => {
  const bodies: Readonly<Record<string, Buffer>> = {
    'the function twice': json({ more: ',"function":"0x1::a::b"' }),
    'the function twice, once escaped': json({ more: ',"\\u0066unction":"0x1::a::b"' }),
    'another member twice': json({ values: '{"a":1,"a":2}' }),
    'a member that nodes keep for numbers': json({ more: ',"x":{"$serde_json::private::Number":"1"}' }),
    'half of a pair': json({ more: ',"x":"\\ud800"' }),
    'a number beyond doubles': json({ values: '1e999' }),
    'a type of newer nodes': json({ types: '"|u64|u64 has copy"' }),
    'more values than are parsed': json({ values: `${'0,'.repeat(6_000)}0` }),
  };
  for (const [title, bytes] of Object.entries(bodies)) assert.equal(functionOf(bytes), undefined, title);
});

test('a large view is parsed for a client with rights by function alone, under the same key', () => {
  const large = json({ name: '"0x01::coin::balance"', values: `"${'a'.repeat(60_000)}"` });
  const [restricted, other] = [true, false].map((isRestricted) =>
    parseViewBody('application/json', large, { isRestricted }),
  );
  assert.equal(restricted?.functionId, '0x1::coin::balance');
  assert.equal(other?.functionId, undefined);
  assert.equal(restricted?.subject, other?.subject);
  // The node gets the text whose function was read.
  assert.match(String(restricted?.bytes), /^\{"function":"0x1::coin::balance",/);
  assert.equal(other?.bytes, large);

  assert.equal(functionOf(json({ values: `"${'a'.repeat(65_600)}"` })), undefined);
});

const address = `${'00'.repeat(31)}01`;

/** `hex`: the names behind the address of 32 bytes. */
function functionInBcs(hex: string): string | undefined {
  return parseViewBody(bcsType, Buffer.from(address + hex, 'hex')).functionId;
}

const text = (name: string): string => Buffer.from(name).toString('hex');

test('the function of a view in BCS is read from its bytes', () => {
  // The address, then "coin" and "balance" behind their lengths, no type arguments, no arguments.
  const called = `04${text('coin')}07${text('balance')}`;
  assert.equal(functionInBcs(`${called}0000`), '0x1::coin::balance');
  assert.equal(functionInBcs(`${called}ffff`), '0x1::coin::balance', 'arguments are the node’s');
  const long = 'a'.repeat(200);
  // 200 is c8 01 in ULEB128.
  assert.equal(functionInBcs(`04${text('coin')}c801${text(long)}0000`), `0x1::coin::${long}`);
});

test('bytes that are no canonical BCS of a function have none', () => {
  const rows: Readonly<Record<string, string>> = {
    'a length in a longer form': `04${text('coin')}8700${text('balance')}0000`,
    'a length of three bytes': `04${text('coin')}878000${text('balance')}0000`,
    'a length beyond the end': `04${text('coin')}08${text('balance')}`,
    'the end within the second byte of a length': `04${text('coin')}87`,
    'an empty name': `0400${text('balance')}`,
    'a name with a colon': `0a${text('coin::coin')}07${text('balance')}0000`,
    'a name beyond ASCII': `05${text('coïn')}07${text('balance')}0000`,
    'a NUL behind a name': `05${text('coin')}0007${text('balance')}0000`,
    'one name': `04${text('coin')}`,
    'no name': '',
  };
  for (const [title, hex] of Object.entries(rows)) assert.equal(functionInBcs(hex), undefined, title);
  assert.equal(parseViewBody(bcsType, Buffer.from(address.slice(2), 'hex')).functionId, undefined);
  assert.equal(parseViewBody(bcsType, Buffer.alloc(0)).functionId, undefined);
});

// Canonical bodies of requests for table items.

type Operation = Parameters<typeof parseTableBody>[0];

function parse(operation: Operation, text: string, digest?: string) {
  const { subject, bytes } = parseTableBody(operation, Buffer.from(text), digest);
  return { subject, sent: String(bytes) };
}

const item = '{"key_type":"address","value_type":"0x1::a::B<0x2::c::D, u8>","key":"0x01"}';

const canonical: readonly (readonly [claim: string, operation: Operation, text: string, expected: string])[] = [
  ['an item in its canonical form', 'table_item', item, item],
  [
    'an item with members in another order and types in another spelling',
    'table_item',
    '{ "key": "0x01", "value_type": "0x01::a::B<0x0002::c::D,u8>", "key_type": " address" }',
    item,
  ],
  [
    'a key of any JSON value, numbers as they are spelled',
    'table_item',
    '{"key_type":"u64","value_type":"bool","key":{"b":1.0,"a":[null]}}',
    '{"key_type":"u64","value_type":"bool","key":{"a":[null],"b":1.0}}',
  ],
  ['a raw item', 'raw_table_item', '{ "key" : "0x01" }', '{"key":"0x01"}'],
];

for (const [claim, operation, text, expected] of canonical) {
  test(`${claim} is sent and keyed in its canonical form`, () => {
    assert.deepEqual(parse(operation, text), { subject: `json:${expected}`, sent: expected });
  });
}

const unchanged: readonly (readonly [claim: string, operation: Operation, text: string])[] = [
  ['an item with a fourth member', 'table_item', '{ "key_type":"u8","value_type":"u8","key":1,"more":2}'],
  ['an item with a key type of newer nodes', 'table_item', '{ "key_type":"|u8|u8","value_type":"u8","key":1}'],
  ['an item with a value type of newer nodes', 'table_item', '{ "key_type":"u8","value_type":"|u8|u8","key":1}'],
  ['an item above 8 kB', 'table_item', `{ "key_type":"u8","value_type":"u8","key":"${'a'.repeat(8 * 1024)}"}`],
  ['a raw item with a second member', 'raw_table_item', '{ "key":"0x01","key_type":"u8"}'],
];

for (const [claim, operation, text] of unchanged) {
  test(`${claim} is sent as it came, under a key of all its bytes`, () => {
    const { subject, sent } = parse(operation, text);
    assert.equal(sent, text);
    assert.match(subject, /^text:[\w-]{43}$/);
    assert.notEqual(parse(operation, `${text} `).subject, subject);
    assert.equal(parse(operation, text, 'a digest').subject, 'text:a digest');
  });
}

const refused: readonly (readonly [operation: Operation, text: string, message: string])[] = [
  ['table_item', '{"key_type":"u8","value_type":"u8"}', '"key" is missing'],
  ['table_item', '{"value_type":"u8","key":1}', '"key_type" holds something that is not a string'],
  ['table_item', '{"key_type":"u8","key":1}', '"value_type" holds something that is not a string'],
  ['table_item', '{"key_type":"u8","value_type":8,"key":1}', '"value_type" holds something that is not a string'],
  ['raw_table_item', '{}', '"key" is missing'],
  ['raw_table_item', '[]', 'an object is expected'],
];

for (const [operation, text, message] of refused) {
  test(`the ${operation} ${text} is refused: ${message}`, () => {
    assert.throws(
      () => parse(operation, text),
      (error) =>
        error instanceof GatewayError &&
        error.fault === 'malformed' &&
        error.message === `parse request payload error: ${message}`,
    );
  });
}
