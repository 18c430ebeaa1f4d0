import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { fakeNode } from '../support/fake-node.ts';
import { testGateway } from '../support/gateway.ts';

const paths = [
  '/-/healthy',
  '/accounts/0x1',
  '/estimate_gas_price',
  '/blocks/by_height/3',
  '/transactions/by_version/500',
];

for (const path of paths) {
  test(`GET ${path} passes byte for byte with live ledger headers`, async (t) => {
    const node = await fakeNode(t, { head: 900n });
    const gateway = await testGateway(t, { full: [node] });

    const direct = await fetch(node.url + path);
    const reply = await gateway.get(path);

    assert.equal(reply.status, direct.status);
    assert.equal(reply.text, await direct.text());
    assert.equal(reply.headers['x-node-ledger-version'], '900');
    assert.equal(reply.headers['cache-control'], 'no-store');
  });
}

test('a passed read of a pruned version is routed and repaired as our own reads are', async (t) => {
  const full = await fakeNode(t, { oldest: 100n, head: 900n });
  const archival = await fakeNode(t, { archival: true, head: 900n });
  const gateway = await testGateway(t, { full: [full], archival: [archival] });
  full.clock.oldest = 500n;

  const repaired = await gateway.get('/accounts/0x1?ledger_version=300');
  const routed = await gateway.get('/transactions/by_version/250');

  assert.deepEqual([repaired.status, routed.status], [200, 200]);
  assert.deepEqual({ full: full.reads, archival: archival.reads }, { full: 1, archival: 2 });
});

test('unknown X-NODE headers cross both ways; hop-by-hop headers and credentials do not', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [node] });
  const body = '{"ok":true}';
  node.fault = {
    kind: 'answer',
    status: 200,
    body,
    headers: { 'x-node-txn-encryption-key': 'abc', 'keep-alive': 'timeout=1', 'set-cookie': 'a=b' },
  };

  const reply = await gateway.get('/some/new/route?x=1', {
    'x-node-client': 'sdk/1',
    authorization: 'Bearer secret',
    cookie: 'a=b',
    te: 'trailers',
    'x-forwarded-for': '1.2.3.4',
  });

  const seen = node.log.received.at(-1);
  assert.equal(reply.text, body);
  assert.equal(reply.headers['x-node-txn-encryption-key'], 'abc');
  assert.equal(reply.headers['set-cookie'], undefined);
  assert.equal(seen?.url, '/v1/some/new/route?x=1');
  assert.equal(seen.headers['x-node-client'], 'sdk/1');
  assert.deepEqual(
    ['authorization', 'cookie', 'te', 'x-forwarded-for'].filter((name) => name in seen.headers),
    [],
  );
});

test('a node\u2019s own compression passes as it is', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [node] });
  const plain = await gateway.get('/accounts/0x1');

  const reply = await gateway.get('/accounts/0x1', { 'accept-encoding': 'gzip' });

  const text = reply.headers['content-encoding'] === 'gzip' ? gunzipSync(reply.body).toString() : reply.text;
  assert.equal(text, plain.text);
});

test('a streamed answer that breaks off is cut off for the client as well', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [node] });
  node.fault = { kind: 'truncated body' };

  await assert.rejects(gateway.get('/blocks/by_height/3'));
});

test('wait_by_hash is a long poll at the node that took the submission', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [node] });

  const unknown = await gateway.get(`/transactions/wait_by_hash/0x${'ab'.repeat(32)}`);

  assert.equal(unknown.status, 404);
  assert.equal(unknown.headers['cache-control'], 'no-store');
});
