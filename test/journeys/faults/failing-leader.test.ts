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
): Promise<void> {
  await until(async () => {
    leader?.clock.advance(20n);
    const behind = (leader?.clock.head ?? 0n) - lag;
    for (const node of others) if (node.clock.head < behind) node.clock.advance(behind - node.clock.head);
    return isDone((await gateway.get(probe)).status);
  }, 20);
}

const reads: FaultLimits = { when: ({ route }) => route !== 'ledgerInfo' };
const faults: Readonly<Record<string, SampleFault>> = {
  'by errors': { kind: 'answer', status: 502, body: '' },
  'by resets': { kind: 'reset' },
  'by silence': { kind: 'hang' },
};

for (const [how, fault] of Object.entries(faults)) {
  test(`the freshest node fails reads ${how} and is far ahead: reads of the latest state end with another node's`, async (t) => {
    const nodes = await Promise.all([0, 1, 2].map(() => fakeNode(t)));
    const [leader] = nodes;
    const config = { upstream: { probeIntervalMs: 100, timeoutMs: 500, deadlineMs: 1_000 } };
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
