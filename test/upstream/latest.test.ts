/** The shared state: its floor, and a ledger that goes back. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { GatewayError } from '../../src/ledger/errors.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { UnreachedError } from '../../src/upstream/dispatch/fleet-request.ts';
import type { FleetState } from '../../src/upstream/fleet-state.ts';
import { Latest, type LatestOptions } from '../../src/upstream/latest.ts';
import type { PublishedState } from '../../src/upstream/shared-states.ts';
import { ledgerHeaders, ledgerInfo } from '../support/ledger-info.ts';
import { never, senderOf } from '../support/sender.ts';

const at = (version: bigint): LedgerVersion => LedgerVersion.of(version);

const late = new GatewayError('unavailable', 'try again');
const options = { maxStalenessMs: 0, waitForVersionMs: 20, floor: 'gateway', bounds: [10_000] } as const;
const anyClient = { min: undefined };

async function refuse(): Promise<never> {
  return Promise.reject(late);
}

/** Over a ledger that the test moves, without nodes, and with all events recorded. */
function latestAt(head?: bigint, changed: Partial<LatestOptions> = {}) {
  const served: bigint[] = [];
  const unreached: bigint[] = [];
  const floors: bigint[] = [];
  const known = head === undefined ? undefined : ledgerInfo({ version: head });
  const fleet: { generation: number; head: typeof known; upstreams: []; waitFor: () => Promise<boolean> } = {
    generation: 0,
    head: known,
    upstreams: [],
    waitFor: () => Promise.resolve(false),
  };
  const events = {
    onServed: (version: LedgerVersion) => void served.push(version),
    onShared: () => undefined,
    onFloor: (_client: string, version: LedgerVersion) => void floors.push(version),
    onUnreached: (version: LedgerVersion) => void unreached.push(version),
    compareHeads: async () => Promise.resolve(),
  };
  const settings = { ...options, ...changed };
  const latest = new Latest(fleet as unknown as FleetState, { whole: refuse }, settings, events);
  const floorNow = (min?: bigint) =>
    latest.aboveFloor({ min: min === undefined ? undefined : at(min) }, never, async (floor) => Promise.resolve(floor));
  return { fleet, latest, events, served, unreached, floors, floorNow };
}

/** A gateway whose nodes have reached `head`, that gave clients 900, and whose peer gave clients 905. */
function withPeer(head: bigint) {
  const made = latestAt(head);
  made.latest.recordServed(at(900n));
  made.latest.onPeerVersion(at(905n));
  return made;
}

test('the version of a peer that no node here reaches is ignored and reported once; the own one stays', async () => {
  const { latest, unreached, floorNow } = withPeer(900n);
  const asked: (LedgerVersion | undefined)[] = [];
  const answer = await latest.aboveFloor(anyClient, never, async (floor) => {
    asked.push(floor);
    return floor === 905n ? refuse() : Promise.resolve('answer');
  });
  assert.deepEqual([answer, asked, unreached], ['answer', [905n, 900n], [905n]]);
  assert.equal(await floorNow(), 900n);
});

test('a client that hangs up does not cost the version of a peer', async () => {
  const { latest, unreached, floorNow } = withPeer(900n);
  const client = new AbortController();
  let asks = 0;
  const gone = latest.aboveFloor(anyClient, client.signal, () => {
    asks += 1;
    client.abort(new Error('hung up'));
    return refuse();
  });
  await assert.rejects(gone, late);
  assert.deepEqual([asks, unreached, await floorNow()], [1, [], 905n]);
});

test('overloaded nodes do not cost the version of a peer', async () => {
  const { latest, unreached, floorNow } = withPeer(905n);
  let asks = 0;
  const refused = latest.aboveFloor(anyClient, never, () => {
    asks += 1;
    return refuse();
  });
  await assert.rejects(refused, late);
  assert.deepEqual([asks, unreached, await floorNow()], [1, [], 905n]);
});

test("the gateway's own floor is asked for once, and never given up", async () => {
  const { latest, unreached } = latestAt(800n);
  const asked: (LedgerVersion | undefined)[] = [];
  const failing = (floor: LedgerVersion | undefined): Promise<never> => {
    asked.push(floor);
    return refuse();
  };
  await assert.rejects(latest.aboveFloor(anyClient, never, failing), late);
  await assert.rejects(latest.aboveFloor({ min: at(900n) }, never, failing), late);
  assert.deepEqual([asked, unreached], [[undefined, 900n], []]);
});

test('only a version that no node has costs a floor: the client gets other failures', async () => {
  for (const error of [
    new GatewayError('malformed', 'm'),
    new Error('other'),
    Object.assign(new Error(), { fault: 'unavailable' }),
  ]) {
    const { latest, unreached, floorNow } = withPeer(900n);
    await assert.rejects(
      latest.aboveFloor(anyClient, never, () => Promise.reject(error)),
      (thrown) => thrown === error,
    );
    assert.deepEqual([unreached, await floorNow()], [[], 905n]);
  }
});

test('without a head the version of a peer is asked for first, then any', async () => {
  const { fleet, latest, unreached } = latestAt(900n);
  latest.onPeerVersion(at(905n));
  Object.assign(fleet, { head: undefined });
  const answer = await latest.aboveFloor(anyClient, never, (floor) =>
    floor === undefined ? Promise.resolve('answer') : refuse(),
  );
  assert.deepEqual([answer, unreached], ['answer', [905n]]);
});

test('a version is reported once, and no older one is', () => {
  const { latest, served } = latestAt(1_000n);
  for (const version of [900n, 900n, 899n, 901n, 1_000n]) latest.recordServed(at(version));
  assert.deepEqual(served, [900n, 901n, 1_000n]);
});

test("a floor is the newest of the client's own, this gateway's and its peers', of one generation", async () => {
  const { fleet, latest, floorNow } = latestAt(1_000n);
  assert.deepEqual([await floorNow(), await floorNow(5n)], [undefined, 5n]);
  latest.recordServed(at(900n));
  assert.deepEqual([await floorNow(), await floorNow(899n), await floorNow(901n)], [900n, 900n, 901n]);
  for (const version of [950n, 940n]) latest.onPeerVersion(at(version));
  assert.deepEqual([await floorNow(), await floorNow(949n), await floorNow(951n)], [950n, 950n, 951n]);
  fleet.generation += 1;
  assert.equal(await floorNow(), undefined);
  latest.onPeerVersion(at(940n));
  assert.equal(await floorNow(), 940n);
});

test('a version of a peer counts up to a million above the head, and not before the first head', async () => {
  const { fleet, latest, floorNow } = latestAt();
  latest.onPeerVersion(at(5n));
  assert.equal(await floorNow(), undefined);
  fleet.head = ledgerInfo({ version: 1_000n });
  latest.onPeerVersion(at(1_001_001n));
  assert.equal(await floorNow(), undefined);
  latest.onPeerVersion(at(1_001_000n));
  assert.equal(await floorNow(), 1_001_000n);
});

test('versions of peers are ignored for ten seconds after no node reached one', async (t) => {
  t.mock.method(performance, 'now', () => nowMs);
  let nowMs = 5_000;
  const { latest, floorNow } = withPeer(900n);
  await latest.aboveFloor(anyClient, never, (floor) => (floor === 905n ? refuse() : Promise.resolve(floor)));
  for (const [ms, floorThen] of [
    [5_000, 900n],
    [14_999, 900n],
    [15_000, 910n],
  ] as const) {
    nowMs = ms;
    latest.onPeerVersion(at(910n));
    assert.equal(await floorNow(), floorThen, `${ms} ms`);
  }
});

test('a version above the believed head raises no floor', async () => {
  const { latest, served, floorNow } = latestAt(1_000n);
  latest.recordServed(at(1_001n));
  assert.deepEqual([served, await floorNow()], [[], undefined]);
  const unknown = latestAt();
  unknown.latest.recordServed(at(5n));
  assert.deepEqual([unknown.served, await unknown.floorNow()], [[5n], 5n]);
});

function stateAt(version: bigint): PublishedState {
  return { info: ledgerInfo({ version }), body: Buffer.from('{}'), asOfMs: performance.now(), upstream: 'full-0' };
}

test('the state of another worker is shared and raises the floor, unless it is older', async () => {
  const { fleet, latest, served, floorNow } = latestAt(1_000n);
  const demand = { maxStalenessMs: 10_000, min: undefined };
  for (const version of [950n, 900n]) latest.onPeerState(stateAt(version), [10_000]);
  assert.deepEqual([latest.find(demand)?.info.version, await floorNow(), served], [950n, 950n, []]);
  fleet.generation += 1;
  assert.deepEqual([latest.find(demand), latest.peek(), await floorNow()], [undefined, undefined, undefined]);
});

test('a report of the state of a bound says what a read would get', (t) => {
  t.mock.method(performance, 'now', () => nowMs);
  let nowMs = 1_000;
  const { latest } = latestAt(1_000n, { floor: 'client', bounds: [200, 5_000] });
  latest.onPeerState(stateAt(40n), [200, 5_000]);
  nowMs = 5_990;
  latest.onPeerState(stateAt(50n), [200]);
  for (const [ms, expected] of [
    [6_000, { version: 40n, ageMs: 5_000, isUsable: true }],
    [6_001, { version: 50n, ageMs: 11, isUsable: true }],
    [10_991, { version: 40n, ageMs: 9_991, isUsable: false }],
  ] as const) {
    nowMs = ms;
    assert.deepEqual(latest.peek(5_000), expected);
  }
  nowMs = 10_990;
  assert.equal(latest.find({ maxStalenessMs: 5_000, min: undefined })?.info.version, 50n);
});

test('a version of a peer that a node here is about to reach is waited for, and costs no floor', async () => {
  const { fleet, latest, unreached } = latestAt(900n, { floor: 'client' });
  latest.onPeerFloor('c', at(905n));
  latest.onPeerFloor('d', at(906n));
  fleet.waitFor = () => {
    fleet.head = ledgerInfo({ version: 905n });
    return Promise.resolve(true);
  };
  const demand = { min: undefined, floor: latest.floorOf('c') };
  const asked = await latest.aboveFloor(demand, never, async (floor) =>
    floor === 905n && fleet.head?.version !== 905n ? refuse() : Promise.resolve(floor),
  );
  assert.deepEqual([asked, latest.floorOf('d'), unreached], [905n, 906n, []]);
});

test("a client keeps its own floor when another replica's state is out of reach", async () => {
  const { latest, unreached } = latestAt(900n, { floor: 'client' });
  latest.onReplicaState(ledgerInfo({ version: 905n }), [10_000]);
  const asked: (LedgerVersion | undefined)[] = [];
  const answer = await latest.aboveFloor({ min: undefined, floor: at(890n) }, never, async (floor) => {
    asked.push(floor);
    return floor === 905n ? refuse() : Promise.resolve('answer');
  });
  assert.deepEqual([answer, asked, unreached], ['answer', [905n, 890n], [905n]]);
});

test('when the nodes at the shared state fail, a client keeps its own floor while another node holds it', async () => {
  for (const failing of [[900n], [900n, 890n]]) {
    const { fleet, latest, unreached } = latestAt(900n, { floor: 'client' });
    latest.onPeerState(stateAt(900n), [10_000]);
    Object.assign(fleet, { upstreams: [{ head: 895n, isTrusted: true, failsNewest: false }] });
    const asked: (LedgerVersion | undefined)[] = [];
    const answer = await latest.aboveFloor({ min: undefined, floor: at(890n) }, never, async (floor) => {
      asked.push(floor);
      if (floor !== undefined && failing.includes(floor)) throw new UnreachedError(floor);
      return Promise.resolve('answer');
    });
    const expected = failing.length === 1 ? [900n, 890n] : [900n, 890n, undefined];
    assert.deepEqual([answer, asked, unreached], ['answer', expected, []]);
  }
});

test('beside bounds that the config lacks, or with one floor for all, the state of a replica is a floor of all', async () => {
  for (const [floor, bounds, expected] of [
    ['client', [10_000], [undefined, 905n]],
    ['client', [10_000, 200], [905n, 905n]],
    ['gateway', [10_000], [905n, 905n]],
  ] as const) {
    const { latest, floorNow } = latestAt(900n, { floor, bounds: [5_000, 10_000] });
    latest.onPeerState(stateAt(900n), [5_000, 10_000]);
    latest.onReplicaState(ledgerInfo({ version: 905n }), bounds);
    const found = latest.find({ maxStalenessMs: 5_000, min: undefined })?.info.version;
    assert.deepEqual([found === 900n ? undefined : 905n, await floorNow()], expected, `${floor} ${bounds.join()}`);
  }
});

test('a client keeps its floor where another node has reached it since it last reported its head', async () => {
  const { fleet, latest, events } = latestAt(900n, { floor: 'client' });
  latest.onPeerState(stateAt(900n), [10_000]);
  latest.recordGiven('c', at(900n), 0);
  const other = { head: 800n, isTrusted: true, failsNewest: false };
  Object.assign(fleet, { upstreams: [other] });
  events.compareHeads = () => {
    other.head = 900n;
    return Promise.resolve();
  };
  const asked: (LedgerVersion | undefined)[] = [];
  await latest.aboveFloor({ min: undefined, floor: latest.floorOf('c') }, never, async (floor) => {
    asked.push(floor);
    if (other.head < 900n) throw new UnreachedError(floor);
    return Promise.resolve('answer');
  });
  const found = latest.find({ maxStalenessMs: 10_000, min: undefined })?.info.version;
  assert.deepEqual([asked, found], [[900n, 900n], 900n]);
});

test("when the only node with a client's version is gone, the client gets the newest state that is left, and keeps it", async () => {
  const { fleet, latest } = latestAt(900n, { floor: 'client' });
  latest.onPeerState(stateAt(800n), [10_000]);
  latest.recordGiven('c', at(900n), undefined);
  Object.assign(fleet, { upstreams: [{ head: 890n, isTrusted: true, failsNewest: false }] });
  const asked: (LedgerVersion | undefined)[] = [];
  await latest.aboveFloor({ min: undefined, floor: latest.floorOf('c') }, never, async (floor) => {
    asked.push(floor);
    if (floor === 900n) throw new UnreachedError(floor);
    return Promise.resolve('answer');
  });
  assert.deepEqual([asked, latest.floorOf('c')], [[900n, 890n], 890n]);
});

test('under several bounds a write is published though the client has got a newer state, which is not', () => {
  const { latest, floors } = latestAt(1_000n, { floor: 'client', bounds: [200, 5_000] });
  latest.onPeerState(stateAt(40n), [200, 5_000]);
  latest.onPeerState(stateAt(100n), [200]);
  assert.equal(latest.recordGiven('c', at(100n), 200), true);
  assert.deepEqual([floors, latest.floorOf('c')], [[], 100n]);
  assert.equal(latest.recordGiven('c', at(95n), undefined), true);
  assert.deepEqual([floors, latest.floorOf('c')], [[95n], 100n]);
  latest.onPeerState(stateAt(100n), [5_000]);
  assert.deepEqual([latest.floorOf('c'), latest.clientsAhead], [undefined, 0]);
});

test('while nobody reads under the bounds of the config, heads are reported once, not once for each client', (t) => {
  t.mock.method(performance, 'now', () => nowMs);
  let nowMs = 1_000;
  const { latest, served, floors } = latestAt(1_000n, { floor: 'client', bounds: [200, 5_000] });
  const readHead = (client: string, version: bigint): void => {
    latest.recordServed(at(version));
    latest.recordGiven(client, at(version), undefined);
  };
  for (const client of ['a', 'b']) readHead(client, 900n);
  assert.deepEqual([served, floors, latest.clientsAhead], [[900n], [], 0]);
  latest.onPeerState(stateAt(900n), [5_000]);
  nowMs = 26_000;
  for (const client of ['a', 'b']) readHead(client, 910n);
  assert.deepEqual([served, floors, latest.clientsAhead], [[900n], [910n, 910n], 2]);
  nowMs = 26_001;
  for (const client of ['a', 'b']) readHead(client, 920n);
  assert.deepEqual([served, floors, latest.clientsAhead], [[900n, 920n], [910n, 910n], 0]);
  latest.onReplicaState(ledgerInfo({ version: 930n }), [5_000]);
  readHead('a', 940n);
  assert.deepEqual([served, floors, latest.clientsAhead], [[900n, 920n], [910n, 910n, 940n], 1]);
});

test('beyond the bound on clients, a floor that no node here reaches costs one wait, no answer', async () => {
  const { latest, served, unreached } = latestAt(900n, { floor: 'client' });
  for (let client = 0; client < 100_000; client += 1) latest.onPeerFloor(`client ${client}`, at(905n));
  latest.onPeerFloor('one more', at(905n));
  const asked: (LedgerVersion | undefined)[] = [];
  const answer = await latest.aboveFloor(anyClient, never, async (floor) => {
    asked.push(floor);
    return floor === 905n ? refuse() : Promise.resolve('answer');
  });
  assert.deepEqual([answer, asked, unreached, served], ['answer', [905n, undefined], [905n], []]);
});

const nothing = (): void => undefined;

/** A gateway with one node at 900; `ledger` is moved by the test. */
async function latestOf(t: TestContext, changed: Partial<LatestOptions> = {}) {
  const ledger = { version: 900n, status: 200, looks: 0 };
  const body = '{}';
  const { sender, fleet, upstream } = await senderOf(
    t,
    (_request, response) => {
      const headers = { ...ledgerHeaders(ledger), 'content-type': 'application/json', 'content-length': body.length };
      ledger.looks += 1;
      response.writeHead(ledger.status, headers).end(body);
    },
    { connections: 8 },
  );
  const states: PublishedState[] = [];
  const onShared = (state: PublishedState): void => void states.push(state);
  const latest = new Latest(
    fleet,
    sender,
    { ...options, ...changed },
    {
      onShared,
      onServed: nothing,
      onFloor: nothing,
      onUnreached: nothing,
    },
  );
  t.after(() => latest.close());
  return { ledger, latest, fleet, upstream, states };
}

test('after a rollback the floor from before delays no client', async (t) => {
  const { ledger, latest, fleet, upstream, states } = await latestOf(t);
  const demand = { maxStalenessMs: 0, min: undefined };
  assert.equal((await latest.reach(demand, never)).info.version, 900n);

  ledger.version = 500n;
  const rolledBack = ledgerInfo({ version: 500n, chainId: upstream.chain.id ?? 0 });
  fleet.observe(upstream, rolledBack, performance.now());
  await assert.rejects(latest.reach(demand, never));
  const laterMs = performance.now() + 10_000;
  fleet.observe(upstream, rolledBack, laterMs, laterMs);

  const floorNow = () => latest.aboveFloor(anyClient, never, async (floor) => Promise.resolve(floor));
  assert.equal(await floorNow(), undefined);
  assert.equal((await latest.reach(demand, never)).info.version, 500n);
  // An answer in flight since before the rollback reports the ledger before it.
  latest.recordServed(at(900n));
  assert.equal(await floorNow(), 500n);
  assert.deepEqual(
    states.map(({ info }) => info.version),
    [900n, 500n],
  );
});

test('a look leaves the floor of a client whose peer is ahead of the nodes here', async (t) => {
  const { ledger, latest, fleet, upstream } = await latestOf(t, { floor: 'client', bounds: [200] });
  await latest.reach({ maxStalenessMs: 200, min: undefined }, never);
  latest.onPeerFloor('c', at(950n));
  ledger.version = 910n;
  await latest.reach({ maxStalenessMs: 0, min: undefined }, never);
  assert.deepEqual([fleet.head?.version, upstream.head, latest.floorOf('c')], [910n, 910n, 950n]);
});

test('a node that refuses looks gets one for each bound', async (t) => {
  const { ledger, latest } = await latestOf(t, { bounds: [200] });
  const demand = { maxStalenessMs: 10_000, min: undefined };
  await latest.reach(demand, never);
  ledger.status = 404;
  const endMs = performance.now() + 1_000;
  while (performance.now() < endMs) {
    assert.equal(latest.find(demand)?.info.version, 900n);
    await setTimeout(20);
  }
  assert.ok(ledger.looks > 1 && ledger.looks <= 7, `${ledger.looks} looks`);
});
