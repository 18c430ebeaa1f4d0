/** Histories that nodes report, compared over real sockets. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Prober } from '../../src/upstream/node/probe.ts';
import { agreementOf, Witness, type Root } from '../../src/upstream/witness.ts';
import { fleetOf } from '../support/upstream-fleet.ts';
import { fakeNode, type FakeNode } from '../support/fake-node.ts';
import { syntheticHash } from '../../src/sample/synthetic.ts';

const rootAt = (version: bigint, history = ''): string =>
  syntheticHash(`accumulator root ${version}${history}`).slice(2);
const known: Root = { version: 900n, root: rootAt(900n) };

/** A witness of a fleet with the heads of these nodes. */
function witnessOf(t: TestContext, nodes: readonly FakeNode[]): Witness {
  const { upstreams, fleet } = fleetOf(nodes);
  for (const [index, upstream] of upstreams.entries()) {
    upstream.recordAnswer(1, performance.now());
    const ledger = nodes[index]?.ledger();
    assert.ok(ledger);
    fleet.observe(upstream, ledger, performance.now());
  }
  const log = { debug: () => undefined, record: () => undefined };
  const prober = new Prober(fleet, { intervalMs: 60_000, timeoutMs: 300 }, log);
  t.after(async () => {
    prober.close();
    await Promise.all(upstreams.map((upstream) => upstream.close()));
  });
  return new Witness(fleet, prober);
}

test('nodes on the history confirm it, and the freshest reports the root at the head of the second', async (t) => {
  const nodes = [await fakeNode(t, { head: 950n }), await fakeNode(t, { head: 1_000n })];
  const next = { version: 950n, root: rootAt(950n) };
  const witness = witnessOf(t, nodes);
  assert.deepEqual(await witness.look(known, true), { agreement: 'same', next });
  assert.deepEqual(await witness.look(known, false), { agreement: 'same', next: undefined });
  assert.deepEqual(await witness.look(undefined, true), { agreement: 'unknown', next });
});

test('nodes that all left the history report no root that could continue it', async (t) => {
  const nodes = [await fakeNode(t), await fakeNode(t)];
  for (const node of nodes) node.clock.fork(800n, 'fork');
  assert.deepEqual(await witnessOf(t, nodes).look(known, true), { agreement: 'other', next: undefined });
});

test('nodes on two histories contradict each other', async (t) => {
  const nodes = [await fakeNode(t), await fakeNode(t)];
  nodes[1]?.clock.fork(800n, 'fork');
  assert.equal((await witnessOf(t, nodes).look(known, false)).agreement, 'mixed');
});

test('a root continues a history only where its node confirms the root before', async (t) => {
  const nodes = [await fakeNode(t, { head: 1_000n }), await fakeNode(t, { head: 990n })];
  const [freshest] = nodes;
  assert.ok(freshest);
  freshest.faults.add({ kind: 'hang' }, { when: ({ url }) => url.endsWith('/900') });
  assert.deepEqual(await witnessOf(t, nodes).look(known, true), { agreement: 'same', next: undefined });
});

test('a node without an answer keeps the others from contradicting a root alone', async (t) => {
  const nodes = [await fakeNode(t), await fakeNode(t)];
  const [forked, silent] = nodes;
  assert.ok(forked && silent);
  forked.clock.fork(800n, 'fork');
  const witness = witnessOf(t, nodes);
  silent.fault = { kind: 'hang' };
  assert.equal((await witness.look(known, false)).agreement, 'unknown');
});

test('a node that is behind has no part in it', async (t) => {
  const nodes = [await fakeNode(t), await fakeNode(t, { head: 899n })];
  const witness = witnessOf(t, nodes);
  assert.equal((await witness.look(known, false)).agreement, 'same');
  nodes[0]?.clock.fork(800n, 'fork');
  assert.equal((await witness.look(known, false)).agreement, 'other');
  assert.equal((await witnessOf(t, nodes.slice(1)).look(known, false)).agreement, 'unknown');
});

test('nodes that pruned the version report so, and one that holds it decides', async (t) => {
  const nodes = [await fakeNode(t, { oldest: 950n }), await fakeNode(t, { oldest: 950n })];
  assert.equal((await witnessOf(t, nodes).look(known, false)).agreement, 'pruned');
  const deep = await fakeNode(t);
  assert.equal((await witnessOf(t, [...nodes, deep]).look(known, false)).agreement, 'same');
  deep.clock.fork(800n, 'fork');
  assert.equal((await witnessOf(t, [...nodes, deep]).look(known, false)).agreement, 'other');
});

test('where the freshest node reports no root, the next one continues the history', async (t) => {
  const nodes = [
    await fakeNode(t, { head: 1_000n }),
    await fakeNode(t, { head: 980n }),
    await fakeNode(t, { head: 990n }),
  ];
  nodes[0]?.faults.add({ kind: 'answer', status: 200, body: '{}', headers: {} });
  const next = { version: 990n, root: rootAt(990n) };
  assert.deepEqual(await witnessOf(t, nodes).look(known, true), { agreement: 'same', next });
});

test('an answer without a committed transaction of that version holds no root', async (t) => {
  const [root, headers] = [`0x${rootAt(900n)}`, {}];
  const bodies = [
    '',
    '[]',
    JSON.stringify({ version: '900' }),
    JSON.stringify({ version: '901', accumulator_root_hash: root }),
    JSON.stringify({ version: 900, accumulator_root_hash: root }),
    JSON.stringify({ version: '900', accumulator_root_hash: root.toUpperCase() }),
    JSON.stringify({ version: '900', accumulator_root_hash: `${root}0` }),
    JSON.stringify({ version: '900', accumulator_root_hash: [root] }),
  ];
  const node = await fakeNode(t);
  const witness = witnessOf(t, [node]);
  for (const body of bodies) {
    node.fault = { kind: 'answer', status: 200, body, headers };
    assert.equal((await witness.look(known, false)).agreement, 'unknown', body);
  }
  node.fault = {
    kind: 'answer',
    status: 404,
    body: JSON.stringify({ version: '900', accumulator_root_hash: root }),
    headers,
  };
  assert.equal((await witness.look(known, false)).agreement, 'unknown');
  node.fault = {
    kind: 'answer',
    status: 200,
    body: JSON.stringify({ version: '900', accumulator_root_hash: root }),
    headers,
  };
  assert.equal((await witness.look(known, false)).agreement, 'same');
});

function reportOf(root: string | undefined, head = 900n, oldest = 0n) {
  return { root, head, oldest };
}

test('every agreement on a root, by the answer of each node', () => {
  const [right, wrong] = [known.root, rootAt(901n)];
  const cases = [
    [[], 'unknown'],
    [[reportOf(right)], 'same'],
    [[reportOf(wrong)], 'other'],
    [[reportOf(undefined)], 'unknown'],
    [[reportOf(right), reportOf(undefined)], 'same'],
    [[reportOf(right), reportOf(wrong)], 'mixed'],
    [[reportOf(wrong), reportOf(undefined, 900n)], 'unknown'],
    [[reportOf(wrong), reportOf(undefined, 899n)], 'other'],
    [[reportOf(undefined, 899n)], 'unknown'],
    [[reportOf(undefined, 1_000n, 900n)], 'unknown'],
    [[reportOf(undefined, 1_000n, 901n)], 'pruned'],
    [[reportOf(undefined, 1_000n, 901n), reportOf(right)], 'same'],
    [[reportOf(undefined, 1_000n, 901n), reportOf(wrong)], 'other'],
  ] as const;
  for (const [reports, agreement] of cases) assert.equal(agreementOf(known, reports), agreement, agreement);
});
