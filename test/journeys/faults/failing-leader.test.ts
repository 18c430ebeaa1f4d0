import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { probe, testGateway, type TestGateway } from '../../support/gateway.ts';
import type { FaultLimits, SampleFault } from '../../support/sample-faults.ts';

/** Versions by which the other nodes are behind the freshest. */
const lag = 300n;

/** Moves the freshest node, and the others behind it, one step for each read, until `isDone`. Every read is answered. */
async function readUntil(
  gateway: TestGateway,
  [leader, ...others]: readonly FakeNode[],
  isDone: () => Promise<boolean>,
  read = () => gateway.get(probe),
): Promise<void> {
  await until(async () => {
    leader?.clock.advance(20n);
    const behind = (leader?.clock.head ?? 0n) - lag;
    for (const node of others) if (node.clock.head < behind) node.clock.advance(behind - node.clock.head);
    const { status, text } = await read();
    assert.equal(status, 200, text);
    return isDone();
  }, 20);
}

function isEjected(gateway: TestGateway, readClass: string): () => Promise<boolean> {
  const metric = `ledgergate_upstream_ejected{upstream="full-0",class="${readClass}"}`;
  return async () => (await gateway.metric(metric)) === 1;
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
  test(`the freshest node fails reads ${how} and is far ahead: others answer each read, and it is ejected`, async (t) => {
    const nodes = await Promise.all([0, 1, 2].map(() => fakeNode(t)));
    const [leader] = nodes;
    const upstream = { probeIntervalMs: 100, timeoutMs: 500, deadlineMs: 2_000 };
    const config = { upstream, latest: { maxStalenessMs } };
    const gateway = await testGateway(t, { full: nodes, config });
    leader?.clock.advance(lag);
    await readUntil(gateway, nodes, async () => (await gateway.metric('ledgergate_fleet_head_version')) > 1_000);
    leader?.faults.add(fault, reads);

    await readUntil(gateway, nodes, isEjected(gateway, 'head'));

    leader?.faults.clear();
    await until(async () => !(await isEjected(gateway, 'head')()));
  });
}

test('the freshest node fails every view and is far ahead: others answer each view, and it is ejected', async (t) => {
  const nodes = await Promise.all([0, 1, 2].map(() => fakeNode(t)));
  const [leader] = nodes;
  const gateway = await testGateway(t, { full: nodes, config: { upstream: { probeIntervalMs: 100 } } });
  const read = () => gateway.post('/view', '{"function":"0x1::coin::balance","type_arguments":[],"arguments":[]}');
  leader?.clock.advance(lag);
  await readUntil(gateway, nodes, async () => (await gateway.metric('ledgergate_fleet_head_version')) > 1_000, read);
  leader?.faults.add(errors, { when: ({ route }) => route === 'view' });

  await readUntil(gateway, nodes, isEjected(gateway, 'view'), read);
});

test('the freshest node fails reads above the others alone: they answer, it is asked at their version, and not ejected', async (t) => {
  const nodes = await Promise.all([0, 1].map(() => fakeNode(t, { keepRequests: 100_000 })));
  const [leader] = nodes;
  const gateway = await testGateway(t, { full: nodes, config: { upstream: { probeIntervalMs: 100 } } });
  leader?.clock.advance(lag);
  await until(async () => (await gateway.metric('ledgergate_fleet_head_version')) === 1_300);
  leader?.faults.add(errors, { when: ({ url }) => url.endsWith('ledger_version=1300') });
  const askedBelow = () => leader?.log.received.filter(({ url }) => url.endsWith('ledger_version=1000')).length ?? 0;

  await until(async () => {
    const { status, text } = await gateway.get(probe);
    assert.equal(status, 200, text);
    return askedBelow() >= 6;
  });

  assert.equal(await isEjected(gateway, 'head')(), false);
});
