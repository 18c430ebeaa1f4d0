import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeVectors, recordedTransactions } from '../../../src/sample/recorded.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, testGateway, twoTiers } from '../../support/gateway.ts';
import { submission } from '../../support/submission.ts';

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

test('a module with its ABI is read and cached, byte for byte', async (t) => {
  const { node, gateway } = await nodeAndGateway(t);

  const direct = await fetch(`${node.url}/accounts/0x1/module/coin?ledger_version=500`);
  const miss = await gateway.get('/accounts/0x1/module/coin?ledger_version=500');
  const hit = await gateway.get('/accounts/0x0001/module/coin?ledger_version=500');

  assert.deepEqual(miss.body, Buffer.from(await direct.arrayBuffer()));
  assert.deepEqual(hit.body, miss.body);
  assert.equal(hit.headers['cache-status'], 'ledgergate; hit; detail=memory');
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

test('a read after a submission asks the node that accepted it first', async (t) => {
  const one = await fakeNode(t, { head: 900n });
  const other = await fakeNode(t, { head: 900n });
  const gateway = await testGateway(t, { full: [one, other] });
  const submitted = await gateway.post('/transactions', submission());
  const { hash } = JSON.parse(submitted.text) as { hash: string };
  const taker = one.requestsTo('submit') === 1 ? one : other;

  for (let round = 0; round < 5; round += 1) {
    assert.equal((await gateway.get(`/transactions/by_hash/${hash}`)).status, 200);
  }

  assert.equal(taker.requestsTo('byHash'), 5);
});

test('encode_submission is answered with the node\u2019s bytes', async (t) => {
  const { gateway } = await nodeAndGateway(t, {}, { chainId: encodeVectors[0]?.chainId ?? 0 });
  const [vector] = encodeVectors;
  assert.ok(vector !== undefined);

  const reply = await gateway.post('/transactions/encode_submission', vector.request);

  assert.deepEqual([reply.status, reply.text], [200, vector.body]);
});

test('HEAD answers as GET, without a body', async (t) => {
  const { gateway } = await nodeAndGateway(t);
  const path = '/accounts/0x1/resource/0x1::account::Account?ledger_version=500';

  const head = await gateway.send('HEAD', path);
  const get = await gateway.get(path);

  assert.deepEqual([head.status, head.body.length], [200, 0]);
  assert.equal(head.headers['content-length'], String(get.body.length));
  assert.equal(head.headers['etag'], get.headers['etag']);
  assert.equal(get.headers['cache-status'], 'ledgergate; hit; detail=memory');
});
