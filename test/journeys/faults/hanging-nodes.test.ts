import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { probeAt, testGateway } from '../../support/gateway.ts';
import type { SampleFault } from '../../support/sample-faults.ts';

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
    const read = async () => (await gateway.get(probeAt((version += 1)))).status;
    // Without a retry that one answers, no failure of another counts.
    await until(async () => {
      await Promise.all(Array.from({ length: 90 }, read));
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
