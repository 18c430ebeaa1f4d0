/** The state of a fleet without connections: its head, chain, range and outages, its waits, and its nodes that come and go. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Dialect } from '../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { FleetState } from '../../src/upstream/fleet-state.ts';
import { candidatesOf } from '../../src/upstream/fleet-view.ts';
import type { Tier } from '../../src/upstream/select/ranking.ts';
import { Upstream } from '../../src/upstream/node/upstream.ts';
import { fc } from '../support/fast-check.ts';
import { quietEvents } from '../support/fleet-events.ts';
import { ledgerInfo, type MadeUpLedger } from '../support/ledger-info.ts';

/** A fleet of nodes without connections, the last `spares` of them not in it yet; `report` is an answer of one of them. */
function fleetOf(
  t: TestContext,
  ...given: readonly (Tier | { readonly chainId?: number; readonly spares?: number })[]
) {
  const tiers = given.filter((tier) => typeof tier === 'string');
  const fixed = given.find((tier) => typeof tier !== 'string');
  const upstreams = tiers.map((tier, index) => upstreamOf(t, `n${index}`, tier));
  const foreign: string[] = [];
  const rollbacks: string[] = [];
  const outages: string[] = [];
  const doubted: string[] = [];
  const fleet = new FleetState(
    upstreams.slice(0, upstreams.length - (fixed?.spares ?? 0)),
    new Dialect('node'),
    {
      ...quietEvents,
      onUnconfirmed: ({ name }) => doubted.push(name),
      onChange: (change, fields) => {
        const words = Object.values(fields).join(' ');
        if (change === 'node foreign') foreign.push(words);
        if (change === 'rollback') rollbacks.push(words);
        if (change === 'outage' || change === 'outage over') outages.push(change);
      },
    },
    fixed,
  );
  const at = (index: number): Upstream => {
    const upstream = upstreams[index];
    assert.ok(upstream !== undefined);
    return upstream;
  };
  const report = (index: number, ledger: MadeUpLedger, nowMs = 0, lookSentAtMs?: number): boolean => {
    at(index).recordAnswer(5, nowMs);
    return fleet.observe(at(index), ledgerInfo(ledger), nowMs, lookSentAtMs);
  };
  /** A look at the ledger info, sent and answered at one moment. */
  const look = (index: number, ledger: MadeUpLedger, nowMs: number): boolean => report(index, ledger, nowMs, nowMs);
  /** Two failures in a row, as the sender reports them. */
  const takeDown = (index: number): void => {
    at(index).recordFailure(5, 0, 'time-out');
    at(index).recordFailure(5, 0, 'time-out');
    fleet.refresh();
  };
  return { fleet, at, report, look, takeDown, foreign, rollbacks, outages, doubted };
}

function upstreamOf(t: TestContext, name: string, tier: Tier = 'full', path = '/v1'): Upstream {
  const url = new URL(`http://127.0.0.1:9${path}`);
  const upstream = new Upstream({ name, url, tier, connections: 1, connectTimeoutMs: 1000 });
  t.after(() => upstream.close());
  return upstream;
}

/** The value of one header in the flat list. */
function shown(fleet: FleetState, name: string): string | undefined {
  const list = fleet.view.headers;
  return list[list.indexOf(name) + 1];
}

const never = new AbortController().signal;

/** Waits for half a second, for a client that stays. */
function waitFor(fleet: FleetState, version: bigint): Promise<boolean> {
  return fleet.waitFor(LedgerVersion.of(version), 500, never);
}

test('before the first answer the fleet has no head and no headers', (t) => {
  const { fleet } = fleetOf(t, 'full', 'archival');
  assert.deepEqual([fleet.chainId, fleet.head, fleet.oldest, fleet.isReady], [undefined, undefined, undefined, false]);
  assert.deepEqual(fleet.view.headers, []);
});

test('the fleet is ready from the first usable node with a window on, and no longer when it is down', (t) => {
  const { fleet, at, report, takeDown } = fleetOf(t, 'full', 'full');
  at(1).recordAnswer(5, 0);
  assert.equal(fleet.isReady, false);
  report(0, { version: 100n });
  assert.equal(fleet.isReady, true);
  takeDown(0);
  assert.equal(fleet.isReady, false);
});

test('the head is the newest that any node has reported', (t) => {
  const { fleet, report } = fleetOf(t, 'full', 'full');
  report(0, { version: 100n });
  report(1, { version: 90n });
  assert.equal(fleet.head?.version, 100n);
  report(1, { version: 110n });
  assert.equal(fleet.head?.version, 110n);
});

test('one report with a time of the future neither stays in headers nor makes the nodes lag', (t) => {
  const { fleet, at, report } = fleetOf(t, 'full', 'full');
  const nowUsec = BigInt(Date.now()) * 1_000n;
  report(0, { version: 100n, timestampUsec: nowUsec });
  report(1, { version: 100n, timestampUsec: nowUsec });
  report(0, { version: 101n, timestampUsec: 2n ** 64n - 1n });

  for (const node of [0, 1]) report(node, { version: 110n, timestampUsec: nowUsec + 1_000_000n });
  report(0, { version: 111n, timestampUsec: nowUsec + 900_000n });

  assert.equal(shown(fleet, 'X-Node-Ledger-Timestampusec'), String(nowUsec + 1_000_000n));
  assert.deepEqual([fleet.isLagging(at(0)), fleet.isLagging(at(1))], [false, false]);
});

test('for any reports and failures, version and timestamp never go backward within a generation', (t) => {
  const event = fc.record({
    node: fc.nat(2),
    version: fc.bigInt(1n, 60n),
    timestampUsec: fc.bigInt(1n, 60n),
    fails: fc.integer({ min: 0, max: 9 }).map((value) => value === 0),
    passedMs: fc.constantFrom(0, 50, 15_000),
  });
  fc.assert(
    fc.property(fc.array(event, { maxLength: 40 }), (events) => {
      const { fleet, report, takeDown } = fleetOf(t, 'full', 'full', 'archival');
      let [nowMs, version, timestamp, generation] = [0, -1, -1, 0];
      for (const { node, fails, passedMs, ...ledger } of events) {
        nowMs += passedMs;
        if (fails) takeDown(node);
        else report(node, ledger, nowMs);
        if (fleet.head === undefined) continue;
        if (fleet.generation !== generation) [version, timestamp, generation] = [-1, -1, fleet.generation];
        const reported = [
          Number(shown(fleet, 'X-Node-Ledger-Version')),
          Number(shown(fleet, 'X-Node-Ledger-Timestampusec')),
        ] as const;
        assert.ok(
          reported[0] >= version && reported[1] >= timestamp,
          `${reported.join()} after ${version}, ${timestamp}`,
        );
        [version, timestamp] = reported;
      }
    }),
    { numRuns: 300 },
  );
});

/** `index` reports the ledger until it is believed; returns the time of that. */
function insist(look: ReturnType<typeof fleetOf>['look'], index: number, ledger: MadeUpLedger, nowMs: number): number {
  for (const laterMs of [0, 5_000, 10_000]) look(index, ledger, nowMs + laterMs);
  return nowMs + 10_000;
}

test('the ledger of the only node goes back: the head follows, and a generation begins', (t) => {
  const { fleet, report, look, rollbacks } = fleetOf(t, 'full');
  report(0, { version: 1000n, oldest: 400n });
  report(0, { version: 300n }, 100);
  assert.deepEqual([fleet.head?.version, fleet.generation], [1000n, 0]);

  insist(look, 0, { version: 300n, timestampUsec: 300n }, 200);

  assert.deepEqual([fleet.head?.version, fleet.generation], [300n, 1]);
  assert.deepEqual(
    [shown(fleet, 'X-Node-Ledger-Version'), shown(fleet, 'X-Node-Ledger-Timestampusec')],
    ['300', '300'],
  );
  assert.deepEqual(rollbacks, ['n0 1000 300']);
});

test('a node that was restored while another is at the head is only behind', (t) => {
  const { fleet, report, look, rollbacks } = fleetOf(t, 'full', 'full');
  report(0, { version: 1_000_000n });
  report(1, { version: 999_000n });
  insist(look, 0, { version: 300n }, 100);
  assert.deepEqual([fleet.head?.version, fleet.generation, rollbacks], [1_000_000n, 0, []]);
});

test('a head that its own node takes back is given up, though it was near to the others', (t) => {
  const { fleet, at, report, look, rollbacks } = fleetOf(t, 'full', 'full', 'full');
  for (const node of [0, 1, 2]) report(node, { version: 1_000n });
  report(0, { version: 6_000n });
  assert.equal(fleet.head?.version, 6_000n);

  const nowMs = insist(look, 0, { version: 1_001n }, 100);
  report(0, { version: 1_002n }, nowMs + 10);

  assert.deepEqual([fleet.head?.version, fleet.generation, rollbacks], [1_002n, 1, []]);
  assert.equal(at(0).isSuspect, false);
});

test('a head that another node has reached stays, though its own node went back', (t) => {
  const { fleet, report, look } = fleetOf(t, 'full', 'full');
  for (const node of [0, 1]) report(node, { version: 1_000n });
  report(0, { version: 6_000n });
  report(1, { version: 6_000n });
  insist(look, 0, { version: 1_001n }, 100);
  assert.deepEqual([fleet.head?.version, fleet.generation], [6_000n, 0]);
});

test('a node that is down, or has gone back as well, confirms nothing', (t) => {
  for (const end of ['down', 'gone back'] as const) {
    const { fleet, report, look, takeDown, rollbacks } = fleetOf(t, 'full', 'full');
    report(0, { version: 1_000_000n });
    report(1, { version: 1_000_000n });
    let nowMs = 100;
    if (end === 'down') takeDown(1);
    // Not far: near enough to the head to pass for a node that is a little behind.
    else nowMs = insist(look, 1, { version: 995_000n }, nowMs);
    assert.equal(fleet.generation, 0);

    insist(look, 0, { version: 995_500n }, nowMs);

    assert.deepEqual([fleet.head?.version, fleet.generation], [995_500n, 1], end);
    assert.deepEqual(rollbacks, ['n0 1000000 995500']);
  }
});

test('answers alone never take the ledger back, however long they report an older one: a look does', (t) => {
  const { fleet, report, look, doubted } = fleetOf(t, 'full');
  report(0, { version: 1000n });
  for (let nowMs = 0; nowMs < 60_000; nowMs += 1_000) report(0, { version: 300n }, nowMs);
  assert.deepEqual([fleet.head?.version, fleet.generation], [1000n, 0]);
  assert.equal(doubted.length, 50);

  look(0, { version: 301n }, 60_000);

  assert.deepEqual([fleet.head?.version, fleet.generation], [301n, 1]);
});

test('answers alone never turn the ledger over, however many report another chain: a look after them does', (t) => {
  const { fleet, at, report, look, doubted } = fleetOf(t, 'full');
  report(0, { version: 1000n });
  fleet.ledger.settle();
  const foreign = { version: 300n, chainId: 5 };
  for (const nowMs of [10, 20, 30]) assert.equal(report(0, foreign, nowMs), false);
  assert.deepEqual([fleet.chainId, fleet.head?.version, fleet.generation], [4, 1000n, 0]);
  assert.deepEqual([doubted, at(0).health, at(0).chain.doubted], [['n0', 'n0', 'n0'], 'usable', 5]);

  assert.equal(look(0, foreign, 40), true);

  assert.deepEqual([fleet.chainId, fleet.head?.version, fleet.generation], [5, 300n, 1]);
  assert.equal(at(0).chain.doubted, undefined);
});

test('the first nodes that answer after the start do not turn the ledger over without a second look', (t) => {
  const { fleet, at, report, look } = fleetOf(t, 'full', 'full', 'full');
  report(0, { version: 1000n });
  fleet.ledger.settle();
  look(1, { version: 300n, chainId: 5 }, 10);
  look(2, { version: 300n, chainId: 5 }, 10);
  assert.deepEqual([fleet.chainId, at(1).health, at(2).health], [4, 'foreign', 'foreign']);

  look(1, { version: 300n, chainId: 5 }, 20);
  look(2, { version: 300n, chainId: 5 }, 20);

  assert.deepEqual([fleet.chainId, at(0).health], [5, 'foreign']);
});

test('a fleet of two that begins to answer after the start keeps the chain of the node that answered first', (t) => {
  const { fleet, at, look } = fleetOf(t, 'full', 'full');
  fleet.ledger.settle();
  look(1, { version: 300n, chainId: 5 }, 10);
  for (const nowMs of [20, 30, 40]) look(0, { version: 1000n }, nowMs);
  assert.deepEqual([fleet.chainId, at(0).health, at(1).health, fleet.generation], [5, 'foreign', 'usable', 0]);
});

test('with a chain of the config no look and no majority changes it', (t) => {
  const { fleet, at, look } = fleetOf(t, 'full', 'full', 'full', { chainId: 4 });
  look(0, { version: 300n, chainId: 5 }, 0);
  look(1, { version: 300n, chainId: 5 }, 0);
  assert.deepEqual([fleet.chainId, fleet.head, fleet.isReady], [4, undefined, false]);
  look(2, { version: 1000n }, 0);
  fleet.ledger.settle();
  for (const nowMs of [10, 20, 30]) look(2, { version: 300n, chainId: 5 }, nowMs);
  assert.deepEqual([fleet.chainId, fleet.head?.version, fleet.generation], [4, 1000n, 0]);
  assert.deepEqual(new Set([0, 1, 2].map((index) => at(index).health)), new Set(['foreign']));
});

test('the oldest version is the deepest usable node’s, with that node’s oldest block', (t) => {
  const { fleet, report, takeDown } = fleetOf(t, 'full', 'archival', 'full');
  report(0, { version: 1000n, oldest: 500n });
  report(1, { version: 990n, oldest: 100n });
  report(2, { version: 980n, oldest: 300n });
  assert.deepEqual(
    [shown(fleet, 'X-Node-Ledger-Oldest-Version'), shown(fleet, 'X-Node-Oldest-Block-Height')],
    ['100', '10'],
  );
  takeDown(1);
  assert.equal(shown(fleet, 'X-Node-Ledger-Oldest-Version'), '300');
  report(1, { version: 1010n, oldest: 120n });
  assert.equal(shown(fleet, 'X-Node-Ledger-Oldest-Version'), '120');
  for (const index of [0, 1, 2]) takeDown(index);
  assert.equal(shown(fleet, 'X-Node-Ledger-Oldest-Version'), '120');
  assert.equal(shown(fleet, 'X-Node-Ledger-Version'), '1010');
});

test('two heads confirm a version: the second newest one of the nodes that are asked and believed', (t) => {
  const { fleet, at, report, takeDown } = fleetOf(t, 'full', 'full', 'full', 'archival');
  report(0, { version: 1000n });
  fleet.refresh();
  assert.equal(fleet.ledger.confirmed, 1000n, 'the only node');
  report(1, { version: 990n });
  fleet.refresh();
  report(3, { version: 980n });
  assert.equal(fleet.ledger.confirmed, 990n);
  report(1, { version: 1005n });
  assert.equal(fleet.ledger.confirmed, 1000n);
  // The others contradict it.
  report(2, { version: 900_000_000n });
  assert.equal(at(2).isSuspect, true);
  assert.equal(fleet.ledger.confirmed, 1000n);
  fleet.setDrained(at(1), true, 0);
  assert.equal(fleet.ledger.confirmed, 980n);
  takeDown(3);
  assert.equal(fleet.ledger.confirmed, 1000n, 'the only node that is left');
});

test('a version that two nodes have reached is reported once, and with the next generation anew', (t) => {
  const confirmed: bigint[] = [];
  const upstreams = ['a', 'b'].map((name) => upstreamOf(t, name));
  const events = { ...quietEvents, onConfirmed: (version: bigint) => confirmed.push(version) };
  const fleet = new FleetState(upstreams, new Dialect('node'), events);
  const [a, b] = upstreams;
  assert.ok(a !== undefined && b !== undefined);
  for (const node of upstreams) node.recordAnswer(5, 0);
  const answers = [
    [a, 100n],
    [b, 100n],
    [a, 101n],
    [a, 102n],
    [b, 102n],
    [b, 102n],
  ] as const;

  for (const [node, version] of answers) fleet.observe(node, ledgerInfo({ version }), 0);
  fleet.refresh();

  assert.deepEqual(confirmed, [100n, 102n]);
  fleet.replaceHistory(LedgerVersion.of(50n));
  assert.equal(fleet.ledger.confirmed, 102n);
});

test('an answer awaits a second node from just above the second head on, near it or far', (t) => {
  const { fleet, at, report } = fleetOf(t, 'full', 'full');
  report(0, { version: 3000n });
  report(1, { version: 1000n });
  const awaited = [1000n, 1001n, 1500n, 1501n].map((version) => fleet.ledger.awaited(at(0), version, 0));
  assert.deepEqual(
    awaited.map((each) => each?.isNear),
    [undefined, true, true, false],
  );
  assert.equal(awaited[1]?.withinMs, 30_000);
});

test('an outage begins with the last node that could be asked, and ends with the first that can be again', (t) => {
  const { fleet, at, report, takeDown, outages } = fleetOf(t, 'full', 'full');
  takeDown(0);
  assert.deepEqual([outages, fleet.outageSinceMs, fleet.view.isPlain], [[], undefined, true], 'no node ever answered');
  for (const index of [0, 1]) {
    report(index, { version: 100n });
    fleet.refresh();
  }
  takeDown(0);
  assert.deepEqual(outages, []);
  takeDown(1);
  fleet.refresh();
  assert.deepEqual([outages, fleet.view.outageSinceMs, fleet.view.isPlain], [['outage'], fleet.outageSinceMs, false]);
  at(0).recordAnswer(5, 0);
  fleet.refresh();
  assert.deepEqual([outages, fleet.outageSinceMs, fleet.view.isPlain], [['outage', 'outage over'], undefined, true]);
});

test('in an outage the oldest version is that of the nodes that answered within 30 s before it', (t) => {
  t.mock.method(performance, 'now', () => nowMs);
  let nowMs = 0;
  const { fleet, report, takeDown } = fleetOf(t, 'archival', 'archival', 'full');
  report(0, { version: 100n, oldest: 10n }, 9_999);
  report(1, { version: 100n, oldest: 20n }, 10_000);
  report(2, { version: 100n, oldest: 30n }, 39_000);
  nowMs = 40_000;
  for (const index of [0, 1, 2]) takeDown(index);
  assert.deepEqual([shown(fleet, 'X-Node-Ledger-Oldest-Version'), fleet.oldest?.oldestVersion], ['20', 20n]);
});

test('the list of headers is made once per change, and an equal answer is none', (t) => {
  const { fleet, report, takeDown } = fleetOf(t, 'full', 'full');
  report(0, { version: 100n, oldest: 20n });
  const first = fleet.view.headers;
  assert.equal(fleet.view.headers, first);
  report(1, { version: 101n, oldest: 10n });
  const second = fleet.view.headers;
  assert.notEqual(second, first);
  report(1, { version: 101n, oldest: 10n });
  report(0, { version: 100n, oldest: 20n });
  assert.equal(fleet.view.headers, second);
  report(0, { version: 102n, oldest: 5n });
  assert.notEqual(fleet.view.headers, second);
  takeDown(0);
  assert.equal(shown(fleet, 'X-Node-Ledger-Oldest-Version'), '10');
});

test('the chain of most nodes is the fleet’s; the others are marked, reported once, and change nothing', (t) => {
  const { fleet, at, report, foreign } = fleetOf(t, 'full', 'full', 'full');
  assert.equal(report(0, { version: 100n }), true);
  assert.equal(report(1, { version: 9000n, oldest: 1n, chainId: 5 }), false);
  assert.equal(report(2, { version: 200n, oldest: 50n }), true);
  report(1, { version: 9001n, chainId: 5 });

  assert.equal(fleet.chainId, 4);
  assert.equal(fleet.head?.version, 200n);
  assert.equal(at(1).health, 'foreign');
  assert.deepEqual(foreign, ['n1 other chain 5 4']);
  assert.equal(shown(fleet, 'X-Node-Chain-Id'), '4');
  assert.equal(fleet.oldest?.chainId, 4);
});

test('a tie of two chains goes to the node configured first, in any order of answers', (t) => {
  for (const speakers of [
    [0, 1],
    [1, 0],
  ] as const) {
    const { fleet, at, report } = fleetOf(t, 'full', 'full');
    for (const index of speakers) report(index, { version: 100n, chainId: index + 4 });
    assert.equal(fleet.chainId, 4);
    assert.deepEqual([at(0).health, at(1).health], ['usable', 'foreign']);
  }
});

test('after the start a tie changes nothing: one node that changes its chain does not change the fleet’s', (t) => {
  const { fleet, at, report, look } = fleetOf(t, 'full', 'full');
  report(0, { version: 100n });
  report(1, { version: 101n });
  fleet.ledger.settle();
  for (const nowMs of [10, 20]) look(0, { version: 9000n, chainId: 5 }, nowMs);
  assert.equal(fleet.chainId, 4);
  assert.equal(fleet.head?.version, 101n);
  assert.deepEqual([at(0).health, at(1).health], ['foreign', 'usable']);
});

test('a majority that comes later turns the fleet to its chain, and the head with it', (t) => {
  const { fleet, at, report, foreign } = fleetOf(t, 'full', 'full', 'full');
  report(0, { version: 9000n, chainId: 5 });
  report(1, { version: 100n });
  report(2, { version: 101n });
  assert.equal(fleet.chainId, 4);
  assert.equal(fleet.head?.version, 101n);
  assert.deepEqual(
    [0, 1, 2].map((index) => at(index).health),
    ['foreign', 'usable', 'usable'],
  );
  assert.deepEqual(foreign, ['n1 other chain 4 5', 'n0 other chain 5 4']);
});

test('a foreign node that comes back to the chain is used again, with the window it has now', (t) => {
  const { fleet, at, report } = fleetOf(t, 'full', 'full', 'full');
  report(0, { version: 100n, oldest: 50n });
  report(1, { version: 100n, oldest: 50n });
  report(2, { version: 9000n, oldest: 1n, chainId: 5 });
  report(2, { version: 99n, oldest: 60n });
  assert.equal(at(2).health, 'usable');
  assert.equal(at(2).window.info?.version, 99n);
  assert.equal(shown(fleet, 'X-Node-Ledger-Oldest-Version'), '50');
});

test('a read above the head wakes when a usable node gets there, at once and not before', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { fleet, report } = fleetOf(t, 'full', 'full');
  report(0, { version: 100n });
  const outcomes: boolean[] = [];
  const wait = waitFor(fleet, 105n).then((reached) => outcomes.push(reached));

  report(1, { version: 104n });
  await Promise.resolve();
  assert.deepEqual(outcomes, []);
  report(1, { version: 105n });
  await wait;

  assert.deepEqual(outcomes, [true]);
});

test('the wait ends in time when no node reaches the version', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { fleet, report } = fleetOf(t, 'full');
  report(0, { version: 100n });
  let outcome: boolean | undefined;
  const wait = waitFor(fleet, 101n).then((reached) => (outcome = reached));

  t.mock.timers.tick(499);
  await Promise.resolve();
  assert.equal(outcome, undefined);
  t.mock.timers.tick(1);
  await wait;

  assert.equal(outcome, false);
});

test('the wait ends with the client', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { fleet, report } = fleetOf(t, 'full');
  report(0, { version: 100n });
  const client = new AbortController();
  const wait = fleet.waitFor(LedgerVersion.of(101n), 500, client.signal);
  client.abort();
  assert.equal(await wait, false);
  assert.equal(await fleet.waitFor(LedgerVersion.of(101n), 500, client.signal), false);
});

test('no request waits for a reached version, without time, or for a version of a foreign node', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { fleet, report } = fleetOf(t, 'full', 'full', 'full');
  report(0, { version: 100n });
  report(1, { version: 100n });
  assert.equal(await waitFor(fleet, 100n), true);
  assert.equal(await fleet.waitFor(LedgerVersion.of(101n), 0, never), false);
  const wait = waitFor(fleet, 101n);
  report(2, { version: 9000n, chainId: 5 });
  t.mock.timers.tick(500);
  assert.equal(await wait, false);
});

test('waiters of several versions wake each at its own', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { fleet, report } = fleetOf(t, 'full');
  report(0, { version: 100n });
  const woken: bigint[] = [];
  const waits = [103n, 101n, 102n, 101n, 110n].map((version) =>
    waitFor(fleet, version).then((reached) => reached && woken.push(version)),
  );
  for (const version of [101n, 102n, 103n]) {
    report(0, { version });
    // A turn of the event loop lets everything that was woken finish.
    await new Promise(setImmediate);
    assert.ok(woken.every((seen) => seen <= version) && woken.includes(version), woken.join());
  }
  t.mock.timers.tick(500);
  await Promise.all(waits);
  assert.deepEqual(woken, [101n, 101n, 102n, 103n]);
});

test('only news of a node looks at the waiters that it cannot serve', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { fleet, at, report } = fleetOf(t, 'full', 'full');
  report(1, { version: 90n });
  report(0, { version: 100n });
  const known = at(0).window.info;
  assert.ok(known !== undefined);
  let asked = 0;
  const isFit = (upstream: Upstream): boolean => {
    asked += 1;
    return upstream !== at(0);
  };
  const wait = fleet.waitFor(LedgerVersion.of(100n), 500, never, isFit);
  const before = asked;

  for (let answers = 0; answers < 100; answers += 1) fleet.observe(at(0), known, answers);

  assert.equal(asked, before);
  report(1, { version: 100n });
  assert.equal(await wait, true);
});

test('a node that answers again wakes the waiters of its versions', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { fleet, at, report, takeDown } = fleetOf(t, 'full', 'full');
  report(1, { version: 90n });
  report(0, { version: 100n });
  takeDown(0);
  let outcome: boolean | undefined;
  const wait = waitFor(fleet, 100n).then((reached) => (outcome = reached));

  // An attempt reports the headers of an answer before the health that follows from it.
  fleet.observe(at(0), ledgerInfo({ version: 100n }), 10);
  at(0).recordAnswer(5, 10);
  fleet.refresh();
  await new Promise(setImmediate);

  assert.equal(outcome, true);
  t.mock.timers.tick(500);
  await wait;
});

test('ten thousand requests wait at most; one more is answered without a wait', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { fleet, report } = fleetOf(t, 'full');
  report(0, { version: 100n });
  const waits = Array.from({ length: 10_000 }, () => waitFor(fleet, 101n));
  assert.equal(await waitFor(fleet, 101n), false);
  report(0, { version: 101n });
  assert.ok((await Promise.all(waits)).every(Boolean));
});

test('a candidate costs its latency for each request in flight and this one', (t) => {
  const { fleet, at, report } = fleetOf(t, 'full');
  report(0, { version: 100n }, 1000);
  at(0).recordAnswer(100, 1000);
  at(0).inFlight = 3;
  const [candidate] = candidatesOf(fleet, 1000, { kind: 'head' });
  assert.equal(candidate?.cost, 400);
  assert.equal(candidate?.window?.head, 100n);
});

test('a slow answer counts at once and fades; a fast one is believed little by little', (t) => {
  const upstream = upstreamOf(t, 'n');
  upstream.recordAnswer(500, 1000);
  assert.equal(upstream.latencyMs(1000), 500);
  const later = upstream.latencyMs(3000);
  assert.ok(later < 250 && later > 100, String(later));
  upstream.recordAnswer(10, 1000);
  assert.ok(upstream.latencyMs(1000) > 400);
  assert.equal(upstream.latencyMs(1_000_000), 1);
});

test('a node is unproven, then usable, down after two failures in a row, and usable with the next answer', (t) => {
  const upstream = upstreamOf(t, 'n');
  const seen = [upstream.health];
  const record = (isAnswer: boolean): number => {
    if (isAnswer) upstream.recordAnswer(5, 0);
    else upstream.recordFailure(5, 0, 'time-out');
    return seen.push(upstream.health);
  };
  for (const isAnswer of [false, true, false, true, false, false, true]) record(isAnswer);
  assert.deepEqual(seen, ['unproven', 'unproven', 'usable', 'usable', 'usable', 'usable', 'down', 'usable']);
  upstream.isForeign = true;
  assert.equal(upstream.health, 'foreign');
  upstream.isForeign = false;
  assert.equal(upstream.health, 'usable');
});

test('a time-out makes a node dear at once, and counts only together with a failure', (t) => {
  const upstream = upstreamOf(t, 'n');
  upstream.recordAnswer(5, 0);
  for (let index = 0; index < 10; index += 1) upstream.recordDoubt(900, 0);
  assert.deepEqual([upstream.health, upstream.latencyMs(0)], ['usable', 900]);
  upstream.recordFailure(5, 0, 'time-out');
  assert.equal(upstream.health, 'down');
  upstream.recordAnswer(5, 0);
  upstream.recordFailure(5, 0, 'time-out');
  assert.equal(upstream.health, 'usable');
});

test('a node’s base path is taken without its trailing slash', (t) => {
  assert.deepEqual(
    ['/v1', '/v1/', '/', '/a/b//'].map((path) => upstreamOf(t, 'n', 'full', path).basePath),
    ['/v1', '/v1', '', '/a/b'],
  );
});

/** Three nodes, of which the first `count` are in the fleet at first. */
function changingFleet(t: TestContext, count: number) {
  const made = fleetOf(t, 'full', 'full', 'full', { spares: 3 - count });
  const nodes = [made.at(0), made.at(1), made.at(2)] as const;
  const report = (upstream: Upstream, ledger: MadeUpLedger, nowMs = 0): boolean => {
    const isOurs = made.report(nodes.indexOf(upstream), ledger, nowMs);
    made.fleet.refresh();
    return isOurs;
  };
  return { ...made, nodes, report };
}

test('nodes that stay keep their state', (t) => {
  const { fleet, nodes, report } = changingFleet(t, 2);
  const [a, b, c] = nodes;
  report(a, { version: 100n, oldest: 20n });
  report(b, { version: 90n, oldest: 50n });
  const [before] = candidatesOf(fleet, 10, { kind: 'head' });

  fleet.replace([c, a], 0);

  assert.deepEqual(fleet.upstreams, [c, a]);
  assert.deepEqual(candidatesOf(fleet, 10, { kind: 'head' })[1], before);
  assert.equal(candidatesOf(fleet, 10, { kind: 'head' })[0]?.health, 'unproven');
  assert.deepEqual([fleet.head?.version, fleet.generation], [100n, 0]);
  assert.deepEqual([a.isRemoved, b.isRemoved, c.isRemoved], [false, true, false]);
});

test('the oldest version is that of the remaining nodes', (t) => {
  const { fleet, nodes, report } = changingFleet(t, 2);
  const [a, b] = nodes;
  report(a, { version: 100n, oldest: 5n });
  report(b, { version: 100n, oldest: 50n });

  fleet.replace([b], 0);

  assert.equal(fleet.oldest?.oldestVersion, 50n);
  const list = fleet.view.headers;
  assert.equal(list[list.indexOf('X-Node-Ledger-Oldest-Version') + 1], '50');
});

test('a head that another node has reached outlives its node', (t) => {
  const { fleet, nodes, report, rollbacks } = changingFleet(t, 2);
  const [a, b] = nodes;
  report(b, { version: 95n });
  report(a, { version: 100n });

  fleet.replace([b], 1_000);
  report(b, { version: 99n }, 2_000);
  const early = [fleet.head?.version, fleet.ledger.source];
  report(b, { version: 100n }, 3_000);
  report(b, { version: 100n }, 90_000);

  assert.deepEqual(early, [100n, undefined]);
  assert.deepEqual([fleet.head?.version, fleet.ledger.source, fleet.generation], [100n, b, 0]);
  assert.deepEqual(rollbacks, []);
});

test('a head that the others contradict goes with its node', (t) => {
  const { fleet, nodes, report, rollbacks } = changingFleet(t, 1);
  const [liar, b] = nodes;
  report(liar, { version: 9_000_000_000n });

  fleet.replace([liar, b], 0);
  fleet.replace([b], 0);
  assert.equal(fleet.head?.version, 9_000_000_000n);
  report(b, { version: 100n }, 1_000);

  assert.deepEqual([fleet.head?.version, fleet.generation], [100n, 1]);
  assert.deepEqual(rollbacks, ['n1 9000000000 100']);
});

test('a head slightly too far ahead goes when no remaining node reaches it within the allowed lag', (t) => {
  const { fleet, nodes, report } = changingFleet(t, 2);
  const [liar, b] = nodes;
  report(b, { version: 100n });
  report(liar, { version: 5_000n });

  fleet.replace([b], 1_000);
  report(b, { version: 101n }, 30_900);
  assert.deepEqual([fleet.head?.version, fleet.generation], [5_000n, 0]);
  report(b, { version: 102n }, 31_100);

  assert.deepEqual([fleet.head?.version, fleet.generation], [102n, 1]);
});

test('the remaining nodes vote on the chain', (t) => {
  const { fleet, nodes, report } = changingFleet(t, 3);
  const [a, b, c] = nodes;
  report(a, { version: 100n });
  report(b, { version: 100n });
  assert.equal(report(c, { version: 70n, chainId: 9 }), false);

  fleet.replace([c], 0);

  assert.deepEqual([fleet.chainId, fleet.head?.version, fleet.generation, c.health], [9, 70n, 1, 'usable']);
});

test('nodes that have not answered yet are on the fleet\u2019s chain, and in its outage', (t) => {
  const { fleet, nodes, report, outages } = changingFleet(t, 1);
  const [a, b] = nodes;
  report(a, { version: 100n });

  fleet.replace([b], 0);
  assert.deepEqual([fleet.chainId, fleet.head?.version, fleet.isReady, outages], [4, 100n, false, ['outage']]);
  report(b, { version: 100n });

  assert.deepEqual([fleet.isReady, outages, fleet.generation], [true, ['outage', 'outage over'], 0]);
});

test('in an outage, other nodes that do not answer either end nothing', (t) => {
  const { fleet, nodes, report, outages } = changingFleet(t, 1);
  const [a, b] = nodes;
  report(a, { version: 100n });
  a.recordFailure(5, 0, 'time-out');
  a.recordFailure(5, 0, 'time-out');
  fleet.refresh();

  fleet.replace([b], 0);

  assert.deepEqual(outages, ['outage']);
  assert.notEqual(fleet.outageSinceMs, undefined);
});

test('a late answer of a removed node raises the head, and decides nothing else', async (t) => {
  const { fleet, nodes, report } = changingFleet(t, 2);
  const [a, b] = nodes;
  report(a, { version: 100n });
  report(b, { version: 100n });

  fleet.replace([b], 0);
  assert.equal(report(a, { version: 110n }, 1_000), true);
  assert.deepEqual([fleet.head?.version, fleet.ledger.source], [110n, undefined]);
  // Neither on the chain nor on where the ledger is.
  assert.equal(report(a, { version: 100n, chainId: 9 }, 1_100), false);
  report(a, { version: 50n }, 1_200);
  report(a, { version: 50n }, 60_000);

  assert.deepEqual([fleet.chainId, fleet.head?.version, fleet.generation], [4, 110n, 0]);
  const reached = await fleet.waitFor(LedgerVersion.of(105n), 1, new AbortController().signal);
  assert.equal(reached, false);
});
