/** Answers as clients get them: of each route, in each form, from a node and from memory. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, probe, testGateway, twoTiers } from '../../support/gateway.ts';
import { exchangeRaw } from '../../support/raw-http.ts';
import { submission } from '../../support/submission.ts';

/** Of the tests that leave the ledger where it is. */
const { node, gateway } = await nodeAndGateway({ after });

test('a pinned read goes to a node once, and is then answered from memory', async () => {
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
  test(`a large answer is coded in ${coding} for clients that accept it, under an entity tag of its own`, async () => {
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

test('a small answer stays plain', async () => {
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

// Transactions, of which kept-routes.test.ts and transactions.test.ts have the rest.

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

/** A BCS string of up to 127 bytes. */
const bcsText = (value: string): Buffer => Buffer.from([value.length, ...Buffer.from(value)]);

test('a struct tag of 4 kB is served and cached, whether it is percent-encoded or not', async () => {
  const tag = `0x1::ledgergate_sample::Probe<${Array.from({ length: 130 }, () => '0x1::aptos_coin::AptosCoin').join()}>`;
  const [coded, plain] = [encodeURIComponent(tag), tag].map(
    (type) => `/accounts/0x1/resource/${type}?ledger_version=500`,
  );

  const first = await gateway.get(coded ?? '');
  const second = await gateway.get(coded ?? '');
  const head = 'HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';
  const raw = await exchangeRaw(gateway.port, `GET /v1${plain} ${head}`);

  assert.ok(tag.length > 3_400);
  assert.equal(second.status, first.status);
  assert.equal(second.headers['cache-status'], 'ledgergate; hit; detail=memory');
  assert.match(raw, /Cache-Status: ledgergate; hit; detail=memory/);
});

test('a view in BCS, as the public SDK posts it, is answered in JSON and cached by its bytes', async () => {
  const module = Buffer.from('1'.padStart(64, '0'), 'hex');
  const body = Buffer.concat([module, bcsText('ledgergate_sample'), bcsText('version'), Buffer.from([0, 0])]);
  const headers = { 'content-type': 'application/x.aptos.view_function+bcs' };

  const miss = await gateway.post('/view?ledger_version=500', body, headers);
  const hit = await gateway.post('/view?ledger_version=500', body, headers);

  assert.deepEqual([miss.status, miss.text], [200, '["500"]']);
  assert.equal(hit.headers['cache-status'], 'ledgergate; hit; detail=memory');
  assert.deepEqual(node.lastRead?.body, body);
});

test('the gateway measures a chunked view body, so that the node receives its Content-Length', async () => {
  const body = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';
  const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;

  const answer = await exchangeRaw(
    gateway.port,
    `POST /v1/view HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n${chunked}`,
  );

  assert.match(answer, /^HTTP\/1.1 200 /);
  assert.equal(node.lastRead?.headers['content-length'], String(body.length));
});
