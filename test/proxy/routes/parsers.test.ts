/** Parsers of the routes: their refusals and their reads. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { parseTransactionHash, Submissions } from '../../../src/proxy/routes/submissions.ts';
import { transactionRead, viewRead } from '../../../src/proxy/routes/parse-read.ts';
import { tableItemRead } from '../../../src/proxy/routes/parse-read.ts';
import { fc } from '../../support/fast-check.ts';
import { keyOf, readModule, readResource, readTransaction, readView } from '../../support/reads.ts';

const view = '{"function":"0x1::m::f","type_arguments":[],"arguments":[]}';

function statusOf(parse: () => unknown): number {
  try {
    parse();
    return 200;
  } catch (error) {
    assert.ok(error instanceof GatewayError, String(error));
    return error.status;
  }
}

test('routes parse any input or refuse it with 400', () => {
  const soup = fc
    .array(
      fc.oneof(
        fc.constantFrom('0x1', '::', '<', '>', ',', 'u8', '{', '}', '[', ']', '"', ':', '\\u00'),
        fc.string({ unit: 'binary' }),
      ),
    )
    .map((pieces) => pieces.join(''));
  fc.assert(
    fc.property(soup, soup, (a, b) => {
      const query = `?ledger_version=${encodeURIComponent(a.toWellFormed())}`;
      const parses = [
        () => readResource(a, b),
        () => readResource('0x1', b, { query }),
        () => readModule(a, b),
        () => readModule('0x1', b),
        () => readTransaction(a),
        () => readView(a),
        () =>
          readView(
            view.replace('0x1::m::f', () => b),
            { query: `?${b}`, accept: a },
          ),
      ];
      for (const parse of parses) assert.ok([200, 400].includes(statusOf(parse)));
    }),
    { numRuns: 3000 },
  );
});

test('a body of any bytes is parsed or refused with 400; nodes judge BCS bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
      assert.ok([200, 400].includes(statusOf(() => readView(Buffer.from(bytes)))));
      const bcs = readView(Buffer.from(bytes), { contentType: 'application/x.aptos.view_function+bcs' });
      assert.deepEqual(bcs.wire.body, Buffer.from(bytes));
    }),
    { numRuns: 2000 },
  );
});

const refusedBodies: readonly (readonly [string, string | Buffer])[] = [
  ['nothing', ''],
  ['white space', ' \n'],
  ['a list', '[]'],
  ['null', 'null'],
  ['a cut-off object', view.slice(0, -1)],
  ['a second value', `${view}{}`],
  ['a trailing comma', view.replace(/\}$/, ',}')],
  ['single quotes', view.replaceAll('"', "'")],
  ['a byte order mark', `\ufeff${view}`],
  ['bytes that are not UTF-8', Buffer.from([...Buffer.from(view.slice(0, -2)), 0x22, 0xff, 0x22, 0x5d, 0x7d])],
  ['an overlong encoding', Buffer.from([0x22, 0xc0, 0xaf, 0x22])],
  ['no function', '{"type_arguments":[],"arguments":[]}'],
  ['no type arguments', '{"function":"0x1::m::f","arguments":[]}'],
  ['no arguments', '{"function":"0x1::m::f","type_arguments":[]}'],
  ['null for arguments', '{"function":"0x1::m::f","type_arguments":[],"arguments":null}'],
  ['an object for arguments', '{"function":"0x1::m::f","type_arguments":[],"arguments":{}}'],
  ['a number for a type argument', '{"function":"0x1::m::f","type_arguments":[8],"arguments":[]}'],
  ['a number for the function', '{"function":1,"type_arguments":[],"arguments":[]}'],
  ['a function without module', '{"function":"0x1::f","type_arguments":[],"arguments":[]}'],
  ['a function with four parts', '{"function":"0x1::m::f::g","type_arguments":[],"arguments":[]}'],
  ['a function of an upper-case prefix', '{"function":"0X1::m::f","type_arguments":[],"arguments":[]}'],
  ['nesting without end', `{"function":"0x1::m::f","type_arguments":[],"arguments":${'['.repeat(8_000)}`],
];

for (const [what, body] of refusedBodies) {
  test(`a view body with ${what} is refused with 400`, () => {
    assert.equal(
      statusOf(() => readView(body)),
      400,
    );
  });
}

const contentTypes: readonly (readonly [string | undefined, number])[] = [
  ['application/json', 200],
  ['application/x.aptos.view_function+bcs', 200],
  [undefined, 415],
  ['', 415],
  ['application/json; charset=utf-8', 415],
  ['APPLICATION/JSON', 415],
  ['text/plain', 415],
  ['application/x.aptos.signed_transaction+bcs', 415],
];

for (const [contentType, status] of contentTypes) {
  test(`a view with content type ${JSON.stringify(contentType)} is answered ${status}, as nodes do`, () => {
    const request = { target: '/v1/view', accept: undefined, contentType, body: Buffer.from(view) };
    assert.equal(
      statusOf(() => viewRead(request)),
      status,
    );
  });
}

test('the request to the node is made of canonical parts alone', () => {
  const resource = readResource('0x00A', ' 0X01::a::B<u8,> ', { query: '?x=y&ledger_version=%2B007', accept: '*/*' });
  assert.deepEqual(resource.wire, {
    method: 'GET',
    path: '/accounts/0xa/resource/0x1%3A%3Aa%3A%3AB%3Cu8%3E?ledger_version=7',
    headers: { accept: 'application/json' },
  });
  assert.deepEqual(resource.need, { kind: 'version', version: 7n });
  const module = readModule('1', 'coin', { query: '', accept: 'application/x-bcs' });
  assert.deepEqual(module.wire, {
    method: 'GET',
    path: '/accounts/0x1/module/coin',
    headers: { accept: 'application/x-bcs' },
  });
  assert.deepEqual(module.need, { kind: 'head' });
});

test('the form of the answer is part of the key in every route', () => {
  const accept = 'application/x-bcs';
  const pairs = [
    [readResource('0x1', '0x1::a::B'), readResource('0x1', '0x1::a::B', { accept })],
    [readModule('0x1', 'coin'), readModule('0x1', 'coin', { accept })],
    [readView(view), readView(view, { accept })],
    [readTransaction('ab'.repeat(32)), readTransaction('ab'.repeat(32), { accept })],
  ] as const;
  for (const [json, bcs] of pairs) assert.notEqual(keyOf(json), keyOf(bcs));
});

test('a module name that is no identifier is refused with 400', () => {
  for (const name of ['', '1a', 'a b', 'a-b', '..', 'a/b', '%61', 'a\0', '\u00e4']) {
    assert.equal(
      statusOf(() => readModule('0x1', name)),
      400,
      name,
    );
  }
});

test('a malformed version is refused ahead of a malformed body', () => {
  const target = '/view?ledger_version=abc';
  const request = { target, accept: undefined, contentType: 'application/json', body: Buffer.from('{') };
  assert.throws(() => viewRead(request), /ledger_version/);
  assert.throws(() => tableItemRead('table_item', { handle: '0x1' }, request), /ledger_version/);
});

const hash = `0x${'ab'.repeat(32)}`;
const taken = async (answer: { readonly status?: number; readonly body: string }): Promise<string | undefined> => {
  const submissions = new Submissions();
  const body = Buffer.from(answer.body);
  await submissions.recordAnswer('full-0', { status: answer.status ?? 202, body, json: new JsonBody(body) });
  const { need } = transactionRead(hash.toUpperCase().slice(2), { target: '', accept: undefined }, submissions);
  return need.kind === 'transaction' ? need.submittedTo : undefined;
};

test('a read of a submitted hash goes first to the node that accepted it', async () => {
  assert.equal(await taken({ body: JSON.stringify({ hash }) }), 'full-0');
  // A transaction that publishes modules has more than a megabyte.
  assert.equal(await taken({ body: JSON.stringify({ payload: 'a'.repeat(2_000_000), hash }) }), 'full-0');
});

test('an answer other than an accepted submission records nothing', async () => {
  const bodies = ['', '{}', 'null', '[]', '{"hash":5}', '{"hash":"0x12"}', `{"hash":"${hash}"`, `{"hash":"${hash}0"}`];
  for (const body of bodies) assert.equal(await taken({ body }), undefined, body);
  for (const status of [200, 206, 400, 500]) {
    assert.equal(await taken({ status, body: JSON.stringify({ hash }) }), undefined);
  }
});

test('a hash is 64 hex digits, written lowercase with prefix', () => {
  const digits = 'Ab'.repeat(32);
  for (const text of [digits, `0x${digits}`]) assert.equal(parseTransactionHash(text), `0x${digits.toLowerCase()}`);
  for (const text of ['', '0x', `0X${digits}`, digits.slice(1), `${digits}0`, `0x${digits.slice(2)}`, ` ${digits}`])
    assert.equal(
      statusOf(() => parseTransactionHash(text)),
      400,
      text,
    );
});
