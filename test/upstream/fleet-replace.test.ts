/** Nodes that are added to a fleet and removed from it while it serves. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Dialect } from '../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { FleetState } from '../../src/upstream/fleet-state.ts';
import { candidatesOf } from '../../src/upstream/fleet-view.ts';
import { Upstream } from '../../src/upstream/node/upstream.ts';
import { quietEvents } from '../support/fleet-events.ts';
import { ledgerInfo, type MadeUpLedger } from '../support/ledger-info.ts';

function upstreamOf(t: TestContext, name: string): Upstream {
  const url = new URL('http://127.0.0.1:9/v1');
  const upstream = new Upstream({ name, url, tier: 'full', connections: 1, connectTimeoutMs: 1_000 });
  t.after(() => upstream.close());
  return upstream;
}

/** Three nodes, the first ones in the fleet, and the changes of the fleet. */
function fleetOf(t: TestContext, count: number) {
  const nodes = ['a', 'b', 'c'].map((name) => upstreamOf(t, name)) as [Upstream, Upstream, Upstream];
  const outages: boolean[] = [];
  const rollbacks: string[] = [];
  const fleet = new FleetState(nodes.slice(0, count), new Dialect('node'), {
    ...quietEvents,
    onChange: (change, fields) => {
      if (change === 'rollback') rollbacks.push(Object.values(fields).join(' '));
      if (change.startsWith('outage')) outages.push(change === 'outage');
    },
  });
  const tell = (upstream: Upstream, ledger: MadeUpLedger, nowMs = 0): boolean => {
    upstream.recordAnswer(5, nowMs);
    const isOurs = fleet.observe(upstream, ledgerInfo(ledger), nowMs);
    fleet.refresh();
    return isOurs;
  };
  return { fleet, nodes, tell, outages, rollbacks };
}

test('nodes that stay keep their state', (t) => {
  const { fleet, nodes, tell } = fleetOf(t, 2);
  const [a, b, c] = nodes;
  tell(a, { version: 100n, oldest: 20n });
  tell(b, { version: 90n, oldest: 50n });
  const [before] = candidatesOf(fleet, 10, { kind: 'head' });

  fleet.replace([c, a], 0);

  assert.deepEqual(fleet.upstreams, [c, a]);
  assert.deepEqual(candidatesOf(fleet, 10, { kind: 'head' })[1], before);
  assert.equal(candidatesOf(fleet, 10, { kind: 'head' })[0]?.health, 'unproven');
  assert.deepEqual([fleet.head?.version, fleet.generation], [100n, 0]);
  assert.deepEqual([a.isRemoved, b.isRemoved, c.isRemoved], [false, true, false]);
});

test('the oldest version is that of the remaining nodes', (t) => {
  const { fleet, nodes, tell } = fleetOf(t, 2);
  const [a, b] = nodes;
  tell(a, { version: 100n, oldest: 5n });
  tell(b, { version: 100n, oldest: 50n });

  fleet.replace([b], 0);

  assert.equal(fleet.oldest?.oldestVersion, 50n);
  const list = fleet.view.headers;
  assert.equal(list[list.indexOf('X-Node-Ledger-Oldest-Version') + 1], '50');
});

test('a head that another node has reached outlives its node', (t) => {
  const { fleet, nodes, tell, rollbacks } = fleetOf(t, 2);
  const [a, b] = nodes;
  tell(b, { version: 95n });
  tell(a, { version: 100n });

  fleet.replace([b], 1_000);
  tell(b, { version: 99n }, 2_000);
  const early = [fleet.head?.version, fleet.ledger.source];
  tell(b, { version: 100n }, 3_000);
  tell(b, { version: 100n }, 90_000);

  assert.deepEqual(early, [100n, undefined]);
  assert.deepEqual([fleet.head?.version, fleet.ledger.source, fleet.generation], [100n, b, 0]);
  assert.deepEqual(rollbacks, []);
});

test('a head that the others contradict goes with its node', (t) => {
  const { fleet, nodes, tell, rollbacks } = fleetOf(t, 1);
  const [liar, b] = nodes;
  tell(liar, { version: 9_000_000_000n });

  fleet.replace([liar, b], 0);
  fleet.replace([b], 0);
  assert.equal(fleet.head?.version, 9_000_000_000n);
  tell(b, { version: 100n }, 1_000);

  assert.deepEqual([fleet.head?.version, fleet.generation], [100n, 1]);
  assert.deepEqual(rollbacks, ['b 9000000000 100']);
});

test('a head slightly too far ahead goes when no remaining node reaches it within the allowed lag', (t) => {
  const { fleet, nodes, tell } = fleetOf(t, 2);
  const [liar, b] = nodes;
  tell(b, { version: 100n });
  tell(liar, { version: 5_000n });

  fleet.replace([b], 1_000);
  tell(b, { version: 101n }, 30_900);
  assert.deepEqual([fleet.head?.version, fleet.generation], [5_000n, 0]);
  tell(b, { version: 102n }, 31_100);

  assert.deepEqual([fleet.head?.version, fleet.generation], [102n, 1]);
});

test('the remaining nodes vote on the chain', (t) => {
  const { fleet, nodes, tell } = fleetOf(t, 3);
  const [a, b, c] = nodes;
  tell(a, { version: 100n });
  tell(b, { version: 100n });
  assert.equal(tell(c, { version: 70n, chainId: 9 }), false);

  fleet.replace([c], 0);

  assert.deepEqual([fleet.chainId, fleet.head?.version, fleet.generation, c.health], [9, 70n, 1, 'usable']);
});

test('nodes that have not answered yet are on the fleet\u2019s chain, and in its outage', (t) => {
  const { fleet, nodes, tell, outages } = fleetOf(t, 1);
  const [a, b] = nodes;
  tell(a, { version: 100n });

  fleet.replace([b], 0);
  assert.deepEqual([fleet.chainId, fleet.head?.version, fleet.isReady, outages], [4, 100n, false, [true]]);
  tell(b, { version: 100n });

  assert.deepEqual([fleet.isReady, outages, fleet.generation], [true, [true, false], 0]);
});

test('in an outage, other nodes that do not answer either end nothing', (t) => {
  const { fleet, nodes, tell, outages } = fleetOf(t, 1);
  const [a, b] = nodes;
  tell(a, { version: 100n });
  a.recordFailure(5, 0, 'time-out');
  a.recordFailure(5, 0, 'time-out');
  fleet.refresh();

  fleet.replace([b], 0);

  assert.deepEqual(outages, [true]);
  assert.notEqual(fleet.outageSinceMs, undefined);
});

test('a late answer of a removed node raises the head, and decides nothing else', async (t) => {
  const { fleet, nodes, tell } = fleetOf(t, 2);
  const [a, b] = nodes;
  tell(a, { version: 100n });
  tell(b, { version: 100n });

  fleet.replace([b], 0);
  assert.equal(tell(a, { version: 110n }, 1_000), true);
  assert.deepEqual([fleet.head?.version, fleet.ledger.source], [110n, undefined]);
  // Neither on the chain nor on where the ledger is.
  assert.equal(tell(a, { version: 100n, chainId: 9 }, 1_100), false);
  tell(a, { version: 50n }, 1_200);
  tell(a, { version: 50n }, 60_000);

  assert.deepEqual([fleet.chainId, fleet.head?.version, fleet.generation], [4, 110n, 0]);
  const reached = await fleet.waitFor(LedgerVersion.of(105n), 1, new AbortController().signal);
  assert.equal(reached, false);
});
