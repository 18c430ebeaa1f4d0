/** Histories that nodes report, compared over real sockets: forks, and the history of a tier. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { syntheticHash } from '../../src/sample/synthetic.ts';
import { Dialect } from '../../src/ledger/ledger-headers.ts';
import { FleetState } from '../../src/upstream/fleet-state.ts';
import { Prober } from '../../src/upstream/node/probe.ts';
import { Roots } from '../../src/upstream/roots.ts';
import { fakeNode, type FakeNode } from '../support/fake-node.ts';
import { quietEvents } from '../support/fleet-events.ts';
import { nodeAt } from '../support/node-client.ts';
import { Draw } from '../support/spellings.ts';

const seed = Number(process.env['LEDGERGATE_SEED'] ?? 20);
const rounds = Number(process.env['LEDGERGATE_FORK_ROUNDS'] ?? 5);

/** `changes` so far: `fork n1 n0 500`, `fork over n1`. `round`: probes, and a comparison at each node's head. */
async function compared(t: TestContext, nodes: readonly FakeNode[], timeoutMs = 2_000) {
  const upstreams = nodes.map(({ url, port }, index) =>
    nodeAt(t, port, { name: `n${index}`, url: new URL(url), connections: 4 }),
  );
  const fleet = new FleetState(upstreams, new Dialect('node'), quietEvents);
  const log = { debug: () => undefined, record: () => undefined };
  const prober = new Prober(fleet, { intervalMs: 3_600_000, timeoutMs }, log);
  const changes: string[] = [];
  const roots = new Roots(fleet, prober, {
    onChange: (change, fields) => {
      const { upstream, other, version } = fields as Readonly<Record<string, unknown>>;
      changes.push([change, upstream, ...(change === 'fork' ? [other, version] : [])].map(String).join(' '));
    },
    onFork: () => undefined,
    intervalMs: 3_600_000,
    pauseMs: 0,
  });
  t.after(() => {
    roots.close();
    prober.close();
  });
  const look = async (): Promise<void> => void (await Promise.all(upstreams.map((upstream) => prober.look(upstream))));
  await look();
  fleet.ledger.settle();
  const round = async (): Promise<void> => {
    await look();
    for (let turn = 0; turn < nodes.length; turn += 1) await roots.compare();
  };
  return { upstreams, fleet, changes, round, roots };
}

/** A node with these heads and edges each. */
function nodesOf(t: TestContext, ...options: readonly NonNullable<Parameters<typeof fakeNode>[1]>[]) {
  return Promise.all(options.map((each) => fakeNode(t, each)));
}

test('a fork at a random version is found exactly, with at most 30 reads of each node', async (t) => {
  const draw = new Draw(seed);
  const calls: number[] = [];
  for (let count = 0; count < rounds; count += 1) {
    const head = 1_000n + BigInt(draw.upTo(99_000_000));
    const oldest = head / BigInt(2 + draw.upTo(3));
    const nodes = await nodesOf(t, { head, oldest }, { head, oldest }, { head, oldest });
    const fork = oldest + BigInt(draw.upTo(Number(head - oldest) - 1));
    const forked = draw.upTo(2);
    nodes[forked]?.clock.fork(fork, 'fork');
    const { round, changes, upstreams } = await compared(t, nodes);
    const looks = nodes.map(({ log }) => log.readCount);

    await round();

    const other = forked === 0 ? 1 : 0;
    assert.deepEqual(changes, [`fork n${forked} n${other} ${fork + 1n}`], `seed ${seed}, round ${count}`);
    assert.deepEqual(
      upstreams.map(({ forkedAt }) => forkedAt),
      nodes.map((_, at) => (at === forked ? fork + 1n : undefined)),
    );
    // The two rounds after it compare heads alone.
    calls.push(...nodes.map(({ log }, at) => log.readCount - (looks[at] ?? 0) - 2));
    await Promise.all(nodes.map((node) => node.close()));
  }
  const most = Math.max(...calls);
  t.diagnostic(
    `${rounds} forks found, most reads of a node ${most}: ${(most * 1.1).toFixed(1)} s at one read in 1.1 s`,
  );
  assert.ok(most <= 30, String(most));
});

test('nodes that lag, prune, and are rebuilt from the same history are no fork', async (t) => {
  const draw = new Draw(seed);
  const head = 1_000_000n;
  const nodes = await nodesOf(t, { head }, { head }, { head, archival: true });
  const [one, two, three] = nodes as [FakeNode, FakeNode, FakeNode];
  const { round, changes } = await compared(t, nodes);
  for (let count = 0; count < rounds; count += 1) {
    one.clock.advance(1_000n);
    three.clock.advance(900n);
    one.clock.oldest = one.clock.head - BigInt(1 + draw.upTo(2_000));
    // Rebuilt: empty, far behind, with any window, or beyond reach.
    two.clock.head = BigInt(draw.upTo(Number(one.clock.head)));
    two.clock.oldest = BigInt(draw.upTo(Number(two.clock.head)));
    if (count % 5 === 0) await two.refuse();
    await round();
    if (count % 5 === 0) await two.accept();
  }
  assert.deepEqual(changes, []);
});

test('of two nodes that differ both are doubted, until one is drained or has the history of the other', async (t) => {
  const nodes = await nodesOf(t, {}, {});
  const [, two] = nodes as [FakeNode, FakeNode];
  const { round, changes, fleet, upstreams } = await compared(t, nodes);
  const marks = () => upstreams.map(({ forkedAt }) => forkedAt);
  two.clock.fork(799n, 'fork');

  await round();
  assert.deepEqual(changes.splice(0), ['fork n0 n1 800', 'fork n1 n0 800']);
  await two.refuse();
  await round();
  await round();
  assert.deepEqual(marks(), [800n, 800n]);
  await two.accept();
  const [, second] = upstreams;
  assert.ok(second);
  fleet.setDrained(second, true, performance.now());
  await round();
  assert.deepEqual(marks(), [undefined, 800n]);
  fleet.setDrained(second, false, performance.now());
  two.clock.fork(10_000n, '');
  await round();
  await round();
  assert.deepEqual(marks(), [undefined, undefined]);
  assert.deepEqual(changes, ['fork over n0', 'fork over n1']);
});

test('a fork below the window is reported from the lowest version that both hold', async (t) => {
  const nodes = await nodesOf(t, {}, { oldest: 600n }, {});
  const { round, changes } = await compared(t, nodes);
  nodes[1]?.clock.fork(300n, 'fork');

  await round();

  assert.deepEqual(changes, ['fork n1 n0 600']);
});

test('a node that gives no root during the search is reported in a later round', async (t) => {
  const nodes = await nodesOf(t, {}, {}, {});
  const { round, changes } = await compared(t, nodes);
  nodes[2]?.clock.fork(299n, 'fork');
  nodes[2]?.faults.add({ kind: 'unavailable' }, { when: ({ url }) => /by_version\/(?!1000$)/.test(url), times: 2 });

  await round();
  await round();

  assert.deepEqual(changes, ['fork n2 n0 300']);
});

const rootAt = (version: bigint): string => syntheticHash(`accumulator root ${version}`).slice(2);
const known = { version: 900n, root: rootAt(900n) };
const rootsOf = async (t: TestContext, nodes: readonly FakeNode[]) => (await compared(t, nodes, 300)).roots;
const agreementOf = async (t: TestContext, nodes: readonly FakeNode[]) =>
  (await (await rootsOf(t, nodes)).read(known, false)).agreement;

test('nodes on a history confirm it, and the freshest reports the root at the head of the second', async (t) => {
  const next = { version: 950n, root: rootAt(950n) };
  const roots = await rootsOf(t, await nodesOf(t, { head: 950n }, { head: 1_000n }));
  assert.deepEqual(await roots.read(known, true), { agreement: 'same', next });
  assert.deepEqual(await roots.read(known, false), { agreement: 'same', next: undefined });
  assert.deepEqual(await roots.read(undefined, true), { agreement: 'unknown', next });
});

test('nodes that all left the history report no root that could continue it', async (t) => {
  const nodes = await nodesOf(t, {}, {});
  for (const node of nodes) node.clock.fork(800n, 'fork');
  assert.deepEqual(await (await rootsOf(t, nodes)).read(known, true), { agreement: 'other', next: undefined });
});

test('a root continues a history only where its node confirms the root before', async (t) => {
  const nodes = await nodesOf(t, { head: 1_000n }, { head: 990n });
  nodes[0]?.faults.add({ kind: 'hang' }, { when: ({ url }) => url.endsWith('/900') });
  assert.deepEqual(await (await rootsOf(t, nodes)).read(known, true), { agreement: 'same', next: undefined });
});

test('where the freshest node reports no root, the next one continues the history', async (t) => {
  const nodes = await nodesOf(t, { head: 1_000n }, { head: 980n }, { head: 990n });
  const roots = await rootsOf(t, nodes);
  nodes[0]?.faults.add({ kind: 'answer', status: 200, body: '{}', headers: {} });
  const next = { version: 990n, root: rootAt(990n) };
  assert.deepEqual(await roots.read(known, true), { agreement: 'same', next });
});

test('nodes on two histories contradict each other, and one without an answer keeps another from doing so', async (t) => {
  const nodes = await nodesOf(t, {}, {});
  nodes[1]?.clock.fork(800n, 'fork');
  const roots = await rootsOf(t, nodes);
  assert.equal((await roots.read(known, false)).agreement, 'mixed');
  nodes[0]?.faults.add({ kind: 'hang' });
  assert.equal((await roots.read(known, false)).agreement, 'unknown');
});

test('a node that is behind has no part in it, and nodes that pruned the version report so', async (t) => {
  const [behind, pruned, deep] = await nodesOf(t, { head: 899n }, { oldest: 950n }, {});
  assert.ok(behind && pruned && deep);
  assert.equal(await agreementOf(t, [behind]), 'unknown');
  assert.equal(await agreementOf(t, [pruned, behind]), 'pruned');
  assert.equal(await agreementOf(t, [behind, pruned, deep]), 'same');
  deep.clock.fork(800n, 'fork');
  assert.equal(await agreementOf(t, [behind, pruned, deep]), 'other');
});

test('only a committed transaction of the version holds a root', async (t) => {
  const root = `0x${rootAt(900n)}`;
  const right = JSON.stringify({ version: '900', accumulator_root_hash: root });
  const answers = [
    [200, '', 'unknown'],
    [200, '[]', 'unknown'],
    [200, JSON.stringify({ version: '900' }), 'unknown'],
    [200, right.replace('"900"', '"901"'), 'unknown'],
    [200, right.replace('"900"', '900'), 'unknown'],
    [200, right.replace(root, root.toUpperCase()), 'unknown'],
    [200, right.replace(root, `${root}0`), 'unknown'],
    [200, right.replace(`"${root}"`, `["${root}"]`), 'unknown'],
    [404, right, 'unknown'],
    [200, right, 'same'],
  ] as const;
  const node = await fakeNode(t);
  const roots = await rootsOf(t, [node]);
  for (const [status, body, agreement] of answers) {
    node.fault = { kind: 'answer', status, body, headers: {} };
    assert.equal((await roots.read(known, false)).agreement, agreement, body);
  }
});
