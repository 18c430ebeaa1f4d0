/** Requests as the parsers of the routes read them: the canonical request to a node, its cache key, and its need. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonBody } from '../../../src/ledger/answer-body.ts';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { TransactionHash } from '../../../src/ledger/transaction-hash.ts';
import {
  requireJson,
  resourceRead,
  tableItemRead,
  transactionRead,
  viewContentType,
  viewRead,
} from '../../../src/proxy/routes/parse-read.ts';
import { Router } from '../../../src/proxy/routes/router.ts';
import { Submissions } from '../../../src/proxy/routes/submissions.ts';
import { readModule } from '../../support/reads.ts';
import { rowsIn } from '../../support/tables.ts';

const router = new Router('/v1');
const json = { accept: 'application/json' };

function parse(path: string, accept?: string) {
  return router.match('GET', `/v1${path}`).parse(accept);
}

const pin = { version: 5n, need: { kind: 'version', version: 5n } };
const newest = { version: undefined, need: { kind: 'head' } };

const ofHeight = { version: undefined, need: { kind: 'block', height: 7n } };
const from5 = { ...pin, version: undefined };

/** The rest of a read: version, need and extent. */
const rests: Readonly<Record<string, object>> = {
  pin,
  newest,
  transaction: { ...pin, extent: { kind: 'transaction', version: 5n } },
  'list of 10': { ...from5, extent: { kind: 'list', first: 5n, limit: 10 } },
  'list of 101': { ...from5, extent: { kind: 'list', first: 5n, limit: 101 } },
  'list of 25': { ...from5, extent: { kind: 'list', first: 5n, limit: 25 } },
  'bare block': { ...ofHeight, extent: { kind: 'bare block', height: 7n } },
  block: { ...ofHeight, extent: { kind: 'block', height: 7n } },
  'bare block of 5': { ...pin, extent: { kind: 'bare block', height: undefined } },
  'block of 5': { ...pin, extent: { kind: 'block', height: undefined } },
  'page of 2': { ...newest, extent: { kind: 'page', first: 3n, limit: 2 } },
  'page of 25': { ...newest, extent: { kind: 'page', first: 0n, limit: 25 } },
  hash: { version: undefined, need: { kind: 'transaction', submittedTo: undefined } },
};

/** Reads that have a key: the path, the operation and subject of the key, the path to the node, and the rest. */
const kept = rowsIn(`
/accounts/0x0A?ledger_version=05 | account | 0xa/ | /accounts/0xa?ledger_version=5 | pin
/accounts/a | account | 0xa/ | /accounts/0xa | newest
/accounts/0x1/resource/0x01::a::B%3Cu8%3E?ledger_version=5 | resource | 0x1/0x1::a::B<u8> | /accounts/0x1/resource/0x1%3A%3Aa%3A%3AB%3Cu8%3E?ledger_version=5 | pin
/accounts/0x00A/resource/%200X01::a::B%3Cu8,%3E%20?x=y&ledger_version=%2B005 | resource | 0xa/0x1::a::B<u8> | /accounts/0xa/resource/0x1%3A%3Aa%3A%3AB%3Cu8%3E?ledger_version=5 | pin
/accounts/0x01/module/Coin?ledger_version=5 | module | 0x1/Coin | /accounts/0x1/module/Coin?ledger_version=5 | pin
/accounts/1/module/coin | module | 0x1/coin | /accounts/0x1/module/coin | newest
/accounts/0x01/balance/0x0a?ledger_version=5 | balance | 0x1/0xa | /accounts/0x1/balance/0xa?ledger_version=5 | pin
/accounts/0x01/balance/0x0a::b::C?accountAddress=0x01&asset=0x0a%3A%3Ab%3A%3AC | balance | 0x1/0xa::b::C | /accounts/0x1/balance/0xa%3A%3Ab%3A%3AC | newest
/accounts/0x01/modules?limit=010&ledger_version=5&start=0a | modules | 0x1/?start=0a&limit=10 | /accounts/0x1/modules?start=0a&limit=10&ledger_version=5 | pin
/accounts/0x1/resources?start=aB-_9 | resources | 0x1/?start=aB-_9 | /accounts/0x1/resources?start=aB-_9 | newest
/accounts/0x1/resources?limit=65535 | resources | 0x1/?limit=65535 | /accounts/0x1/resources?limit=65535 | newest
/accounts/0x1/resources | resources | 0x1/ | /accounts/0x1/resources | newest
/transactions/by_version/05 | by_version |  | /transactions/by_version/5 | transaction
/transactions?limit=010&start=05 | transactions | ?start=5&limit=10 | /transactions?start=5&limit=10 | list of 10
/transactions?start=5&limit=101 | transactions | ?start=5&limit=101 | /transactions?start=5&limit=101 | list of 101
/transactions/auxiliary_info?start_version=5 | auxiliary_info | ?start_version=5 | /transactions/auxiliary_info?start_version=5 | list of 25
/blocks/by_height/07 | block | 7/false | /blocks/by_height/7 | bare block
/blocks/by_height/07?with_transactions=false | block | 7/false | /blocks/by_height/7 | bare block
/blocks/by_height/7?with_transactions=true | block | 7/true | /blocks/by_height/7?with_transactions=true | block
/blocks/by_version/05 | block_by_version | false | /blocks/by_version/5 | bare block of 5
/blocks/by_version/05?with_transactions=false | block_by_version | false | /blocks/by_version/5 | bare block of 5
/blocks/by_version/5?with_transactions=true | block_by_version | true | /blocks/by_version/5?with_transactions=true | block of 5
/accounts/0x01/events/07?start=03&limit=2 | events | 0x1/7?start=3&limit=2 | /accounts/0x1/events/7?start=3&limit=2 | page of 2
/accounts/0x1/events/0x01::a::B/put?start=0 | events | 0x1/0x1::a::B/put?start=0 | /accounts/0x1/events/0x1%3A%3Aa%3A%3AB/put?start=0 | page of 25
/transactions/by_hash/${'AB'.repeat(32)} | transaction | 0x${'ab'.repeat(32)} | /transactions/by_hash/0x${'ab'.repeat(32)} | hash
`);

for (const [path = '', operation, subject, sent, rest = ''] of kept) {
  test(`GET ${path} is a read of ${operation} ${subject}`, () => {
    const read = parse(path);
    assert.ok(read !== undefined && !('shared' in read));
    const { keyed: _, extent, ...parsed } = { extent: undefined, ...read };
    assert.deepEqual(
      { ...parsed, ...(extent !== undefined && { extent }) },
      { operation, subject, form: 'json', wire: { method: 'GET', path: sent, headers: json }, ...rests[rest] },
    );
  });
}

/** Short shares: the path, the path to the node, and the operation and subject that the answer is compared with. */
const shared = rowsIn(`
/transactions | /transactions | transactions |
/transactions?limit=010 | /transactions?limit=10 | transactions |
/accounts/0x01/events/07?limit=010 | /accounts/0x1/events/7?limit=10 | events | 0x1/7
/accounts/0x1/events/0x01::a::B/put | /accounts/0x1/events/0x1%3A%3Aa%3A%3AB/put | events | 0x1/0x1::a::B/put
/accounts/0x01/transactions?limit=05&start=01 | /accounts/0x1/transactions?start=1&limit=5 | sent | 0x1
/accounts/0x01/transaction_summaries?limit=3&end_version=2&start_version=1 | /accounts/0x1/transaction_summaries?start_version=1&end_version=2&limit=3 | sent | 0x1
`);

for (const [path = '', sent, operation, subject] of shared) {
  test(`GET ${path} shares the newest answer to ${sent}`, () => {
    for (const form of ['json', 'bcs'] as const) {
      const accept = form === 'json' ? 'application/json' : 'application/x-bcs';
      const wire = { method: 'GET', path: sent, headers: { accept } };
      const asked = { operation, subject, version: undefined };
      assert.deepEqual(parse(path, accept), { shared: 'latest', form, wire, asked });
    }
  });
}

test('a document of the build is shared in any media type, the gas price in the form that was asked for', () => {
  for (const path of ['/spec', '/spec.json', '/spec.yaml', '/info']) {
    const wire = { method: 'GET', path, headers: { accept: '*/*' } };
    assert.deepEqual(parse(path, 'application/x-bcs'), { shared: 'build', form: undefined, wire });
  }
  const wire = { method: 'GET', path: '/estimate_gas_price', headers: { accept: 'application/x-bcs' } };
  const { shared: time, ...rest } = { shared: undefined, ...parse('/estimate_gas_price', 'application/x-bcs') };
  assert.deepEqual([time === undefined, rest], [false, { form: 'bcs', wire }]);
});

const left = `
/accounts/0x1?limit=5 /accounts/0x1/balance/0xa?accountAddress=0x01 /accounts/0x1/balance/0xa?asset=0x0a
/accounts/0x1/balance/0xa?limit=5 /accounts/0x1/modules?limit=0 /accounts/0x1/modules?limit=65536
/accounts/0x1/modules?limit=x /accounts/0x1/modules?start= /accounts/0x1/modules?start=a%20
/accounts/0x1/modules?start=%20a /accounts/0x1/modules?start=${'a'.repeat(2049)} /accounts/0x1/modules?page=5
/transactions/by_version/x /transactions/by_version/5?limit=1 /transactions?start=x /transactions?start=5&limit=0
/transactions?limit=x /transactions?start_version=5 /transactions/auxiliary_info /transactions/auxiliary_info?limit=5
/transactions/auxiliary_info?start=5 /blocks/by_height/x /blocks/by_height/7?with_transactions=1
/blocks/by_height/7?limit=1 /blocks/by_version/x /blocks/by_version/5?with_transactions= /accounts/0x1/events/x
/accounts/0x1/events/5?start=x /accounts/0x1/events/5?ledger_version=1 /accounts/0x1/events/0x1::a::B/not-a-name
/accounts/0x1/transactions?start=x /accounts/0x1/transactions?end_version=1
/accounts/0x1/transaction_summaries?start=1 /spec?a=b /estimate_gas_price?a=b
`
  .trim()
  .split(/\s+/);

for (const path of left) {
  test(`GET ${path.slice(0, 80)} is left to nodes`, () => {
    assert.equal(parse(path), undefined);
  });
}

test('a cursor of 2,048 characters is read', () => {
  const start = 'a'.repeat(2048);
  const read = parse(`/accounts/0x1/modules?start=${start}`);
  assert.equal(read?.wire.path, `/accounts/0x1/modules?start=${start}`);
});

const refused = ['/accounts/0xg', '/accounts/0xg/transactions', '/accounts/0xg/events/5', '/accounts/0x1/resource/B'];

for (const path of [
  ...refused,
  // The low byte of U+0161 is an "a".
  '/accounts/0x1/resource/0x1::%C5%A1::B',
  '/accounts/0x1/module/a-b',
  '/accounts/0x1?ledger_version=x',
  '/transactions/by_hash/0x1',
]) {
  test(`GET ${path} is refused with 400`, () => {
    assert.throws(
      () => parse(path),
      (error) => error instanceof GatewayError && error.status === 400,
    );
  });
}

test('a refused name of a module is named in the message', () => {
  assert.throws(() => parse('/accounts/0x1/module/a-b'), { message: '\'module_name\' invalid: "a-b"' });
});

const item = '{"key_type":"u8","value_type":"u8","key":1}';
const call = '{"function":"0x1::m::f","type_arguments":[],"arguments":[]}';
const rawItem = '{"key":"0x1"}';

function post(path: string, body: string) {
  const target = `/v1${path}`;
  const given = { target, accept: 'application/x-bcs', contentType: 'application/json', body: Buffer.from(body) };
  return router.match('POST', target).parseBody(given);
}

/** Reads by POST: the path, the body, the operation and subject of the key, the path to the node, version and need. */
const posted = [
  ['/tables/0x0A/item?ledger_version=5', item, 'table_item', '0xa/', '/tables/0xa/item?ledger_version=5', pin],
  ['/view?ledger_version=5', call, 'view', '', '/view?ledger_version=5', { ...pin, functionId: '0x1::m::f' }],
  ['/view', call, 'view', '', '/view', { ...newest, functionId: '0x1::m::f' }],
  ['/tables/a/item', item, 'table_item', '0xa/', '/tables/0xa/item', newest],
  ['/tables/0x1/raw_item', rawItem, 'raw_table_item', '0x1/', '/tables/0x1/raw_item', newest],
] as const;

for (const [path, body, operation, subject, sent, rest] of posted) {
  test(`POST ${path} is a read of ${operation}`, () => {
    const headers = { accept: 'application/x-bcs', 'content-type': 'application/json' };
    const wire = { method: 'POST', path: sent, headers, body: Buffer.from(body) };
    assert.deepEqual(post(path, body), { operation, subject: `${subject}json:${body}`, form: 'bcs', wire, ...rest });
  });
}

test('a call in BCS is sent in BCS, with an answer in JSON', () => {
  const contentType = 'application/x.aptos.view_function+bcs';
  const body = Buffer.of(1, 2, 3);
  const { wire, form } = viewRead({ target: '/v1/view', accept: undefined, contentType, body });
  assert.deepEqual(wire, { method: 'POST', path: '/view', headers: { ...json, 'content-type': contentType }, body });
  assert.equal(form, 'json');
});

test('the wait for a transaction is a read of it whose first answer may come at once', () => {
  const hash = `0x${'ab'.repeat(32)}`;
  const read = parse(`/transactions/wait_by_hash/${hash}`);
  assert.ok(read !== undefined && !('shared' in read));
  assert.deepEqual([read.operation, read.subject, read.version], ['transaction', hash, undefined]);
  assert.deepEqual(read.wire, { method: 'GET', path: `/transactions/wait_by_hash/${hash}`, headers: json });
  assert.deepEqual(read.atOnce, { method: 'GET', path: `/transactions/by_hash/${hash}`, headers: json });
});

const missing = 'the client request does not include the `Content-Type` header';
const unsupported = 'the `Content-Type` requested by the client is not supported';

test('a view is JSON or BCS to the letter; another content type is refused with 415', () => {
  for (const type of ['application/json', 'application/x.aptos.view_function+bcs']) {
    assert.equal(viewContentType(type), type);
  }
  assert.throws(() => viewContentType(undefined), { status: 415, message: missing });
  for (const type of ['', 'text/plain', 'application/json; charset=utf-8', 'application/JSON']) {
    assert.throws(() => viewContentType(type), { status: 415, message: unsupported }, type);
  }
});

test('a table item is JSON by its media type; another content type is refused with 415', () => {
  const types = ['application/json', ' Application/JSON ;charset=utf-8', '  application/json  '];
  for (const type of [...types, 'application/vnd.a-b+json']) requireJson(type);
  assert.throws(() => requireJson(undefined), { status: 415, message: missing });
  const others = ['', 'text/json', 'xapplication/json', 'application/jsonp', 'application/+json', 'application/json,a'];
  for (const type of others) {
    assert.throws(() => requireJson(type), { status: 415, message: unsupported }, type);
  }
});

test('a table item with a parameter that the gateway does not know is left to nodes', () => {
  assert.equal(post('/tables/0x1/item?limit=5', item), undefined);
  assert.equal(post('/tables/0x1/raw_item?limit=5', rawItem), undefined);
});

test('a module name that is no identifier is refused with 400', () => {
  for (const name of ['', '1a', 'a b', 'a-b', '..', 'a/b', '%61', 'a\0', '\u00e4']) {
    assert.throws(() => readModule('0x1', name), { status: 400 }, name);
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
  const { need } = transactionRead(
    { hash: hash.toUpperCase().slice(2) },
    { target: '', accept: undefined },
    submissions,
  );
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
  for (const text of [digits, `0x${digits}`]) assert.equal(TransactionHash.parse(text), `0x${digits.toLowerCase()}`);
  for (const text of ['', '0x', `0X${digits}`, digits.slice(1), `${digits}0`, `0x${digits.slice(2)}`, ` ${digits}`])
    assert.throws(() => TransactionHash.parse(text), { status: 400 }, text);
});

function subjectOf(type: string): string {
  return resourceRead({ address: '0x1', type }, { target: '/', accept: undefined }).subject;
}

test('a type is the same read in each of its spellings, however often and after however many others', () => {
  const spellings = [
    '0x1::a::B<0x01::c::D,u8>',
    '0x1::a::B< 0x1::c::D , u8 >',
    `0x${'1'.padStart(64, '0')}::a::B<0x1::c::D, u8>`,
  ];
  const expected = '0x1/0x1::a::B<0x1::c::D, u8>';

  for (let round = 0; round < 2; round += 1) {
    for (const spelling of [...spellings, ...spellings]) assert.equal(subjectOf(spelling), expected);
    for (let other = 0; other < 2_500; other += 1) {
      assert.equal(subjectOf(`0x01::a::B${other}`), `0x1/0x1::a::B${other}`);
    }
  }
});

test('a malformed type is refused each time', () => {
  for (let time = 0; time < 2; time += 1) {
    assert.throws(() => subjectOf('0x1::a'), { status: 400 });
    assert.throws(() => subjectOf('constructor'), { status: 400 });
  }
});
