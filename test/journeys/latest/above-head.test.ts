/** Reads of a version that only the freshest node has, or is about to have, beside nodes that lag. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { advancingClock } from '../../../src/sample/ledger-clock.ts';
import { createSampleNode, type SampleNode } from '../../support/sample-node.ts';
import { probe, testGateway } from '../../support/gateway.ts';

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

test('the node that was waited for is asked, although all attempts went to nodes that failed before', async (t) => {
  const [lagging, ...failing] = await nodesOf(t, 200, 0, 0, 0);
  assert.ok(lagging !== undefined && failing[0] !== undefined);
  const gateway = await testGateway(t, { full: [lagging, ...failing], config });
  for (const { faults } of failing) {
    faults.add({ kind: 'answer', status: 500, body: boom }, { when: ({ route }) => route === 'resource' });
  }
  for (let reads = 0; reads < 3; reads += 1) {
    const version = failing[0].ledger().version - 1n;

    const reply = await gateway.get(`${probe}?ledger_version=${version}`);

    assert.equal(reply.status, 200, reply.text);
    assert.equal(
      failing.reduce((sum, node) => sum + node.requestsTo('resource'), 0),
      (reads + 1) * 3,
    );
  }
});
