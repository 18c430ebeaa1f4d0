// Real answers match docs/openapi.yaml: status, content type, headers, and the shape of the body.
import assert from 'node:assert/strict';
import { rmSync, readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { createOperations } from '../../src/proxy/operations/operations-server.ts';
import { rows } from '../../src/proxy/routes/route-table.ts';
import { Router } from '../../src/proxy/routes/router.ts';
import { recordedTransactions } from '../../src/sample/recorded.ts';
import { errorBody } from '../support/error-body.ts';
import { until } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { fetchReply, nodeAndGateway, type Reply, testGateway, type TestGateway } from '../support/gateway.ts';
import { accessConfig, keysFile, testKey } from '../support/keys.ts';
import { OpenApi, type Operation, documentFile } from '../support/openapi.ts';
import { answersIn, exchangeRaw } from '../support/raw-http.ts';
import {
  addressed,
  all,
  answerWith,
  ask,
  askRaw,
  keyedGateway,
  ledger,
  page,
  readsOnly,
  replyOf,
  submitsOnly,
  usedUp,
  withKey,
} from './openapi-asking.ts';
import { cases, requestOf, type Case } from './openapi-cases.ts';

const document = new OpenApi();
const served = document.operations.filter(({ tag }) => tag !== 'operations');
/** Operations that need a key, and are bounded. */
const asked = served.filter(({ id, tag }) => id !== 'preflight' && tag !== 'own');
/** Pages of the endpoint about itself. */
const own = served.filter(({ tag }) => tag === 'own');
const handled = asked.filter(({ tag, method }) => tag === 'ledger' && method !== 'HEAD');

/** For tests that leave them as they were: an open gateway, and one that asks for keys. */
const node = await fakeNode({ after }, ledger);
const [open, keyed] = await Promise.all([testGateway({ after }, { full: [node] }), keyedGateway({ after }, node)]);

function assertAsDescribed(operation: Operation, reply: Reply, status?: number, isLedgerKnown = true): void {
  if (status !== undefined) assert.equal(reply.status, status, `${operation.id}: ${reply.text}`);
  assert.deepEqual(document.problemsOf(operation, reply, { isLedgerKnown }), []);
}

test('every operation is answered as described, to anybody and to pages with keys', async () => {
  const pages = { 'X-NODE-CURSOR': '0a', 'X-NODE-GAS-USED': '7' };
  answerWith(node, 200, '[]', ({ url }) => url.includes('/later'), pages);

  for (const [id, requests] of Object.entries(cases)) {
    const operation = document.operation(id);
    for (const request of requests) {
      const { status, body, headers } = request;
      if (status < 300 && typeof body === 'string' && headers?.['content-type'] === 'application/json') {
        assert.deepEqual(document.requestProblems(operation, JSON.parse(body)), [], id);
      }
      assertAsDescribed(operation, await ask(open, operation, request), status);
      const more = id === 'preflight' ? {} : withKey(all);
      assertAsDescribed(operation, await ask(keyed, operation, request, more), status);
    }
  }
});

test('transactions of every type that was recorded are as described, and so is one that is pending', async (t) => {
  const { gateway } = await nodeAndGateway(t, {}, { ...ledger, archival: true });
  const submit = document.operation('submitTransaction');
  const { text } = await ask(gateway, submit, requestOf(submit));
  const { hash: submitted } = JSON.parse(text) as { hash: string };

  for (const hash of [submitted, ...recordedTransactions.map(({ hash }) => hash)]) {
    const operation = document.operation('getTransactionByHash');
    const target = `/v1/transactions/by_hash/${hash}`;
    assertAsDescribed(operation, await ask(gateway, operation, { status: 200, target }), 200);
  }
});

const gzip = { 'accept-encoding': 'gzip' };

test('a batch is answered as described', async (t) => {
  const node = await fakeNode(t, ledger);
  const gateway = await keyedGateway(t, node);
  const operation = document.operation('submitBatch');
  const failure = { error: JSON.parse(errorBody('vm_error', 'refused')) as unknown, transaction_index: 0 };
  const answers = [
    { status: 202, body: { transaction_failures: [] } },
    { status: 206, body: { transaction_failures: [failure] } },
    { status: 400, body: JSON.parse(errorBody('invalid_input', 'no')) as unknown },
    { status: 415, body: JSON.parse(errorBody('web_framework_error', 'no')) as unknown },
  ];

  for (const { status, body } of answers) {
    node.faults.clear();
    answerWith(node, status, JSON.stringify(body), ({ method }) => method === 'POST');
    for (const headers of [withKey(all), { ...withKey(all), ...gzip }]) {
      assertAsDescribed(operation, await ask(gateway, operation, requestOf(operation), headers), status);
    }
  }
});

test('what is passed through is answered as described for each answer of the node', async (t) => {
  const node = await fakeNode(t, ledger);
  const gateway = await testGateway(t, { full: [node] });

  for (const operation of asked) {
    assertAsDescribed(operation, await ask(gateway, operation, requestOf(operation)));
    assertAsDescribed(operation, await ask(gateway, operation, requestOf(operation), gzip));
  }
  // An older node, which does not have the path of a request that it got as the client wrote it.
  answerWith(node, 405, errorBody('web_framework_error', 'method not allowed'), ({ route }) => route === 'account');
  const account = document.operation('getAccount');
  const unread = { ...requestOf(account), target: '/v1/accounts/0x5a77?x=1' };
  assertAsDescribed(account, await ask(gateway, account, unread), 405);
});

test('refusals for keys and limits are as described, for every operation', async () => {
  await ask(keyed, document.operation('getLedgerInfo'), { status: 200 }, withKey(usedUp));

  for (const operation of asked) {
    const isRead = operation.tag === 'ledger' && (operation.method === 'GET' || operation.method === 'HEAD');
    const request = requestOf(operation);
    assertAsDescribed(operation, await ask(keyed, operation, request, page), 401);
    const other = withKey(isRead ? submitsOnly : readsOnly);
    assertAsDescribed(operation, await ask(keyed, operation, request, other), 403);
    const refused = await ask(keyed, operation, request, withKey(usedUp));
    assertAsDescribed(operation, refused, 429);
    assert.ok(refused.headers['retry-after']);
  }
});

test('what is wrong with a request itself is answered as described, for every operation', async () => {
  const key = `Authorization: Bearer ${all.text}`;
  const many = Array.from({ length: 197 }, (_, at) => `X-More-${at}: 1`);

  for (const operation of asked) {
    const long = { ...requestOf(operation), target: `${operation.target}?${'x'.repeat(17_000)}` };
    assertAsDescribed(operation, await ask(keyed, operation, long, withKey(all)), 414);
    assertAsDescribed(operation, await askRaw(keyed, operation, key, 'Expect: a miracle'), 417);
    assertAsDescribed(operation, await askRaw(keyed, operation, key, ...many), 431);
    if (!operation.statuses.includes('411')) continue;
    const type = 'Content-Type: application/json';
    assertAsDescribed(operation, await askRaw(keyed, operation, key, type), 411);
    assertAsDescribed(operation, await askRaw(keyed, operation, key, type, 'Content-Length: 9000000'), 413);
  }
  const preflight = document.operation('preflight');
  assertAsDescribed(preflight, await ask(keyed, preflight, { status: 405 }, page), 405);
});

test('a request that does not arrive in time is answered as described', async (t) => {
  const gateway = await testGateway(t, { full: [node], times: { headMs: 100, checkMs: 50 } });

  const said = await exchangeRaw(Number(new URL(gateway.url).port), 'GET /v1 HTTP/1.1\r\nHost: a\r\n');

  assertAsDescribed(document.operation('getLedgerInfo'), replyOf(answersIn(said)[0] ?? { head: '', body: '' }), 408);
});

for (const status of [403, 418, 429, 500, 503]) {
  test(`a node's answer ${status} is passed on as described`, async (t) => {
    const node = await fakeNode(t, ledger);
    const gateway = await keyedGateway(t, node);
    answerWith(node, status, errorBody('internal_error', 'the node says so'), ({ route }) => route !== 'ledgerInfo');

    for (const operation of [...handled, document.operation('getOther')]) {
      if (operation.id === 'getLedgerInfo') continue;
      assertAsDescribed(operation, await ask(gateway, operation, requestOf(operation), withKey(all)));
      assertAsDescribed(operation, await ask(gateway, operation, requestOf(operation), { ...withKey(all), ...gzip }));
    }
    // Read at a node's head, it reports the version even so.
    const read = document.operation('getResource');
    const headers = { ...withKey(all), 'ledgergate-max-staleness': '0' };
    assertAsDescribed(read, await ask(gateway, read, requestOf(read), headers));
  });
}

test('503 is as described, while no node is known and when none is left', async (t) => {
  const node = await fakeNode(t, ledger);
  const config = { upstream: { timeoutMs: 400, deadlineMs: 400 }, latest: { maxStalenessMs: 0, waitForVersionMs: 0 } };
  const left = await keyedGateway(t, node, { config });
  await node.refuse();
  const alone = await keyedGateway(t, node, { config });

  for (const operation of asked) {
    for (const [gateway, isKnown] of [
      [left, true],
      [alone, false],
    ] as const) {
      const reply = await ask(gateway, operation, requestOf(operation), withKey(all));
      assertAsDescribed(operation, reply, 503, isKnown);
      assert.equal(reply.headers['retry-after'], '1');
    }
  }
});

test('with dialect aptos the same headers have the other prefix', async (t) => {
  const node = await fakeNode(t, { ...ledger, dialect: 'aptos' });
  const gateway = await testGateway(t, { full: [node] }, 'aptos');

  for (const operation of handled) {
    const reply = await ask(gateway, operation, requestOf(operation));
    const headers = Object.entries(reply.headers).map(([name, value]) => [name.replace(/^x-aptos-/, 'x-node-'), value]);
    assert.equal(
      Object.keys(reply.headers).some((name) => name.startsWith('x-node-')),
      false,
    );
    assertAsDescribed(operation, { ...reply, headers: Object.fromEntries(headers) as Reply['headers'] });
  }
});

test('the operations port answers as described', async (t) => {
  const token = 'token-of-the-operations-port';
  const guarded = await testGateway(t, { full: [node], config: { operations: { token } } });
  const alone = await testGateway(t, {
    full: [{ url: 'http://127.0.0.1:1/v1' }],
    config: { upstream: { timeoutMs: 400 } },
  });
  const withKeys = async (keys: Parameters<typeof keysFile>[1]) => {
    const file = keysFile(t, keys);
    const access = accessConfig({ keys: { file: file.path, redis: false } });
    return { file, gateway: await testGateway(t, { full: [node], access }) };
  };
  const { file: removed, gateway: gone } = await withKeys([testKey('one')]);
  rmSync(removed.path);
  const { gateway: twice } = await withKeys([testKey('double'), testKey('double')]);
  const foreign = { origin: 'https://app.example' };
  const json = { 'content-type': 'application/json' };
  const target = '/v1/accounts/0x1/resource/0x1::account::Account';
  await ask(keyed, document.operation('getResource'), { status: 200 }, withKey(all));
  const explained = `/admin/explain?${new URLSearchParams({ target }).toString()}`;
  const sent: readonly (readonly [TestGateway, string, Case])[] = [
    [keyed, 'getLiveness', { status: 200 }],
    [keyed, 'getReadiness', { status: 200 }],
    [alone, 'getReadiness', { status: 503 }],
    [keyed, 'getMetrics', { status: 200 }],
    [keyed, 'getMetrics', { status: 200, headers: { accept: 'application/openmetrics-text' } }],
    [keyed, 'getStatusPage', { status: 200 }],
    [keyed, 'getRunbook', { status: 200 }],
    [keyed, 'getStatus', { status: 200 }],
    [alone, 'getStatus', { status: 200 }],
    [keyed, 'purge', { status: 200, body: JSON.stringify({ read: { target } }) }],
    [keyed, 'purge', { status: 200, body: '{"account":"0x1"}' }],
    [keyed, 'purge', { status: 200, body: '{"everything":true}' }],
    [keyed, 'purge', { status: 400, body: '{}' }],
    [keyed, 'purge', { status: 400, body: '{' }],
    [keyed, 'purge', { status: 413, headers: json, body: Buffer.alloc(17 * 1024 * 1024, ' ') }],
    [keyed, 'purge', { status: 415, headers: { 'content-type': 'text/plain' }, body: '{}' }],
    [alone, 'purge', { status: 503, body: '{"account":"0x1"}' }],
    ...['drain', 'resume'].flatMap((action): [TestGateway, string, Case][] => [
      [keyed, `${action}Upstream`, { status: 200, target: `/admin/upstreams/full-0/${action}` }],
      [keyed, `${action}Upstream`, { status: 404, target: `/admin/upstreams/nobody/${action}` }],
      [keyed, `${action}Upstream`, { status: 400, body: '{' }],
    ]),
    [keyed, 'explain', { status: 200, target: `${explained}%3Fledger_version=500` }],
    [keyed, 'explain', { status: 200, target: explained }],
    [keyed, 'explain', { status: 200, target: explained.replace('Account', '') }],
    [keyed, 'explain', { status: 200, target: '/admin/explain?target=/v1/nowhere/%252e' }],
    [alone, 'explain', { status: 200, target: `${explained}%3Fledger_version=500` }],
    [keyed, 'explain', { status: 400, target: '/admin/explain' }],
    [keyed, 'getUsage', { status: 200 }],
    [keyed, 'listKeys', { status: 200 }],
    [alone, 'listKeys', { status: 404 }],
    [keyed, 'createKey', { status: 201, body: '{"name":"made","plan":"free","expires":"2999-01-01T00:00:00Z"}' }],
    [keyed, 'createKey', { status: 400, body: '{"name":"made"}' }],
    [keyed, 'createKey', { status: 409, body: '{"name":"made","plan":"free"}' }],
    [alone, 'createKey', { status: 404, body: '{"name":"made","plan":"free"}' }],
    [gone, 'createKey', { status: 503, body: '{"name":"made","plan":"free"}' }],
    [keyed, 'changeKey', { status: 200, target: '/admin/keys/made', body: '{"plan":"tiny","expires":null}' }],
    [keyed, 'changeKey', { status: 400, target: '/admin/keys/made', body: '{"plan":7}' }],
    [keyed, 'changeKey', { status: 404, target: '/admin/keys/nobody', body: '{}' }],
    [twice, 'changeKey', { status: 409, target: '/admin/keys/double', body: '{"plan":"free"}' }],
    [gone, 'changeKey', { status: 503, target: '/admin/keys/one', body: '{}' }],
    [keyed, 'listKeys', { status: 200 }],
    [keyed, 'revokeKey', { status: 200, target: '/admin/keys/made' }],
    [keyed, 'revokeKey', { status: 404, target: '/admin/keys/made' }],
    [gone, 'revokeKey', { status: 503, target: '/admin/keys/one' }],
    [keyed, 'getLog', { status: 200, target: '/admin/log' }],
    [keyed, 'changeLog', { status: 200, target: '/admin/log', body: '{"access":{"slow":"1s"}}' }],
    [keyed, 'changeLog', { status: 400, target: '/admin/log', body: '{"level":"loud"}' }],
    [keyed, 'getUsage', { status: 200, target: '/admin/usage?format=csv' }],
    [keyed, 'getUsage', { status: 400, target: '/admin/usage?since=yesterday' }],
    [guarded, 'getUsage', { status: 404, headers: { authorization: `Bearer ${token}` } }],
  ];

  for (const [gateway, id, request] of sent) {
    const operation = document.operation(id);
    const { status, target = operation.path, body = null, headers = body === null ? {} : json } = request;
    const { method } = operation;
    const reply = await fetchReply(gateway.operationsUrl + target, { method, headers, body });
    assertAsDescribed(operation, reply, status);
  }
  for (const operation of document.operations.filter(({ tag }) => tag === 'operations')) {
    const { method, path } = operation;
    const refusals: readonly (readonly [TestGateway, Readonly<Record<string, string>>, status: number])[] = [
      [keyed, { host: 'gateway.example' }, 421],
      [keyed, { host: 'two, hosts' }, 400],
      ...(path.startsWith('/admin/')
        ? ([
            [guarded, {}, 401],
            [keyed, foreign, 403],
          ] as const)
        : []),
    ];
    for (const [gateway, headers, status] of refusals)
      assertAsDescribed(operation, await fetchReply(gateway.operationsUrl + path, { method, headers }), status);
  }
});

test('pages of the endpoint about itself are as described', async (t) => {
  const alone = await keyedGateway(t, { url: 'http://127.0.0.1:1/v1' }, { config: { upstream: { timeoutMs: 400 } } });
  const many = Array.from({ length: 198 }, (_, at) => `X-More-${at}: 1`);

  await ask(keyed, document.operation('getLedgerInfo'), { status: 200 }, withKey(all));
  await fetchReply(`${keyed.operationsUrl}/admin/usage`, { method: 'GET' });

  for (const operation of own) {
    assertAsDescribed(operation, await ask(keyed, operation, { status: 200 }, withKey(all)), 200);
    if (operation.path === '/v1/-/usage') {
      const html = { ...page, accept: 'text/html' };
      assertAsDescribed(operation, await ask(keyed, operation, { status: 200 }, html), 200);
      const misplaced = { status: 400, target: `${operation.target}?key=${all.text}` };
      assertAsDescribed(operation, await ask(keyed, operation, misplaced, page), 400);
      assertAsDescribed(operation, await ask(keyed, operation, { status: 401 }, page), 401);
      assertAsDescribed(operation, await ask(keyed, operation, { status: 403 }, withKey(addressed)), 403);
      assertAsDescribed(operation, await ask(open, operation, { status: 404 }, page), 404);
    } else assertAsDescribed(operation, await ask(alone, operation, { status: 503 }, page), 503, false);
    const long = { status: 414, target: `${operation.target}?${'x'.repeat(17_000)}` };
    assertAsDescribed(operation, await ask(keyed, operation, long, page), 414);
    assertAsDescribed(operation, await askRaw(keyed, operation, 'Expect: a miracle'), 417);
    assertAsDescribed(operation, await askRaw(keyed, operation, ...many), 431);
  }
  const leaving = await fakeNode(t, ledger);
  const left = await keyedGateway(t, leaving, { config: { upstream: { timeoutMs: 400, probeIntervalMs: 50 } } });
  await leaving.refuse();
  const health = document.operation('getHealth');
  await until(async () => (await ask(left, health, { status: 503 })).status === 503);
  assertAsDescribed(health, await ask(left, health, { status: 503 }, page), 503);
});

test('nothing is described that was not seen here', () => {
  const statuses = [...handled, ...own, document.operation('preflight')].concat(
    document.operations.filter(({ tag }) => tag === 'operations'),
  );
  const unseen = statuses.flatMap(({ id, statuses }) =>
    statuses.filter((status) => status !== 'default').map((status) => `${id} ${status}`),
  );

  assert.deepEqual(
    unseen.filter((name) => !document.seenStatuses.has(name)),
    [],
  );
  assert.deepEqual([...document.describedHeaders].filter((name) => !document.seenHeaders.has(name)).sort(), []);
});

// docs/openapi.yaml is valid, has the routes that there are, and describes every answer.

const operations = document.operations.filter(({ tag }) => tag === 'operations');

test('the document is valid OpenAPI 3.1 of this version of the gateway', async () => {
  const validator = new Validator();
  const { valid, errors } = await validator.validate(documentFile);
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };

  assert.deepEqual([valid, errors, validator.version], [true, undefined, '3.1']);
  assert.equal((document.root['info'] as { version: string }).version, version);
  assert.equal(new Set(document.operations.map(({ id }) => id)).size, document.operations.length);
});

/** The path with its holes alike, whatever their names: a wildcard is the path that everything else comes under. */
function shapeOf(path: string): string {
  return path.replaceAll(/\{[^}]+\}|:[a-z]+|\*/g, '{}').replace(/^\{\}$/, '/v1/{}');
}

const nobody = async (): Promise<never> => Promise.reject(new Error('nothing is asked'));

test('every operation of the document is taken by the route that it names', () => {
  const router = new Router('/v1');

  for (const { id, method, target, route } of served) {
    const { kind, name } = router.match(method, target).route;
    assert.equal(kind === 'preflight' ? kind : name, route, id);
  }
});

test('every route is in the document', () => {
  const described = new Set(served.map(({ method, path }) => `${method} ${shapeOf(path)}`));
  const own = rows.flatMap(({ path, routes = {} }) =>
    Object.keys(routes).map((method) => `${method} ${shapeOf(`/v1${path}`)}`),
  );
  const passed = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].map((method) => `${method} /v1/{}`);

  assert.ok(own.length > 10);
  assert.deepEqual(
    [...own, ...passed].filter((route) => !described.has(route)),
    [],
  );
});

/** The routes of Fastify's tree, in which a path is shown below the path that it continues. */
function routesOf(tree: string): readonly string[] {
  const paths: string[] = [];
  return tree.split('\n').flatMap((line) => {
    const [, indent = '', part = '', methods = ''] = /^([│├└─ ]*)(\S*)(?: \(([^)]+)\))?/.exec(line) ?? [];
    const depth = indent.length / 4;
    const path = (depth > 1 ? (paths[depth - 1] ?? '') : '') + part;
    paths[depth] = path;
    const named = path.replace(/:(\w+)/g, '{$1}');
    return methods.split(', ').flatMap((method) => (method === '' || method === 'HEAD' ? [] : [`${method} ${named}`]));
  });
}

test('the operations port has the routes of the document, and no others', async (t) => {
  const { app } = createOperations({
    version: '1.2.3',
    source: {
      nodes: () => [],
      readiness: nobody,
      report: nobody,
      families: nobody,
      purge: nobody,
      setDrained: nobody,
      explain: nobody,
      usage: nobody,
      keys: nobody,
    },
    log: undefined as never,
    setLog: () => undefined,
    isDraining: () => false,
    rules: () => ({ host: '127.0.0.1', readyInOutage: true }),
    reload: () => undefined,
    audit: () => undefined,
  });
  t.after(() => app.close());
  await app.ready();
  const routes = routesOf(app.printRoutes({ commonPrefix: false }));

  const described = operations.map(({ method, path }: Operation) => `${method} ${path}`);

  // `/` only leads to the status page.
  assert.deepEqual(routes.filter((route) => route !== 'GET /').sort(), described.sort());
});
