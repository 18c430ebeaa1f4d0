/** A ledger that has stopped, by the times of its nodes, and one node that claims to be far beyond it. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { distortingNode, type Distort } from '../../support/distorting-node.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { probe, probeAt, testGateway, type TestGateway } from '../../support/gateway.ts';

const config = { upstream: { probeIntervalMs: 30 } };
const stoppedAt = 1_000_000n;

/** Reports the ledger time of `ago` seconds before now. */
const withTime =
  (ago: number): Distort =>
  (said) => ({
    ...said,
    headers: { ...said.headers, 'x-node-ledger-timestampusec': String((Date.now() - ago * 1000) * 1000) },
  });

/** Nodes of a ledger that stopped long ago, and one at 6,000,000 with a later time. */
async function standing(t: TestContext, ago: number, others = 2) {
  const stopped = await Promise.all(Array.from({ length: others }, () => fakeNode(t, { head: stoppedAt })));
  const source = await fakeNode(t, { head: 6_000_000n });
  const nodes = await Promise.all([source, ...stopped].map((node) => distortingNode(t, node, timeOf(node, ago))));
  return { stopped, source, nodes };
}

/** Nodes beyond the stop report a later time; the others that of their clock. */
function timeOf(node: FakeNode, ago: number): Distort {
  const late = withTime(ago);
  return (said, asked) => (node.clock.head > stoppedAt ? late(said, asked) : said);
}

async function headOf(gateway: TestGateway): Promise<unknown> {
  return (JSON.parse((await gateway.get('')).text) as { readonly ledger_version: unknown }).ledger_version;
}

/** Resolves when the gateway has looked at every node again. */
async function looked(nodes: readonly FakeNode[]): Promise<void> {
  const counts = nodes.map((node) => node.requests);
  await until(() => nodes.every((node, index) => node.requests >= (counts[index] ?? 0) + 2));
}

for (const [what, ago] of [
  ['with the time of our clock', 0],
  ['with a time that is only nearer to our clock', 1_800],
] as const) {
  test(`one node far beyond a ledger that stands, ${what}, moves no head, and no read above is kept`, async (t) => {
    const { stopped, source, nodes } = await standing(t, ago);
    const gateway = await testGateway(t, { full: nodes, config });
    await looked([source, ...stopped]);

    assert.equal(await headOf(gateway), String(stoppedAt));
    assert.match((await gateway.get(probe)).text, /"ledger_version":"1000000"/);
    const above = await gateway.get(probeAt(3_000_000));
    assert.deepEqual([above.status, above.headers['cache-control']], [404, 'no-store'], above.text);
  });
}

test('a node that answers first is believed until two others show that the ledger stands', async (t) => {
  const { stopped, nodes } = await standing(t, 0);
  for (const node of stopped) await node.refuse();
  const gateway = await testGateway(t, { full: nodes, config });
  assert.equal(await headOf(gateway), '6000000');

  for (const node of stopped) await node.accept();

  await until(async () => (await headOf(gateway)) === String(stoppedAt));
});

test('a ledger that goes on far beyond is believed once a second node follows', async (t) => {
  const { stopped, source, nodes } = await standing(t, 0);
  const gateway = await testGateway(t, { full: nodes, config });
  await looked([source, ...stopped]);
  assert.equal(await headOf(gateway), String(stoppedAt));

  const [second] = stopped;
  if (second !== undefined) second.clock.head = 5_999_000n;

  await until(async () => (await headOf(gateway)) === '6000000');
});

test('beside one other node the current one is believed: neither has a majority', async (t) => {
  const { nodes } = await standing(t, 0, 1);
  const gateway = await testGateway(t, { full: nodes, config });

  assert.equal(await headOf(gateway), '6000000');
});

test('a node that goes on by itself, block by block, is followed while the others stand', async (t) => {
  const { stopped, source, nodes } = await standing(t, 0);
  source.clock.head = stoppedAt;
  const gateway = await testGateway(t, { full: nodes, config });

  for (let steps = 0; steps < 6; steps += 1) {
    source.clock.advance(9_000n);
    await until(async () => (await headOf(gateway)) === String(source.clock.head));
  }
  // Comparisons of heads take place four times a second.
  for (let looks = 0; looks < 12; looks += 1) await looked(stopped);

  assert.equal(await headOf(gateway), '1054000');
  assert.equal(await gateway.metric('ledgergate_upstream_usable{upstream="full-0"}'), 1);
});
