/** Reads of a version that only the freshest node has, or is about to have, beside nodes that lag. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { advancingClock } from '../../../src/sample/ledger-clock.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { probe, testGateway, type TestGateway } from '../../support/gateway.ts';
import { createSampleNode, type SampleNode } from '../../support/sample-node.ts';

const versionsPerSecond = 1_000;
const boom = '{"message":"boom","error_code":"internal_error","vm_error_code":null}';

/** One node for each lag in ms, all of one ledger that commits a version each ms. */
async function nodesOf(t: TestContext, ...lagsMs: readonly number[]): Promise<readonly SampleNode[]> {
  const startMs = Date.now();
  const nodes = await Promise.all(
    lagsMs.map((lagMs) =>
      createSampleNode({
        clock: advancingClock({ startHead: 1_000_000n - BigInt(lagMs), versionsPerSecond, startMs }),
      }),
    ),
  );
  t.after(() => Promise.all(nodes.map((node) => node.close())));
  return nodes;
}

const config = { upstream: { probeIntervalMs: 200 }, latest: { waitForVersionMs: 500 } };

for (const [what, headers] of [
  ['named by the read', undefined],
  ['named by Ledgergate-Min-Version', { 'ledgergate-max-staleness': '200ms' }],
  ['named by Ledgergate-Min-Version with Max-Staleness 0', { 'ledgergate-max-staleness': '0ms' }],
] as const) {
  test(`a version 30 ms above the head, ${what}, is waited for beside a node that lags by 300 ms`, async (t) => {
    const [fresh, lagging] = await nodesOf(t, 0, 300);
    assert.ok(fresh !== undefined && lagging !== undefined);
    const gateway = await testGateway(t, { full: [lagging, fresh], config });

    for (let read = 0; read < 20; read += 1) {
      const version: bigint = fresh.ledger().version + 30n;
      const reply = await (headers === undefined
        ? gateway.get(`${probe}?ledger_version=${version}`)
        : gateway.get(probe, { ...headers, 'ledgergate-min-version': String(version) }));
      assert.equal(reply.status, 200, `read ${read}: ${reply.text}`);
    }
  });
}

for (const [what, headers] of [
  ['the latest state', {}],
  ['the latest state with Max-Staleness 0', { 'ledgergate-max-staleness': '0ms' }],
] as const) {
  test(`the freshest node answers 500 to a fifth of reads: ${what} is answered all the same`, async (t) => {
    const [fresh, lagging] = await nodesOf(t, 0, 300);
    assert.ok(fresh !== undefined && lagging !== undefined);
    const gateway = await testGateway(t, { full: [lagging, fresh], config });
    let count = 0;
    fresh.faults.add(
      { kind: 'answer', status: 500, body: boom },
      { when: ({ route }) => route === 'resource' && (count += 1) % 5 === 0 },
    );
    const statuses = new Map<number, number>();

    for (let read = 0; read < 150; read += 1) {
      const { status } = await gateway.get(`/accounts/0x${(read + 1).toString(16)}/resource/0x1::a::B`, headers);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }

    // The sample nodes hold no such resource.
    assert.deepEqual([...statuses], [[404, 150]]);
  });
}

/** The nodes whose reads of resources fail. */
function failReads(nodes: readonly FakeNode[]): void {
  for (const { faults } of nodes) {
    faults.add({ kind: 'answer', status: 500, body: boom }, { when: ({ route }) => route === 'resource' });
  }
}

function readsAt(nodes: readonly FakeNode[]): number {
  return nodes.reduce((sum, node) => sum + node.requestsTo('resource'), 0);
}

/** Resolves when the gateway has read version 1020 from the node. */
function headReported(gateway: TestGateway, name: string): Promise<void> {
  return until(async () => (await gateway.metric(`ledgergate_upstream_head_version{upstream="${name}"}`)) === 1_020);
}

const patientConfig = { upstream: { probeIntervalMs: 100 }, latest: { waitForVersionMs: 30_000 } };

test('the node that was waited for is asked, although all attempts went to nodes that failed before', async (t) => {
  const [lagging, ...failing] = await Promise.all([0, 1, 2, 3].map(() => fakeNode(t)));
  assert.ok(lagging !== undefined);
  const gateway = await testGateway(t, { full: [lagging, ...failing], config: patientConfig });
  for (const { clock } of failing) clock.advance(20n);
  for (const name of ['full-1', 'full-2', 'full-3']) await headReported(gateway, name);
  failReads(failing);

  const reading = gateway.get(`${probe}?ledger_version=1020`);

  await until(() => readsAt(failing) === 3);
  lagging.clock.advance(20n);
  const reply = await reading;
  assert.equal(reply.status, 200, reply.text);
  assert.equal(readsAt(failing), 3);
});

test('the node that was waited for is asked, although a repeat and waits for others used up all attempts', async (t) => {
  const [first, second, third, last] = await Promise.all([0, 1, 2, 3].map(() => fakeNode(t)));
  assert.ok(first !== undefined && second !== undefined && third !== undefined && last !== undefined);
  const gateway = await testGateway(t, { full: [first, second, third, last], config: patientConfig });
  first.clock.advance(20n);
  await headReported(gateway, 'full-0');
  failReads([first, second, third]);

  const reading = gateway.get(`${probe}?ledger_version=1020`);

  // The only holder is asked twice, then each node as it arrives.
  await until(() => readsAt([first]) === 2);
  second.clock.advance(20n);
  await until(() => readsAt([second]) === 1);
  third.clock.advance(20n);
  await until(() => readsAt([third]) === 1);
  last.clock.advance(20n);
  const reply = await reading;
  assert.equal(reply.status, 200, reply.text);
});
