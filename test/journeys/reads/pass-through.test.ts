import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, type Reply, testGateway, twoTiers } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import { errorBody } from '../../support/error-body.ts';

/** An unknown parameter leaves a read to a node. */
const paths = [
  '/-/healthy',
  '/accounts/0x1?x=1',
  '/estimate_gas_price?x=1',
  '/blocks/by_height/3?x=1',
  '/transactions/by_version/500?x=1',
];

test('a read that is left to a node passes byte for byte with live ledger headers', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  for (const path of paths) {
    const direct = await fetch(node.url + path);
    const reply = await gateway.get(path);

    assert.deepEqual([reply.status, reply.text], [direct.status, await direct.text()], path);
    assert.equal(reply.headers['x-node-ledger-version'], '900', path);
    assert.equal(reply.headers['cache-control'], 'no-store', path);
  }
});

test('a passed read of a pruned version is routed and repaired as our own reads are', async (t) => {
  const { full, archival, gateway } = await twoTiers(t, {}, { oldest: 100n });
  full.clock.oldest = 500n;

  const repaired = await gateway.get('/accounts/0x1?ledger_version=300&x=1');
  const routed = await gateway.get('/transactions/by_version/250?x=1');

  assert.deepEqual([repaired.status, routed.status], [200, 200]);
  assert.deepEqual({ full: full.reads, archival: archival.reads }, { full: 1, archival: 2 });
});

test('unknown X-NODE headers cross both ways; hop-by-hop headers and credentials do not', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const body = '{"ok":true}';
  node.fault = {
    kind: 'answer',
    status: 200,
    body,
    headers: { 'x-node-later': 'abc', 'keep-alive': 'timeout=1', 'set-cookie': 'a=b' },
  };

  const reply = await gateway.get('/some/new/route?x=1', {
    'x-node-client': 'sdk/1',
    authorization: 'Bearer secret',
    cookie: 'a=b',
    te: 'trailers',
    'x-forwarded-for': '1.2.3.4',
  });

  const seen = node.lastRead;
  assert.equal(reply.text, body);
  assert.equal(reply.headers['x-node-later'], 'abc');
  assert.equal(reply.headers['set-cookie'], undefined);
  assert.equal(seen?.url, '/v1/some/new/route?x=1');
  assert.equal(seen.headers['x-node-client'], 'sdk/1');
  assert.deepEqual(
    ['authorization', 'cookie', 'te', 'x-forwarded-for'].filter((name) => name in seen.headers),
    [],
  );
});

test('a large answer that breaks off is cut off for the client as well', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  node.faults.add({ kind: 'answer', status: 200, body: JSON.stringify(' '.repeat(200_000)), headers: ledger });
  node.faults.add({ kind: 'truncated body' });

  await assert.rejects(gateway.get('/blocks/by_height/3?x=1'));
});

test('another node gives a small answer that broke off', async (t) => {
  const broken = await fakeNode(t, { oldest: 400n, head: 900n });
  const whole = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [broken, whole] });
  broken.fault = { kind: 'truncated body' };

  const reply = await gateway.get('/blocks/by_version/500?x=1');

  assert.equal(reply.status, 200);
  assert.deepEqual([broken.reads, whole.reads], [1, 1]);
  whole.fault = { kind: 'truncated body' };
  assert.equal((await gateway.get('/blocks/by_version/500?x=1')).status, 503);
});

test('long polls hold half of the connections to a node at most; more wait half a second for one, and reads go on', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { upstream: { connections: 4 } } });
  const { promise, resolve } = Promise.withResolvers<void>();
  node.faults.add({ kind: 'hold', until: promise }, { when: ({ route }) => route === 'waitByHash' });
  const wait = (index: number) => gateway.get(`/transactions/wait_by_hash/0x${String(index).padStart(64, '0')}`);
  const held = [wait(1), wait(2)];
  await until(() => node.requestsTo('waitByHash') >= 2);

  const more = await Promise.all([3, 4, 5, 6].map(wait));
  const read = await gateway.get('/accounts/0x1/module/coin?ledger_version=800');

  assert.deepEqual(
    [...more, read].map(({ status }) => status),
    [404, 404, 404, 404, 200],
  );
  assert.deepEqual([node.requestsTo('waitByHash'), node.requestsTo('byHash')], [2, 4]);
  resolve();
  assert.deepEqual(
    (await Promise.all(held)).map(({ status }) => status),
    [404, 404],
  );
  await wait(7);
  assert.equal(node.requestsTo('waitByHash'), 3);
});

const ledger = ledgerHeaders({ version: 900n, chainId: 1 });

const cachingHeaders = {
  'cache-control': 'public, max-age=3600',
  expires: 'Wed, 21 Oct 2099 07:28:00 GMT',
  'last-modified': 'Wed, 21 Oct 2015 07:28:00 GMT',
  etag: '"of-some-version"',
  age: '5',
};

for (const maxStalenessMs of [200, 0]) {
  test(`freshness headers of nodes do not outlive the version that the gateway chose (staleness ${maxStalenessMs} ms)`, async (t) => {
    const { node, gateway } = await nodeAndGateway(t, { config: { latest: { maxStalenessMs } } });
    const fault = { kind: 'answer', status: 200, body: '{}', headers: { ...cachingHeaders, ...ledger } } as const;
    node.faults.add(fault, { when: ({ route }) => route !== 'ledgerInfo' });
    const kept = (headers: Reply['headers']) => Object.keys(cachingHeaders).filter((name) => name in headers);

    const latest = await gateway.get('/accounts/0x1?x=1', { 'if-none-match': '"of-some-version"' });
    const asked = node.lastRead;
    const pinned = await gateway.get('/accounts/0x1?ledger%5Fversion=5&x=1', { 'if-none-match': '"x"' });

    assert.equal(latest.headers['cache-control'], 'no-store');
    assert.deepEqual(kept(latest.headers), ['cache-control']);
    assert.equal(asked?.headers['if-none-match'], undefined);
    assert.deepEqual(kept(pinned.headers), Object.keys(cachingHeaders));
    assert.equal(node.lastRead?.url, '/v1/accounts/0x1?ledger%5Fversion=5&x=1');
    assert.equal(node.lastRead?.headers['if-none-match'], '"x"');
  });
}

test('a compressed view is a read of the latest state like any other', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const body = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';
  // Sample nodes do not read compressed bodies.
  node.faults.add(
    { kind: 'answer', status: 200, body: '["900"]', headers: ledger },
    { when: ({ route }) => route === 'view' },
  );

  const latest = await gateway.post('/view', gzipSync(body), { 'content-encoding': 'gzip' });
  const url = node.lastRead?.url;
  const tooNew = await gateway.post('/view', gzipSync(body), {
    'content-encoding': 'gzip',
    'ledgergate-min-version': '901',
  });

  assert.equal(latest.headers['ledgergate-served-version'], '900');
  assert.equal(url, '/v1/view?ledger_version=900');
  assert.equal(tooNew.status, 503);
});

test('a node\u2019s redirection does not reveal its address', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  node.fault = { kind: 'answer', status: 307, body: '', headers: { location: `${node.url}/elsewhere` } };

  for (const path of ['/spec', '/spec?x=1']) {
    const reply = await gateway.get(path);

    assert.equal(reply.status, 307);
    assert.equal(reply.headers['location'], undefined);
  }
});

const hidden = [
  '/set_failpoint?name=x',
  '/set%5Ffailpoint',
  '/experimental/state_values/r%61w',
  '/set_failpoint;x',
  '/SET_failpoint%3Bx',
  '/set_failpoint%3Fname=x',
  '/experimental/state_values/raw;x/',
];

test('routes for tests of nodes reach no node, in any spelling', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  for (const path of hidden) {
    for (const method of ['GET', 'POST'] as const) {
      const reply = await gateway.send(method, path, method === 'POST' ? { body: '{}' } : {});

      assert.equal(reply.status, 404, path);
      const error = { message: 'not found', error_code: 'web_framework_error', vm_error_code: null };
      assert.deepEqual(JSON.parse(reply.text), error, path);
      assert.equal(reply.headers['x-node-ledger-version'], '900', path);
    }
  }
  assert.equal(node.reads, 0);
});

test('an error that a node compresses unasked is decoded for cacheable reads, and not cached', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const error = errorBody('resource_not_found', `Resource not found${' '.repeat(2_000)}`);
  const headers = { 'content-encoding': 'gzip', ...ledger };
  node.fault = { kind: 'answer', status: 404, body: gzipSync(error), headers };

  for (const acceptEncoding of ['identity', 'gzip', 'gzip']) {
    const path = '/accounts/0x1/resource/0x1::a::B?ledger_version=5';
    const reply = await gateway.get(path, { 'accept-encoding': acceptEncoding });

    const isCoded = acceptEncoding === 'gzip';
    assert.deepEqual([reply.status, reply.headers['content-encoding']], [404, isCoded ? 'gzip' : undefined]);
    assert.equal(isCoded ? gunzipSync(reply.body).toString() : reply.text, error);
    assert.doesNotMatch(reply.headers['cache-status'] ?? '', /hit/);
    assert.equal(reply.headers['cache-control'], 'no-store');
  }
  assert.equal(node.lastRead?.headers['accept-encoding'], undefined);
});
