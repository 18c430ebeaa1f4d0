/** The shared state: its floor, and a ledger that goes back. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { GatewayError } from '../../src/ledger/errors.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { UnreachedError } from '../../src/upstream/dispatch/fleet-request.ts';
import type { FleetState } from '../../src/upstream/fleet-state.ts';
import { Latest, type LatestNews, type LatestOptions } from '../../src/upstream/latest.ts';
import type { PublishedState } from '../../src/upstream/shared-states.ts';
import { ledgerHeaders, ledgerInfo } from '../support/ledger-info.ts';
import { runScript, scriptsIn, type Steps } from '../support/script.ts';
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
    publish: (news: LatestNews) => {
      if (news.kind === 'served') served.push(news.version);
      if (news.kind === 'floor') floors.push(news.version);
    },
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

function stateAt(version: bigint): PublishedState {
  return { info: ledgerInfo({ version }), body: Buffer.from('{}'), asOfMs: performance.now(), upstream: 'full-0' };
}

const versions = (list: readonly (bigint | undefined)[]) => list.map((each) => each ?? 'any').join('+') || 'none';

const versionOf = (text: string | undefined) => (text === undefined ? undefined : at(BigInt(text)));

/** `ask`: answers unless a word refuses the floor that is asked for. Versions are results as such, `any` without one. */
function stepsOf(t: TestContext, head: bigint | undefined, changed: Partial<LatestOptions>): Steps {
  let nowMs = 5_000;
  t.mock.method(performance, 'now', () => nowMs);
  const { fleet, latest, events, served, unreached, floors, floorNow } = latestAt(head, changed);
  const node = { head: -1n, isTrusted: true, failsNewest: false };
  const given = (client: string, version: number, boundMs?: number) =>
    latest.recordGiven(client, at(BigInt(version)), boundMs);
  return {
    now: (ms: number) => (nowMs = ms),
    head: (version: number) => (fleet.head = ledgerInfo({ version: BigInt(version) })),
    headless: () => (fleet.head = undefined),
    generation: () => (fleet.generation += 1),
    node: (version: number) => Object.assign(fleet, { upstreams: [Object.assign(node, { head: BigInt(version) })] }),
    /** Its head is known after the next comparison, or with the next wait. */
    reaches: (version: number) => {
      events.compareHeads = async () => Promise.resolve(void (node.head = BigInt(version)));
      fleet.waitFor = async () => {
        node.head = BigInt(version);
        fleet.head = ledgerInfo({ version: BigInt(version) });
        return Promise.resolve(true);
      };
    },
    served: (version: number) => latest.recordServed(at(BigInt(version))),
    given,
    read: (client: string, version: number) => {
      latest.recordServed(at(BigInt(version)));
      given(client, version);
    },
    peer: (version: number) => latest.onPeerVersion(at(BigInt(version))),
    peerFloor: (client: string, version: number) => latest.onPeerFloor(client, at(BigInt(version))),
    peerState: (version: number, ...bounds: readonly number[]) => latest.onPeerState(stateAt(BigInt(version)), bounds),
    replicaState: (version: number, ...bounds: readonly number[]) =>
      latest.onReplicaState(ledgerInfo({ version: BigInt(version) }), bounds),
    crowd: (version: number) => {
      for (let client = 0; client < 100_000; client += 1) latest.onPeerFloor(`client ${client}`, at(BigInt(version)));
    },
    ask: async (...words: readonly string[]) => {
      const valueOf = (name: string) => words.find((word) => word.startsWith(`${name}:`))?.slice(name.length + 1);
      const client = valueOf('client');
      const floor = client === undefined ? versionOf(valueOf('own')) : latest.floorOf(client);
      const asked: (LedgerVersion | undefined)[] = [];
      const answer = await latest
        .aboveFloor({ min: versionOf(valueOf('min')), floor }, never, async (wanted) => {
          asked.push(wanted);
          if (words.includes(`refuse:${wanted ?? 'any'}`)) throw late;
          const isBehind = words.includes('behind') && node.head < (wanted ?? 0n);
          if (isBehind || words.includes(`lose:${wanted}`)) throw new UnreachedError(wanted);
          return Promise.resolve('answer');
        })
        .catch((error: unknown) => (error === late ? 'refusal' : String(error)));
      return `${answer} after ${versions(asked)}`;
    },
    floor: async (min?: number) => versions([await floorNow(min === undefined ? undefined : BigInt(min))]),
    floorOf: (client: string) => versions([latest.floorOf(client)]),
    find: (maxStalenessMs: number) => latest.find({ maxStalenessMs, min: undefined })?.info.version,
    peek: (boundMs?: number) => Object.values(latest.peek(boundMs) ?? {}).join(' ') || 'none',
    ahead: () => latest.clientsAhead,
    published: () => versions(served),
    unreached: () => versions(unreached),
    floors: () => versions(floors),
  };
}

/** Head, options, and a table of claims and scripts. `peer`: a version of a peer; `given`: to a client, with its bound. */
const tables: readonly (readonly [head: bigint | undefined, options: Partial<LatestOptions>, table: string])[] = [
  [
    undefined,
    {},
    `
before the first head a version raises the floor | served 5, published = 5, floor = 5
a version of a peer counts up to a million above the head, and not before the first head | peer 5, floor = any, head 1000, peer 1001001, floor = any, peer 1001000, floor = 1001000
`,
  ],
  [
    900n,
    {},
    `
the version of a peer that no node here reaches is ignored and reported once; the own one stays | served 900, peer 905, ask refuse:905 = answer after 905+900, unreached = 905, floor = 900
overloaded nodes do not cost the version of a peer | served 900, peer 905, head 905, ask refuse:905 = refusal after 905, unreached = none, floor = 905
no floor is asked for once, and never given up | ask refuse:any = refusal after any, unreached = none
nor is that of the client | ask min:950 refuse:950 = refusal after 950, unreached = none
without a head the version of a peer is asked for first, then any | peer 905, headless, ask refuse:905 = answer after 905+any, unreached = 905
versions of peers are ignored for ten seconds after no node reached one | served 900, peer 905, ask refuse:905, peer 910, floor = 900, now 14999, peer 910, floor = 900, now 15000, peer 910, floor = 910
`,
  ],
  [
    1_000n,
    {},
    `
a version is reported once, and no older one is | served 900, served 900, served 899, served 901, served 1000, published = 900+901+1000
a version above the believed head raises no floor | served 1001, published = none, floor = any
a floor is the newest of the client's own and this gateway's | floor = any, floor 5 = 5, served 900, floor = 900, floor 899 = 900, floor 901 = 901
and its peers', of one generation | served 900, peer 950, peer 940, floor = 950, floor 949 = 950, floor 951 = 951, generation, floor = any, peer 940, floor = 940
the state of another worker is shared and raises the floor, unless it is older | peerState 950 10000, peerState 900 10000, find 10000 = 950, floor = 950, published = none
in one generation | peerState 950 10000, generation, find 10000 = undefined, peek = none, floor = any
`,
  ],
  [
    900n,
    { floor: 'client' },
    `
a version of a peer that a node here is about to reach is waited for, and costs no floor | peerFloor c 905, peerFloor d 906, reaches 905, ask client:c behind = answer after 905, floorOf d = 906, unreached = none
a client keeps its own floor when another replica's state is out of reach | replicaState 905 10000, ask own:890 refuse:905 = answer after 905+890, unreached = 905
when the nodes at the shared state fail, a client keeps its own floor while another node holds it | peerState 900 10000, node 895, ask own:890 lose:900 = answer after 900+890, unreached = none
and gets any state when that one fails as well | peerState 900 10000, node 895, ask own:890 lose:900 lose:890 = answer after 900+890+any, unreached = none
a client keeps its floor where another node has reached it since it last reported its head | peerState 900 10000, given c 900 0, node 800, reaches 900, ask client:c behind = answer after 900+900, find 10000 = 900
when the only node with a client's version is gone, the client gets the newest state that is left, and keeps it | peerState 800 10000, given c 900, node 890, ask client:c lose:900 = answer after 900+890, floorOf c = 890
beyond the bound on clients, a floor that no node here reaches costs one wait, no answer | crowd 905, peerFloor more 905, ask refuse:905 = answer after 905+any, unreached = 905, published = none
`,
  ],
  [
    900n,
    { floor: 'client', bounds: [5_000, 10_000] },
    `
the state of a replica with one of the bounds is a floor of that bound | peerState 900 5000 10000, replicaState 905 10000, find 5000 = 900, floor = 905
beside bounds that the config lacks it is a floor of all | peerState 900 5000 10000, replicaState 905 10000 200, find 5000 = undefined, floor = 905
`,
  ],
  [
    900n,
    { bounds: [5_000, 10_000] },
    `
with one floor for all it is a floor of all as well | peerState 900 5000 10000, replicaState 905 10000, find 5000 = undefined, floor = 905
`,
  ],
  [
    1_000n,
    { floor: 'client', bounds: [200, 5_000] },
    `
a report of the state of a bound shows what a read would get | now 1000, peerState 40 200 5000, now 5990, peerState 50 200, now 6000, peek 5000 = 40 5000 true, now 6001, peek 5000 = 50 11 true, now 10991, peek 5000 = 40 9991 false, now 10990, find 5000 = 50
under several bounds a write is published though the client has got a newer state, which is not | peerState 40 200 5000, peerState 100 200, given c 100 200 = true, floors = none, floorOf c = 100, given c 95 = true, floors = 95, floorOf c = 100, peerState 100 5000, floorOf c = any, ahead = 0
while no client reads under the bounds of the config, heads are reported once, not once for each client | read a 900, read b 900, published = 900, floors = none, ahead = 0
until a bound is out of use again | now 1000, read a 900, peerState 900 5000, now 26000, read a 910, read b 910, published = 900, floors = 910+910, ahead = 2, now 26001, read a 920, read b 920, published = 900+920, floors = 910+910, ahead = 0
the state of a replica is in use as well | replicaState 930 5000, read a 940, published = none, floors = 940, ahead = 1
`,
  ],
];

for (const [head, changed, table] of tables)
  for (const [claim, script] of scriptsIn(table)) test(claim, (t) => runScript(stepsOf(t, head, changed), script));

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
  const latest = new Latest(
    fleet,
    sender,
    { ...options, ...changed },
    {
      publish: (news) => void (news.kind === 'snapshot' && states.push(news.snapshot)),
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
