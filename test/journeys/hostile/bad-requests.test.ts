import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, beforeEach, test } from 'node:test';
import { askExplain } from '../../support/admin.ts';
import { nodeAndGateway, statusesOf } from '../../support/gateway.ts';
import { assertSpecified, testHostile } from '../../support/hostile.ts';
import { accessConfig, planConfig } from '../../support/keys.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { answersIn, exchangeRaw, rawClient } from '../../support/raw-http.ts';
import { submission } from '../../support/submission.ts';
import { askH1, askH2, authority, h2Session, type Asked } from '../../support/tls.ts';

/** For all tests that need no config of their own; each begins with a node without faults. */
const { node, gateway } = await nodeAndGateway({ after });
beforeEach(() => {
  node.faults.clear();
  node.log.clear();
});

const get = (target: string, headers = ''): string =>
  `GET ${target} HTTP/1.1\r\nHost: a\r\n${headers}Connection: close\r\n\r\n`;
const post = (target: string, headers: string, body = ''): string =>
  `POST ${target} HTTP/1.1\r\nHost: a\r\n${headers}Connection: close\r\n\r\n${body}`;
const json = 'Content-Type: application/json\r\n';
const sized = (body: string, type = json): string => `${type}Content-Length: ${Buffer.byteLength(body)}\r\n`;

const view = '/v1/view';
const refusedGet = (title: string, target: string, status = 400) =>
  [title, `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`, status, 'kept'] as const;
const refusedPost = (title: string, target: string, headers: string, body: string, status: number) =>
  [
    title,
    `POST ${target} HTTP/1.1\r\nHost: a\r\n${headers}\r\n${body}`,
    status,
    status === 413 ? 'closed' : 'kept',
  ] as const;

testHostile('reads and bodies that nodes refuse', [
  refusedGet('a bad percent escape', '/v1/accounts/0x1/resource/%zz'),
  refusedGet('an unreadable address', '/v1/accounts/0xzz/resource/0x1::a::B'),
  refusedGet('an unreadable struct tag', '/v1/accounts/0x1/resource/0x1::GUID_Generator'),
  refusedGet('an unreadable hash', '/v1/transactions/by_hash/0x1'),
  refusedGet('a negative version', '/v1/accounts/0x1/module/coin?ledger_version=-1'),
  refusedGet('an empty version', '/v1/accounts/0x1/module/coin?ledger_version='),
  refusedGet('a version above u64', '/v1/accounts/0x1/module/coin?ledger_version=18446744073709551616'),
  refusedGet('an over-long target', `/v1/accounts/0x1/resource/${'a'.repeat(20_000)}`, 414),
  refusedPost('a view without a length', view, json, '', 411),
  refusedPost('a view above the limit', view, `${json}Content-Length: 8388609\r\n`, '', 413),
  refusedPost('a view without a content type', view, sized('{}', ''), '{}', 415),
  refusedPost('a charset parameter', view, sized('{}', json.replace('\r', '; charset=utf-8\r')), '{}', 415),
  refusedPost('a view that is not JSON', view, sized('{"function":'), '{"function":', 400),
  refusedPost('a view without a function', view, sized('{"arguments":[]}'), '{"arguments":[]}', 400),
  refusedPost('a view of no object', view, sized('[1]'), '[1]', 400),
  refusedPost('a passed POST without a length', '/v1/transactions/simulate', json, '', 411),
  refusedPost('a submission above the limit', '/v1/transactions', `${json}Content-Length: 8388609\r\n`, '', 413),
]);

test('an invalid module name is an invalid input', async () => {
  const [answer] = answersIn(await exchangeRaw(gateway.port, get('/v1/accounts/0x1/module/1coin')));
  assert.ok(answer?.status === 400);
  assertSpecified(answer, 'invalid_input');
  assert.equal(node.reads, 0);
});

const allowed = [
  ['QUERY', '/v1/view', 'POST'],
  ['OPTIONS', '/v1/tables/0x1/raw_item', 'POST'],
  ['TRACE', '/v1', 'GET, HEAD'],
  // Nodes send this 405 without the methods.
  ['DELETE', '/v1/accounts/0x1/module/coin', 'GET, HEAD'],
  ['GET', '/v1/view', 'POST'],
] as const;

// router.test.ts has the methods of all paths.
test('every 405 lists the methods of its path', async () => {
  for (const [method, target, methods] of allowed) {
    const received = await exchangeRaw(
      gateway.port,
      `${method} ${target} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
    );
    assert.match(received, new RegExp(`^HTTP/1\\.1 405 [^]*\\r\\nAllow: ${methods}\\r\\n`), `${method} ${target}`);
  }
});

test('a chunked body is cut off at the limit', async () => {
  const chunk = `100000\r\n${'a'.repeat(0x100000)}\r\n`;

  const answer = await exchangeRaw(
    gateway.port,
    post('/v1/view', `${json}Transfer-Encoding: chunked\r\n`, chunk.repeat(9)),
  );

  assert.match(answer, /^HTTP\/1.1 413 /);
  assert.equal(node.reads, 0);
});

test('an Origin of unusual bytes gets the usual answer', async () => {
  for (const origin of ['\u0080\u00ff', 'a\u007fb', 'null', '\t']) {
    const answer = await exchangeRaw(
      gateway.port,
      Buffer.from(get('/v1/accounts/0x1/module/coin?ledger_version=5', `Origin: ${origin}\r\n`), 'latin1'),
    );
    assert.match(answer, /^HTTP\/1.1 (?:200|400) /);
  }
});

test('an absolute target is read as its path', async () => {
  const path = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=600';

  for (const target of [`http://a.example:80/v1${path}`, `HTTPS://a/v1${path}`, `/v1${path}`]) {
    assert.match(await exchangeRaw(gateway.port, get(target)), /^HTTP\/1.1 200 [^]*"ledger_version":"600"/, target);
  }
  assert.match(await exchangeRaw(gateway.port, get('http://a')), /^HTTP\/1.1 404 /);
  assert.equal(node.reads, 1);
});

test('bytes that are no HTTP are refused behind an answer under way, never within it', async (t) => {
  // Too large to be read whole first.
  const body = JSON.stringify(' '.repeat(200_000));
  node.faults.add({ kind: 'answer', status: 200, body, headers: ledgerHeaders({ version: 900n, chainId: 1 }) });
  node.faults.add({ kind: 'slow body', chunkBytes: 20_000, everyMs: 20 });
  const path = '/v1/accounts/0x1?ledger_version=600&x=1';
  const { socket, received } = rawClient(t, gateway.port);
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
  await once(socket, 'data');
  socket.write('hello\r\n\r\n');

  const answers = answersIn(await received);
  assert.deepEqual(statusesOf(answers), [200, 400]);
  assert.equal(answers[0]?.body, body);
});

// HTTP/1.0 clients read an answer without a length to the connection's end.

const held = '/accounts/0x1/module/coin?ledger_version=5';
const keepAlive = 'Connection: keep-alive\r\n';
/** Malformed bytes, in one piece with the request before them. */
const garbage = 'lo\r\n0\r\n\r\n';

const ofKeptReads = [
  ['an answer that was asked for with a condition', `GET /v1${held} HTTP/1.0\r\nIf-None-Match: *\r\n${keepAlive}`, 304],
  [
    'an answer to a preflight',
    `OPTIONS /v1${held} HTTP/1.0\r\nOrigin: http://a\r\nAccess-Control-Request-Method: GET\r\n${keepAlive}`,
    204,
  ],
] as const;

for (const fastPath of [true, false]) {
  for (const [title, head, status] of ofKeptReads) {
    test(`no bytes follow ${title}, ${fastPath ? 'with' : 'without'} the fast path`, async (t) => {
      const { gateway } = await nodeAndGateway(t, { config: { listen: { fastPath } } }, { head: 1_000n });
      await gateway.get(held);

      const received = await exchangeRaw(gateway.port, `${head}Content-Length: 3\r\n\r\nhel${garbage}`);

      assert.match(received, new RegExp(`^HTTP/1\\.1 ${status} `));
      assert.match(received, /\r\nConnection: close\r\n/);
      assert.equal(received.indexOf('\r\n\r\n') + 4, received.length, received);
    });
  }
}

// A request target has no fragment (RFC 9112 3.2): servers that drop it and servers that keep it read two paths.

const jsonType = { 'content-type': 'application/json' };
const read = '/v1/accounts/0x1/module/coin?ledger_version=5';
const hash = `0x${'ab'.repeat(32)}`;
const viewBody = JSON.stringify({ function: '0x1::m::f', type_arguments: [], arguments: [] });

/** One request of each kind, with the fragment in each possible place. */
const requests: readonly Asked[] = [
  { path: `${read}#` },
  { path: `${read}#x` },
  { path: read.replace('?', '#?') },
  { path: `${read}#x`, headers: { accept: 'application/x-bcs' } },
  { method: 'HEAD', path: `${read}#x` },
  { path: '/v1/accounts/0x1/module/coin#x' },
  { path: '/v1/accounts/0x1/module#x/coin' },
  { path: `/v1/transactions/by_hash/${hash}#x` },
  { path: `/v1/transactions/wait_by_hash/${hash}#x` },
  { path: '/v1#' },
  { path: '/v1#/x' },
  { path: '/v1/#' },
  { path: '/v1/blocks/by_height/5#' },
  { path: '/v1/blocks/by_height/5?with_transactions=true#' },
  { method: 'POST', path: '/v1/view?ledger_version=5#x', headers: jsonType, body: viewBody },
  { method: 'POST', path: '/v1/transactions/encode_submission#x', headers: jsonType, body: '{}' },
  { method: 'POST', path: '/v1/transactions#x', headers: jsonType, body: submission() },
  { method: 'POST', path: '/v1/transactions/simulate#x', headers: jsonType, body: submission() },
  { method: 'DELETE', path: '/v1/anything#x' },
  { method: 'OPTIONS', path: '/v1/view#x', headers: { origin: 'https://a', 'access-control-request-method': 'POST' } },
  { path: '/elsewhere#x' },
  { path: '/#' },
];

const line = (target: string): string => `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`;

test('a target with a fragment gets 400 over HTTP/1.1, and reaches no node', async () => {
  // A cached answer is no exception.
  assert.equal((await gateway.get(read.slice(3))).status, 200);
  node.log.clear();
  for (const asked of requests) {
    const { status } = await askH1(gateway.url, asked);
    assert.equal(status, 400, `${asked.method ?? 'GET'} ${asked.path}`);
  }
  assert.equal(node.log.count, 0);
});

/** Statuses of the answers to these targets on one connection, and to one more behind them. */
async function statuses(...targets: readonly string[]): Promise<readonly number[]> {
  const last = 'GET /end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';
  const answers = answersIn(await exchangeRaw(gateway.port, targets.map(line).join('') + last));
  return answers.map(({ status }) => status);
}

test('a fragment behind a request on the fast path gets 400, the absolute form included', async () => {
  const plain = '/v1/accounts/0x1/module/coin';
  assert.deepEqual(await statuses(read, plain, `${plain}#`, `${read}#`), [200, 200, 400, 400, 404]);
  assert.deepEqual(await statuses(`http://a${plain}#`, 'http://a/v1#x'), [400, 400, 404]);
  // The parser refuses a fragment at the path's start, and the bytes behind it.
  assert.deepEqual(await statuses('http://a#/v1'), [400]);
});

test('a target with a fragment gets 400 over HTTP/2', async (t) => {
  const ca = authority(t);
  const { node, gateway } = await nodeAndGateway(t, { config: { listen: { tls: ca.certify('gateway') } } });
  const session = await h2Session(t, new URL(gateway.url).origin, ca.ca);
  node.log.clear();
  // Without a body: this client drops an answer that precedes the body's end.
  for (const { body: _body, ...asked } of requests) {
    const { status } = await askH2(session, asked);
    assert.equal(status, 400, `${asked.method ?? 'GET'} ${asked.path}`);
  }
  assert.equal(node.log.count, 0);
});

test('a target with a fragment gets 400 under access control', async (t) => {
  const access = accessConfig({ anonymous: 'free', plans: { free: planConfig({ operations: ['pass'] }) } });
  const { gateway } = await nodeAndGateway(t, { access });
  for (const asked of requests) assert.equal((await askH1(gateway.url, asked)).status, 400, asked.path);
});

test('explain reports 400 for a target with a fragment', async () => {
  for (const { path, method = 'GET' } of requests) {
    const { text } = await askExplain(gateway, { target: path, method });
    const { answer } = JSON.parse(text) as { readonly answer?: { readonly status: number } };
    assert.equal(answer?.status, 400, `${method} ${path}`);
  }
});

test('a target with a fragment gets 400 on the operations port', async () => {
  const paths = ['/livez', '/readyz', '/metrics', '/status', '/status.json', '/admin/explain?target=/v1', '/', '/x'];
  for (const path of paths) {
    for (const method of ['GET', 'HEAD', 'POST']) {
      const { status } = await askH1(gateway.operationsUrl, { method, path: `${path}#x` });
      assert.equal(status, 400, `${method} ${path}#x`);
    }
  }
});
