import assert from 'node:assert/strict';
import { test } from 'node:test';
import { distortingNode, type Distort } from '../../support/distorting-node.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, probe, testGateway } from '../../support/gateway.ts';

test('a node that reports a head far in the future poisons neither headers nor reads', async (t) => {
  const liar = await fakeNode(t, { head: 5_000_000_000n });
  const honest = await fakeNode(t, { head: 1_000n });
  const alsoHonest = await fakeNode(t, { head: 990n });
  const gateway = await testGateway(t, { full: [liar, honest, alsoHonest] });

  const pinned = await gateway.get(`${probe}?ledger_version=900`);
  const latest = await gateway.get(probe);
  const above = await gateway.get(`${probe}?ledger_version=2000`);

  assert.deepEqual([pinned.status, latest.status], [200, 200]);
  assert.match(latest.text, /"ledger_version":"1000"/);
  assert.equal(latest.headers['x-node-ledger-version'], '1000');
  assert.equal(above.status, 404);
  assert.equal(liar.requestsTo('resource'), 0);
});

test('an archive whose head is not believed answers what the others have pruned', async (t) => {
  const full = await Promise.all([fakeNode(t, { oldest: 500n }), fakeNode(t, { oldest: 500n })]);
  const ahead = await fakeNode(t, { head: 5_000_000_000n });
  const gateway = await testGateway(t, { full, archival: [ahead] });
  const isSuspected = async () => (await gateway.metric('ledgergate_fleet_head_version')) === 1_000;
  await until(isSuspected);
  // Their headers still claim the version.
  for (const node of full) node.faults.add({ kind: 'pruned' });

  const { status, text, headers } = await gateway.get(`${probe}?ledger_version=600`);

  assert.equal(status, 200, text);
  assert.equal(headers['cache-status'], 'ledgergate; fwd=miss; detail=archive-0');
});

test('a head of the first node is retracted when the others contradict it', async (t) => {
  const liar = await fakeNode(t, { head: 5_000_000_000n });
  const honest = await Promise.all([fakeNode(t, { head: 1_000n }), fakeNode(t, { head: 1_001n })]);
  for (const node of honest) await node.refuse();
  const gateway = await testGateway(t, { full: [liar, ...honest], config: { upstream: { probeIntervalMs: 50 } } });
  assert.equal((await gateway.get(`${probe}?ledger_version=900`)).headers['x-node-ledger-version'], '5000000000');

  for (const node of honest) await node.accept();
  await until(async () => (await gateway.metric('ledgergate_fleet_head_version')) <= 2_000);

  assert.match((await gateway.get(probe)).text, /"ledger_version":"100[01]"/);
});

test('an answer that changes the chain is not stored under the old chain', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { head: 1_000n });
  const path = `${probe}?ledger_version=900`;
  await gateway.get(`${probe}?ledger_version=899`);
  node.faults.add({ kind: 'wrong chain id', chainId: 5 }, { times: 1 });

  await gateway.get(path);
  await gateway.get(`${probe}?ledger_version=898`);
  const again = await gateway.get(path);

  assert.equal(again.headers['cache-status'], 'ledgergate; fwd=miss; detail=full-0');
});

/** Near enough to the others to be believed. */
const lift: Distort = (said) => {
  const version = BigInt(said.headers['x-node-ledger-version'] ?? 0) + 5_000n;
  return { ...said, headers: { ...said.headers, 'x-node-ledger-version': String(version) } };
};

test('a node that reports versions which it calls not found itself stalls no reads of the latest state for long', async (t) => {
  const honest = await Promise.all([fakeNode(t), fakeNode(t)]);
  const liar = await distortingNode(t, await fakeNode(t), lift);
  const gateway = await testGateway(t, { full: [liar, ...honest] });
  await until(async () => {
    const { status, text, headers } = await gateway.get(probe);
    assert.equal(status, 200, text);
    return headers['x-node-ledger-version'] === '1000';
  });

  for (let reads = 0; reads < 5; reads += 1) {
    const { status, text, headers } = await gateway.get(`/accounts/0x${reads + 1}`, {
      'ledgergate-max-staleness': '0',
    });
    assert.notEqual(status, 503, text);
    assert.equal(headers['x-node-ledger-version'], '1000');
  }
  assert.match((await gateway.get(probe)).text, /"ledger_version":"1000"/);
});

test('the only node that can be asked is believed, whatever it calls not found', async (t) => {
  const node = await fakeNode(t);
  const gateway = await testGateway(t, { full: [await distortingNode(t, node, lift)] });
  for (let reads = 0; reads < 4; reads += 1) await gateway.get(`${probe}?ledger_version=${5_000 + reads}`);

  node.clock.advance(10n);
  await gateway.get(`${probe}?ledger_version=500`);

  const { headers } = await gateway.get(`${probe}?ledger_version=500`);
  assert.equal(headers['x-node-ledger-version'], '6010');
});
