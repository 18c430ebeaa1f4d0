import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, testGateway } from '../../support/gateway.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';

const small = '/accounts/0x1/resource/0x1::account::Account?ledger_version=500';
const large = '/accounts/0x1/module/coin?ledger_version=500';

test('If-None-Match with the entity tag is answered 304, without a body and with live headers', async (t) => {
  const { gateway } = await nodeAndGateway(t);
  const tag = (await gateway.get(small)).headers['etag'] ?? '';

  const fresh = await gateway.get(small, { 'if-none-match': `"other", W/${tag}` });
  const stale = await gateway.get(small, { 'if-none-match': '"other"' });

  assert.deepEqual([fresh.status, fresh.body.length, fresh.headers['etag']], [304, 0, tag]);
  assert.equal(fresh.headers['cache-control'], 'public, max-age=31536000, immutable');
  assert.equal(fresh.headers['x-node-ledger-version'], '900');
  // RFC 9110 15.4.5: a cache would take it for the type of its stored answer.
  assert.equal(fresh.headers['content-type'], undefined);
  assert.equal(stale.status, 200);
});

test('a 304 of a node passes without a content type', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const headers = ledgerHeaders({ version: 900n, chainId: 1 });
  node.faults.add({ kind: 'answer', status: 304, body: '', headers }, { when: ({ url }) => url.includes('/blocks/') });

  const reply = await gateway.get('/blocks/by_height/3?x=1', { 'if-none-match': '"a"' });

  assert.deepEqual([reply.status, reply.headers['content-type']], [304, undefined]);
});

for (const fastPath of [true, false]) {
  const way = fastPath ? 'with' : 'without';
  test(`an answer from memory has the age 0 at a version, and the state's age otherwise, ${way} the fast path`, async (t) => {
    const node = await fakeNode(t, { head: 900n });
    const config = { listen: { fastPath }, latest: { maxStalenessMs: 3_600_000 } };
    const gateway = await testGateway(t, { full: [node], config });
    const latest = small.replace(/\?.*/, '');
    const ageOf = async (path: string): Promise<string | undefined> => (await gateway.get(path)).headers['age'];

    // A node was asked for these.
    assert.deepEqual([await ageOf(small), await ageOf(latest)], [undefined, undefined]);
    const ages = new Set<string | undefined>();
    while (!ages.has('1')) ages.add(await ageOf(latest));

    // Each second has its own age, whatever was prepared before.
    assert.deepEqual([...ages], ['0', '1']);
    assert.equal(await ageOf(small), '0');
    assert.equal(node.requestsTo('resource'), 2);
  });
}

const decoders = { gzip: gunzipSync, br: brotliDecompressSync, zstd: zstdDecompressSync } as const;

for (const [coding, decode] of Object.entries(decoders)) {
  test(`a large answer is coded in ${coding} for clients that accept it, under an entity tag of its own`, async (t) => {
    const { node, gateway } = await nodeAndGateway(t);
    const plain = await gateway.get(large);

    const coded = await gateway.get(large, { 'accept-encoding': coding });
    const again = await gateway.get(large, { 'accept-encoding': coding });
    const same = await gateway.get(large, { 'accept-encoding': coding, 'if-none-match': coded.headers['etag'] ?? '' });

    assert.equal(coded.headers['content-encoding'], coding);
    assert.deepEqual(decode(coded.body), plain.body);
    assert.ok(coded.body.length < plain.body.length / 2);
    assert.deepEqual(again.body, coded.body);
    assert.notEqual(coded.headers['etag'], plain.headers['etag']);
    assert.equal(same.status, 304);
    assert.match(coded.headers['vary'] ?? '', /Accept-Encoding/);
    assert.equal(node.requestsTo('module'), 1);
  });
}

test('a small answer stays plain', async (t) => {
  const { gateway } = await nodeAndGateway(t);

  const reply = await gateway.get(small, { 'accept-encoding': 'gzip, br, zstd' });

  assert.equal(reply.headers['content-encoding'], undefined);
});

test('an absent resource is a final answer at a held version, and not above the head', async (t) => {
  const { gateway } = await nodeAndGateway(t, { config: { latest: { waitForVersionMs: 0 } } });
  const absent = '/accounts/0x1/resource/0x1::no::Such';

  const first = await gateway.get(`${absent}?ledger_version=500`);
  const second = await gateway.get(`${absent}?ledger_version=500`);
  const above = await gateway.get(`${absent}?ledger_version=901`);

  assert.deepEqual([first.status, second.status, above.status], [404, 404, 404]);
  assert.equal(second.headers['cache-status'], 'ledgergate; hit; detail=memory');
  assert.deepEqual(second.body, first.body);
  assert.equal(above.headers['cache-control'], 'no-store');
});

test('the ledger headers never go backward, whichever node answers', async (t) => {
  const nodes = await Promise.all([
    fakeNode(t, { head: 900n }),
    fakeNode(t, { head: 880n }),
    fakeNode(t, { head: 860n }),
  ]);
  const gateway = await testGateway(t, { full: nodes });
  let last = { version: 0n, timestamp: 0n };

  for (let round = 0; round < 60; round += 1) {
    const node = nodes[round % 3];
    node?.clock.advance(BigInt((round * 7) % 13));
    const reply = await gateway.get(`/accounts/0x1/resource/0x1::account::Account?ledger_version=${800 + round}`);
    const now = {
      version: BigInt(reply.headers['x-node-ledger-version'] ?? -1),
      timestamp: BigInt(reply.headers['x-node-ledger-timestampusec'] ?? -1),
    };
    assert.ok(now.version >= last.version && now.timestamp >= last.timestamp);
    last = now;
  }
});

test('the reported oldest version is that of the deepest node', async (t) => {
  const full = await fakeNode(t, { oldest: 500n, head: 900n });
  const archival = await fakeNode(t, { oldest: 7n, head: 890n });
  const gateway = await testGateway(t, { full: [full], archival: [archival] });

  const reply = await gateway.get(small.replace('500', '600'));

  assert.equal(reply.headers['x-node-ledger-oldest-version'], '7');
  assert.equal(reply.headers['x-node-ledger-version'], '900');
});

test('with the aptos dialect the ledger headers have their Aptos names', async (t) => {
  const node = await fakeNode(t, { head: 900n, dialect: 'aptos' });
  const gateway = await testGateway(t, { full: [node] }, 'aptos');

  const reply = await gateway.get(small);

  assert.equal(reply.headers['x-aptos-ledger-version'], '900');
  assert.equal(reply.headers['x-aptos-chain-id'], '1');
  assert.equal(reply.headers['x-node-ledger-version'], undefined);
  assert.equal(reply.headers['ledgergate-served-version'], '500');
});

test('a page may read the ledger headers, and its preflight is answered here', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const origin = 'https://wallet.example';

  const reply = await gateway.get(small, { origin });
  const preflight = await gateway.send('OPTIONS', '/view', {
    headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'content-type' },
  });

  assert.equal(reply.headers['access-control-allow-origin'], origin);
  assert.match(reply.headers['access-control-expose-headers'] ?? '', /x-node-ledger-version/i);
  assert.match(reply.headers['vary'] ?? '', /Origin/);
  assert.equal(preflight.status, 204);
  assert.equal(preflight.headers['access-control-allow-headers'], 'content-type');
  assert.equal(node.requestsTo('view'), 0);
});
