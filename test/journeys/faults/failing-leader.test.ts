import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { probe, testGateway, type TestGateway } from '../../support/gateway.ts';
import type { FaultLimits, SampleFault } from '../../support/sample-faults.ts';

/** Versions by which the other nodes are behind the freshest. */
const lag = 300n;

/** Moves the freshest node, and the others behind it, one step for each read, and reads until `isDone`. */
async function readUntil(
  gateway: TestGateway,
  [leader, ...others]: readonly FakeNode[],
  isDone: (status: number) => boolean,
  read = () => gateway.get(probe),
): Promise<void> {
  await until(async () => {
    leader?.clock.advance(20n);
    const behind = (leader?.clock.head ?? 0n) - lag;
    for (const node of others) if (node.clock.head < behind) node.clock.advance(behind - node.clock.head);
    return isDone((await read()).status);
  }, 20);
}

const reads: FaultLimits = { when: ({ route }) => route !== 'ledgerInfo' };
const errors: SampleFault = { kind: 'answer', status: 502, body: '' };
const cases: readonly (readonly [how: string, fault: SampleFault, maxStalenessMs: number])[] = [
  ['by errors', errors, 200],
  ['by errors, and no state is shared,', errors, 0],
  ['by resets', { kind: 'reset' }, 200],
  ['by silence', { kind: 'hang' }, 200],
];

for (const [how, fault, maxStalenessMs] of cases) {
  test(`the freshest node fails reads ${how} and is far ahead: reads of the latest state end with another node's`, async (t) => {
    const nodes = await Promise.all([0, 1, 2].map(() => fakeNode(t)));
    const [leader] = nodes;
    const upstream = { probeIntervalMs: 100, timeoutMs: 500, deadlineMs: 1_000 };
    const config = { upstream, latest: { maxStalenessMs } };
    const gateway = await testGateway(t, { full: nodes, config });
    leader?.clock.advance(lag);
    await readUntil(gateway, nodes, (status) => status === 200);
    leader?.faults.add(fault, reads);
    await readUntil(gateway, nodes, (status) => status === 503);

    await readUntil(gateway, nodes, (status) => status === 200);

    assert.equal(await gateway.metric('ledgergate_upstream_ejected{upstream="full-0",class="head"}'), 1);
    leader?.faults.clear();
    await until(
      async () => (await gateway.metric('ledgergate_upstream_ejected{upstream="full-0",class="head"}')) === 0,
    );
  });
}

test('the freshest node fails every view and is far ahead: views of the latest state end with another node', async (t) => {
  const nodes = await Promise.all([0, 1, 2].map(() => fakeNode(t)));
  const [leader] = nodes;
  const gateway = await testGateway(t, { full: nodes, config: { upstream: { probeIntervalMs: 100 } } });
  const read = () => gateway.post('/view', '{"function":"0x1::coin::balance","type_arguments":[],"arguments":[]}');
  leader?.clock.advance(lag);
  await readUntil(gateway, nodes, (status) => status === 200, read);
  leader?.faults.add(errors, { when: ({ route }) => route === 'view' });
  await readUntil(gateway, nodes, (status) => status === 503, read);

  await readUntil(gateway, nodes, (status) => status === 200, read);

  assert.equal(await gateway.metric('ledgergate_upstream_ejected{upstream="full-0",class="view"}'), 1);
});

test('the freshest node fails reads above the others alone: it is asked at their version, and not ejected', async (t) => {
  const nodes = await Promise.all([0, 1].map(() => fakeNode(t)));
  const [leader] = nodes;
  const gateway = await testGateway(t, { full: nodes, config: { upstream: { probeIntervalMs: 100 } } });
  leader?.clock.advance(lag);
  await until(async () => (await gateway.metric('ledgergate_fleet_head_version')) === 1_300);
  leader?.faults.add(errors, { when: ({ url }) => url.endsWith('ledger_version=1300') });
  const askedBelow = () => leader?.log.received.filter(({ url }) => url.endsWith('ledger_version=1000')).length ?? 0;

  await until(async () => (await gateway.get(probe)).status === 503 && askedBelow() >= 6);

  assert.equal(await gateway.metric('ledgergate_upstream_ejected{upstream="full-0",class="head"}'), 0);
});
