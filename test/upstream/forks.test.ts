/** Nodes that fork, lag, prune and are rebuilt, compared over real sockets. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { FleetState } from '../../src/upstream/fleet-state.ts';
import { Forks } from '../../src/upstream/forks.ts';
import { Prober } from '../../src/upstream/node/probe.ts';
import type { Upstream } from '../../src/upstream/node/upstream.ts';
import { Witness } from '../../src/upstream/witness.ts';
import { fleetOf } from '../support/upstream-fleet.ts';
import { fakeNode, type FakeNode } from '../support/fake-node.ts';
import { Draw } from '../support/spellings.ts';

const seed = Number(process.env['LEDGERGATE_SEED'] ?? 20);
const rounds = Number(process.env['LEDGERGATE_FORK_ROUNDS'] ?? 20);

interface Compared {
  readonly upstreams: readonly Upstream[];
  readonly fleet: FleetState;
  /** Changes so far: `fork n1 n0 500`, `fork over n1`. */
  readonly changes: string[];
  /** Probes of the nodes, and a comparison at each node's head. */
  readonly round: () => Promise<void>;
}

async function compared(t: TestContext, nodes: readonly FakeNode[]): Promise<Compared> {
  const { upstreams, fleet } = fleetOf(nodes);
  const log = { debug: () => undefined, record: () => undefined };
  const prober = new Prober(fleet, { intervalMs: 3_600_000, timeoutMs: 2_000 }, log);
  const changes: string[] = [];
  const forks = new Forks({
    fleet,
    witness: new Witness(fleet, prober),
    onChange: (change, fields) => {
      const { upstream, other, version } = fields as Readonly<Record<string, unknown>>;
      changes.push(
        change === 'fork'
          ? `fork ${String(upstream)} ${String(other)} ${String(version)}`
          : `${change} ${String(upstream)}`,
      );
    },
    onFork: () => undefined,
    intervalMs: 3_600_000,
    pauseMs: 0,
  });
  t.after(async () => {
    forks.close();
    prober.close();
    await Promise.all(upstreams.map((upstream) => upstream.close()));
  });
  const look = async (): Promise<void> => void (await Promise.all(upstreams.map((upstream) => prober.look(upstream))));
  await look();
  fleet.ledger.settle();
  return {
    upstreams,
    fleet,
    changes,
    round: async () => {
      await look();
      for (let turn = 0; turn < nodes.length; turn += 1) await forks.compare();
    },
  };
}

test('a fork at a random version is found exactly, with at most 30 reads of each node', async (t) => {
  const draw = new Draw(seed);
  const calls: number[] = [];
  for (let count = 0; count < rounds; count += 1) {
    const head = 1_000n + BigInt(draw.upTo(99_000_000));
    const oldest = head / BigInt(2 + draw.upTo(3));
    const nodes = [];
    for (let at = 0; at < 3; at += 1) nodes.push(await fakeNode(t, { head, oldest }));
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
  const [one, two, three] = [
    await fakeNode(t, { head: 1_000_000n }),
    await fakeNode(t, { head: 1_000_000n }),
    await fakeNode(t, { head: 1_000_000n, archival: true }),
  ];
  const { round, changes } = await compared(t, [one, two, three]);
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
  const [one, two] = [await fakeNode(t), await fakeNode(t)];
  const { round, changes, fleet, upstreams } = await compared(t, [one, two]);
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
  const [one, two, three] = [await fakeNode(t), await fakeNode(t, { oldest: 600n }), await fakeNode(t)];
  const { round, changes } = await compared(t, [one, two, three]);
  two.clock.fork(300n, 'fork');

  await round();

  assert.deepEqual(changes, ['fork n1 n0 600']);
});

test('a node that gives no root during the search is reported in a later round', async (t) => {
  const nodes = [await fakeNode(t), await fakeNode(t), await fakeNode(t)];
  const { round, changes } = await compared(t, nodes);
  nodes[2]?.clock.fork(299n, 'fork');
  nodes[2]?.faults.add({ kind: 'unavailable' }, { when: ({ url }) => /by_version\/(?!1000$)/.test(url), times: 2 });

  await round();
  await round();

  assert.deepEqual(changes, ['fork n2 n0 300']);
});
