/** A second node is asked beside one that takes unusually long. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Config } from '../../../src/config/config.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { pooledGet, probeAt, testGateway, type TestGateway } from '../../support/gateway.ts';
import type { SampleFault } from '../../support/sample-faults.ts';
import { watchStalls } from '../../support/stalls.ts';

const usual = { quantile: 0.95, share: 0.04 };

/** A shallow node that is asked first, a deeper one, and reads with their durations. */
async function warm(t: TestContext, hedge: Config['upstream']['hedge'] | 'off' = usual) {
  const first = await fakeNode(t, { oldest: 50_000n, head: 90_000n });
  const second = await fakeNode(t, { head: 90_000n });
  const gateway = await testGateway(t, {
    full: [first, second],
    config: { upstream: { hedge: hedge === 'off' ? undefined : hedge } },
  });
  const get = pooledGet(t, gateway);
  for (let version = 60_000; version < 60_030; version += 1) assert.equal((await get(probeAt(version))).status, 200);
  return { first, second, gateway, get };
}

const hedges = (gateway: TestGateway, outcome: string): Promise<number> =>
  gateway.metric(`ledgergate_hedges_total{outcome="${outcome}"}`);

test('another node answers a read that one is slow to answer, and the slow attempt is cancelled', async (t) => {
  const stalls = watchStalls(t);
  const { first, second, gateway } = await warm(t);
  first.fault = { kind: 'hang' };
  const startedMs = performance.now();

  const before = { reads: second.reads, won: await hedges(gateway, 'won') };

  const reply = await gateway.get(probeAt(70_000));

  assert.equal(reply.status, 200);
  assert.match(reply.text, /"ledger_version":"70000"/);
  assert.equal(reply.headers['cache-status'], 'ledgergate; fwd=miss; detail=full-1');
  stalls.judge(performance.now() - startedMs < 1_000, 'long before the time-out of 2 s');
  assert.equal(await hedges(gateway, 'won'), before.won + 1);
  // Its connection is closed, and that is no failure of the node.
  await until(async () => (await gateway.metric('ledgergate_upstream_in_flight_requests{upstream="full-0"}')) === 0);
  assert.equal(await gateway.metric('ledgergate_upstream_failures_total{upstream="full-0",kind="timeout"}'), 0);
  assert.equal(second.reads, before.reads + 1);
});

test('a node whose reads others answer first is passed over, and the hedges end', async (t) => {
  const { first, gateway, get } = await warm(t);
  first.faults.add({ kind: 'hang' }, { when: ({ route }) => route === 'resource' });

  for (let version = 70_000; version < 70_040; version += 1) assert.equal((await get(probeAt(version))).status, 200);

  const sample = 'ledgergate_upstream_ejections_total{upstream="full-0",class="head",reason="outpaced"}';
  assert.equal(await gateway.metric(sample), 1);
  assert.ok(first.reads <= 30 + 5 + 1, `${first.reads} reads went to it`);
  first.faults.clear();
  let version = 71_000;
  await until(async () => {
    assert.equal((await gateway.get(probeAt((version += 1)))).status, 200);
    return (await gateway.metric('ledgergate_upstream_ejected{upstream="full-0",class="head"}')) === 0;
  }, 20);
});

test('hedges are a share of all reads, even when all are slow', async (t) => {
  const { first, second, gateway, get } = await warm(t, { quantile: 0.95, share: 0.02 });
  // Slow enough to be hedged each time, and answering now and then so that it is not passed over.
  let turn = 0;
  first.faults.add({ kind: 'latency', ms: 40 }, { when: ({ route }) => route === 'resource' && (turn += 1) % 3 !== 0 });

  const reads = 120;
  for (let index = 0; index < reads; index += 1) assert.equal((await get(probeAt(70_000 + index))).status, 200);

  const sent = (await hedges(gateway, 'won')) + (await hedges(gateway, 'lost'));
  assert.ok(sent > 0 && sent <= 20 + (reads + 30) * 0.02, `${sent} hedges`);
  assert.ok(first.reads + second.reads <= reads + 30 + sent);
});

test('submissions and long polls are never hedged, nor is any read with hedging off', async (t) => {
  const { first, second, gateway } = await warm(t);
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  first.faults.add({ kind: 'hold', until: released }, { when: ({ route }) => route !== 'ledgerInfo' });
  second.faults.add({ kind: 'hold', until: released }, { when: ({ route }) => route !== 'ledgerInfo' });
  const hash = `0x${'ab'.repeat(32)}`;
  const submitted = gateway.post('/transactions', '{}');
  const waited = gateway.get(`/transactions/wait_by_hash/${hash}`);
  const asked = (route: Parameters<FakeNode['requestsTo']>[0]) =>
    [first, second].reduce((sum, node) => sum + node.requestsTo(route), 0);
  await until(() => asked('submit') + asked('waitByHash') >= 2);
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.deepEqual([asked('submit'), asked('waitByHash')], [1, 1]);
  release();
  await Promise.all([submitted, waited]);

  const off = await warm(t, 'off');
  const letGo = off.first.hold();
  const reply = off.gateway.get(probeAt(70_000));
  await until(() => off.first.reads >= 31);
  await new Promise((resolve) => setTimeout(resolve, 300));
  letGo();
  assert.equal((await reply).headers['cache-status'], 'ledgergate; fwd=miss; detail=full-0');
  assert.equal(off.second.reads, 0);
});

const faults: readonly (readonly [how: string, fault: SampleFault])[] = [
  ['hang', { kind: 'hang' }],
  ['fail', { kind: 'answer', status: 500, body: '{}' }],
];

for (const [how, fault] of faults) {
  test(`all nodes but one ${how} at reads, with the share of retries used up: reads are answered, and those nodes passed over`, async (t) => {
    const nodes = await Promise.all([0, 1, 2, 3].map(() => fakeNode(t, { head: 90_000n })));
    const upstream = { timeoutMs: 200, deadlineMs: 2_000, connections: 256 };
    const gateway = await testGateway(t, { full: nodes, config: { upstream } });
    for (const node of nodes) node.faults.add(fault, { when: ({ route }) => route === 'resource' });
    let version = 1_000;
    const get = pooledGet(t, gateway);
    const read = async () => (await get(probeAt((version += 1)))).status;
    // Without a retry that one answers, no failure of another counts. Many at once: retries come back with time.
    await until(async () => {
      await Promise.all(Array.from({ length: 300 }, read));
      return (await gateway.metric('ledgergate_retries_total{outcome="refused"}')) > 0;
    });

    nodes[0]?.faults.clear();
    const areEjected = async (): Promise<boolean> => {
      const states = [1, 2, 3].map((index) =>
        gateway.metric(`ledgergate_upstream_ejected{upstream="full-${index}",class="head"}`),
      );
      return (await Promise.all(states)).every((state) => state === 1);
    };
    await until(async () => {
      await Promise.all(Array.from({ length: 20 }, read));
      return areEjected();
    });
    const statuses: number[] = [];
    for (let turn = 0; turn < 10; turn += 1) statuses.push(...(await Promise.all(Array.from({ length: 5 }, read))));

    assert.deepEqual(new Set(statuses), new Set([200]));
  });
}
