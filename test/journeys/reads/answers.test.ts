/** Answers as clients get them: of each route, in each form, from a node and from memory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { recordedTransactions } from '../../../src/sample/recorded.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, probe, testGateway, twoTiers } from '../../support/gateway.ts';
import { exchangeRaw } from '../../support/raw-http.ts';
import { submission } from '../../support/submission.ts';

test('a pinned read goes to a node once, and is then answered from memory', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);

  const miss = await gateway.get(`${probe}?ledger_version=500`);
  const hit = await gateway.get(`${probe}?ledger_version=500`);

  assert.equal(miss.status, 200);
  assert.equal(miss.text, '{"type":"0x1::ledgergate_sample::Probe","data":{"address":"0x1","ledger_version":"500"}}');
  assert.deepEqual(hit.body, miss.body);
  assert.equal(miss.headers['cache-status'], 'ledgergate; fwd=miss; detail=full-0');
  assert.equal(hit.headers['cache-status'], 'ledgergate; hit; detail=memory');
  assert.equal(node.requestsTo('resource'), 1);
});

test('a hit has the live ledger headers, its version, and an immutable Cache-Control', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { oldest: 100n });
  await gateway.get(`${probe}?ledger_version=500`);

  node.clock.head = 950n;
  await gateway.get('/accounts/0x1/resource/0x1::account::Account');
  const hit = await gateway.get(`${probe}?ledger_version=500`);

  assert.equal(hit.headers['x-node-ledger-version'], '950');
  assert.equal(hit.headers['x-node-ledger-oldest-version'], '100');
  assert.equal(hit.headers['x-node-chain-id'], '1');
  assert.equal(hit.headers['ledgergate-served-version'], '500');
  assert.equal(hit.headers['cache-control'], 'public, max-age=31536000, immutable');
  assert.match(hit.headers['etag'] ?? '', /^"[\w-]{22}"$/);
});

const small = '/accounts/0x1/resource/0x1::account::Account?ledger_version=500';
const large = '/accounts/0x1/module/coin?ledger_version=500';

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
    await until(async () => ages.add(await ageOf(latest)).has('1'), 25);

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

test('the ledger headers never go backward, whichever node answers', async (t) => {
  const nodes = await Promise.all([
    fakeNode(t, { head: 900n }),
    fakeNode(t, { head: 880n }),
    fakeNode(t, { head: 860n }),
  ]);
  const gateway = await testGateway(t, { full: nodes });
  let last = { version: 0n, timestamp: 0n };

  for (let round = 0; round < 30; round += 1) {
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

// Each route.

const view = (fn: string, args: readonly unknown[] = []): string =>
  JSON.stringify({ function: `0x1::ledgergate_sample::${fn}`, type_arguments: [], arguments: args });

test('a pinned view is cached by its canonical body', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);

  const miss = await gateway.post('/view?ledger_version=500', view('version'));
  const spaced = `{ "arguments":[ ],"type_arguments":[],\n"function": "0x01::ledgergate_sample::version" }`;
  const hit = await gateway.post('/view?ledger_version=0500', spaced);

  assert.deepEqual([miss.status, miss.text], [200, '["500"]']);
  assert.equal(hit.headers['cache-status'], 'ledgergate; hit; detail=memory');
  assert.equal(hit.headers['x-node-gas-used'], miss.headers['x-node-gas-used']);
  assert.notEqual(hit.headers['x-node-gas-used'], undefined);
  assert.equal(node.requestsTo('view'), 1);
});

test('with no staleness allowed an unpinned read goes to the freshest node each time', async (t) => {
  const lagging = await fakeNode(t, { head: 800n });
  const fresh = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [lagging, fresh], config: { latest: { maxStalenessMs: 0 } } });

  const first = await gateway.get('/accounts/0x1/resource/0x1::ledgergate_sample::Probe');
  const again = await gateway.get('/accounts/0x1/resource/0x1::ledgergate_sample::Probe');

  assert.match(first.text, /"ledger_version":"900"/);
  assert.equal(first.headers['ledgergate-served-version'], '900');
  assert.equal(first.headers['cache-control'], 'no-store');
  assert.equal(again.headers['cache-status'], 'ledgergate; fwd=miss; detail=full-1');
  assert.deepEqual({ lagging: lagging.reads, fresh: fresh.reads }, { lagging: 0, fresh: 2 });
});

test('JSON and BCS answers of one read are cached apart', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const path = '/accounts/0x1/resource/0x1::account::Account?ledger_version=500';

  const json = await gateway.get(path);
  const bcs = await gateway.get(path, { accept: 'application/x-bcs' });
  const bcsAgain = await gateway.get(path, { accept: 'application/x-bcs' });

  assert.match(json.headers['content-type'] ?? '', /^application\/json/);
  assert.equal(bcs.headers['content-type'], 'application/x-bcs');
  assert.notDeepEqual(json.body, bcs.body);
  assert.deepEqual(bcsAgain.body, bcs.body);
  assert.equal(node.requestsTo('resource'), 2);
});

test('a committed transaction is cached under its hash', async (t) => {
  const { gateway } = await nodeAndGateway(t, {}, { head: 900_000_000n });
  const committed = recordedTransactions.find(({ body }) => body.includes('"type":"user_transaction"'));
  assert.ok(committed !== undefined);

  const miss = await gateway.get(`/transactions/by_hash/${committed.hash}`);
  const hit = await gateway.get(`/transactions/by_hash/${committed.hash.toUpperCase().replace('0X', '0x')}`);

  assert.deepEqual([miss.status, hit.status], [200, 200]);
  assert.equal(miss.text, committed.body);
  assert.equal(hit.headers['cache-status'], 'ledgergate; hit; detail=memory');
});

test('a pending transaction is never cached, and turns into the committed one', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const submitted = await gateway.post('/transactions', submission());
  const { hash } = JSON.parse(submitted.text) as { hash: string };

  const pending = await gateway.get(`/transactions/by_hash/${hash}`);
  node.clock.advance(10n);
  node.mempool.commitAll(905n);
  const committed = await gateway.get(`/transactions/by_hash/${hash}`);

  assert.equal(submitted.status, 202);
  assert.match(pending.text, /"type":"pending_transaction"/);
  assert.equal(pending.headers['cache-control'], 'no-store');
  assert.match(committed.text, /"type":"user_transaction"/);
});

test('a 404 of a hash is final only after the deepest node has answered 404, too', async (t) => {
  const { full, archival, gateway } = await twoTiers(t);
  const path = `/transactions/by_hash/0x${'ab'.repeat(32)}`;

  const reply = await gateway.get(path);

  assert.equal(reply.status, 404);
  assert.deepEqual({ full: full.reads, archival: archival.reads }, { full: 1, archival: 1 });
  await archival.refuse();
  assert.equal((await gateway.get(path)).status, 503);
});

test('a transaction in the mempool of any node is found, wherever it was submitted', async (t) => {
  const nodes = await Promise.all([
    fakeNode(t, { head: 900n }),
    fakeNode(t, { head: 900n }),
    fakeNode(t, { archival: true, head: 900n }),
  ]);
  const [one, other, archival] = nodes;
  const gateway = await testGateway(t, { full: [one, other], archival: [archival] });
  const direct = await fetch(`${other.url}/transactions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: submission(),
  });
  const { hash } = (await direct.json()) as { hash: string };

  const statuses = [];
  for (let round = 0; round < 5; round += 1) statuses.push((await gateway.get(`/transactions/by_hash/${hash}`)).status);

  assert.deepEqual(statuses, [200, 200, 200, 200, 200]);
});

for (const headers of [{}, { 'accept-encoding': 'gzip' }]) {
  const how = 'accept-encoding' in headers ? ', its answer coded' : '';
  test(`a read after a submission${how} asks the node that accepted it first`, async (t) => {
    const one = await fakeNode(t, { head: 900n });
    const other = await fakeNode(t, { head: 900n });
    const gateway = await testGateway(t, { full: [one, other] });
    const submitted = await gateway.post('/transactions', submission(), headers);
    const coding = submitted.headers['content-encoding'];
    const text = (coding === 'gzip' ? gunzipSync(submitted.body) : submitted.body).toString();
    const { hash } = JSON.parse(text) as { hash: string };
    const taker = one.requestsTo('submit') === 1 ? one : other;

    for (let round = 0; round < 5; round += 1) {
      assert.equal((await gateway.get(`/transactions/by_hash/${hash}`)).status, 200);
    }

    assert.equal(coding, 'accept-encoding' in headers ? 'gzip' : undefined);
    assert.equal(taker.requestsTo('byHash'), 5);
  });
}

// Requests of public clients, as recorded (protocol 8).

const owner = '0xa550c18';
const store = '0x1::coin::CoinStore';
const coin = '0x1::aptos_coin::AptosCoin';
/** A BCS string of up to 127 bytes. */
const bcsText = (value: string): Buffer => Buffer.from([value.length, ...Buffer.from(value)]);
const long = (address: string): string => `0x${address.slice(2).padStart(64, '0')}`;

test('every spelling of one resource read is one entry', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const spellings = [
    `/accounts/${owner}/resource/${store}%3C${coin}%3E?ledger_version=500`,
    `/accounts/${long(owner)}/resource/${store}%3C${coin}%3E?ledger_version=500`,
    `/accounts/a550c18/resource/${encodeURIComponent(`${store}<${coin}>`)}?ledger_version=0500`,
    `/accounts/0xA550C18/resource/${encodeURIComponent(`${store}< ${long('0x1')}::aptos_coin::AptosCoin >`)}?x=1&ledger_version=500`,
    `/accounts/${owner}/resource/${store}%3c${coin}%3e?ledger_version=%2B500`,
  ];

  const replies = [];
  for (const path of spellings) replies.push(await gateway.get(path, { 'content-type': 'application/json' }));
  const raw = await exchangeRaw(
    gateway.port,
    `GET /v1/accounts/${owner}/resource/${store}<${coin}>?ledger_version=500 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`,
  );

  assert.deepEqual(
    replies.map(({ status }) => status),
    [200, 200, 200, 200, 200],
  );
  assert.match(raw, /^HTTP\/1.1 200 .*Cache-Status: ledgergate; hit; detail=memory/s);
  assert.equal(node.requestsTo('resource'), 1);
});

test('a struct tag of 4 kB is served and cached', async (t) => {
  const { gateway } = await nodeAndGateway(t);
  const tag = `0x1::ledgergate_sample::Probe<${Array.from({ length: 130 }, () => coin).join(', ')}>`;
  const path = `/accounts/0x1/resource/${encodeURIComponent(tag)}?ledger_version=500`;

  const first = await gateway.get(path);
  const second = await gateway.get(path);

  assert.ok(tag.length > 3_400);
  assert.equal(second.status, first.status);
  assert.equal(second.headers['cache-status'], 'ledgergate; hit; detail=memory');
});

test('a view in BCS, as the public SDK posts it, is answered in JSON and cached by its bytes', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const module = Buffer.from(long('0x1').slice(2), 'hex');
  const body = Buffer.concat([module, bcsText('ledgergate_sample'), bcsText('version'), Buffer.from([0, 0])]);
  const headers = { 'content-type': 'application/x.aptos.view_function+bcs' };

  const miss = await gateway.post('/view?ledger_version=500', body, headers);
  const hit = await gateway.post('/view?ledger_version=500', body, headers);

  assert.deepEqual([miss.status, miss.text], [200, '["500"]']);
  assert.equal(hit.headers['cache-status'], 'ledgergate; hit; detail=memory');
  assert.deepEqual(node.lastRead?.body, body);
});

test('the gateway measures a chunked view body, so that the node receives its Content-Length', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);
  const body = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';
  const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;

  const answer = await exchangeRaw(
    gateway.port,
    `POST /v1/view HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n${chunked}`,
  );

  assert.match(answer, /^HTTP\/1.1 200 /);
  assert.equal(node.lastRead?.headers['content-length'], String(body.length));
});
