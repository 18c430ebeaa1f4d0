/** The shared state and its floors: which looks find it over nodes that fail, lag or come back, and whom versions bind. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { GatewayError } from '../../src/ledger/errors.ts';
import type { CancelSignal } from '../../src/ledger/stop.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { type FleetRequest, UnreachedError } from '../../src/upstream/dispatch/fleet-request.ts';
import type { Sender } from '../../src/upstream/dispatch/sender.ts';
import type { FleetState } from '../../src/upstream/fleet-state.ts';
import { Latest, type LatestOptions } from '../../src/upstream/latest.ts';
import type { Upstream } from '../../src/upstream/node/upstream.ts';
import { ledgerInfo } from '../support/ledger-info.ts';
import { runScript, scriptsIn, type Steps } from '../support/script.ts';

const at = (version: number): LedgerVersion => LedgerVersion.of(BigInt(version));
const infoAt = (version: number) => ledgerInfo({ version: BigInt(version) });
const usual: LatestOptions = { maxStalenessMs: 10_000, waitForVersionMs: 20, floor: 'client', bounds: [10_000] };
const none = at(0);
const refusal = new GatewayError('unavailable', 'refused');
/** Failures that cost no version: one is no fault of nodes, one is none of the gateway's. */
const others: Readonly<Record<string, Error>> = {
  refused: refusal,
  malformed: new GatewayError('malformed', 'malformed'),
  foreign: Object.assign(new Error('foreign'), { fault: 'unavailable' }),
};

/** A node without connections, as reads of the newest state see it. */
function nodeOf(name: string, version: number) {
  const window = { info: infoAt(Math.max(0, version)), observedAtMs: 4_000 };
  return { name, head: BigInt(version), isTrusted: true, failsNewest: false, window, newest: { succeed: nothing } };
}

function nothing(): void {
  return;
}

/** The version in a word such as `min:900`. */
const numberOf = (words: readonly string[], name: string): LedgerVersion | undefined => {
  const word = words.find((each) => each.startsWith(`${name}:`));
  return word === undefined ? undefined : at(Number(word.slice(name.length + 1)));
};

const demandOf = (words: readonly string[]) => ({
  maxStalenessMs: Number(numberOf(words, 'age') ?? 0n),
  min: numberOf(words, 'min'),
  floor: numberOf(words, 'own'),
});

/** Nodes and looks that the steps arrange; versions are results as such. */
function stepsOf(t: TestContext, changed: Partial<LatestOptions>, comparesHeads: boolean): Steps {
  let nowMs = 5_000;
  t.mock.method(performance, 'now', () => nowMs);
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const nodes = new Map<string, ReturnType<typeof nodeOf>>();
  const move = (text: string): void => {
    const [name = '', version] = text.split(':');
    nodes.set(name, nodeOf(name, Number(version)));
  };
  const news: string[] = [];
  const asked: string[] = [];
  let [looks, coming, compared, outcomes]: [string[], string[], string[], string[]] = [[], [], [], []];
  let [client, compares, stop] = [new AbortController(), 0, undefined as CancelSignal | undefined];
  const fleet = {
    generation: 0,
    head: infoAt(900) as ReturnType<typeof infoAt> | undefined,
    get upstreams() {
      return [...nodes.values()];
    },
    waitFor: (version: bigint, ms: number, _: unknown, isFit: (node: unknown) => boolean) => {
      assert.equal(ms, 20);
      for (const text of coming.splice(0)) move(text);
      return Promise.resolve(fleet.upstreams.some((node) => node.isTrusted && node.head >= version && isFit(node)));
    },
  };
  const whole = ({ need }: FleetRequest, signal: CancelSignal) => {
    stop = signal;
    asked.push(String((need.kind === 'head' ? need.min : undefined) ?? 'any'));
    const [name = '', version = '', ...words] = (looks.shift() ?? 'refused').split(':');
    if (words.includes('leaves')) client.abort(new Error('left'));
    const upstream = nodes.get(name);
    if (version === 'fails' && upstream !== undefined) upstream.failsNewest = true;
    if (upstream === undefined || version === 'fails') return Promise.reject(refusal);
    const status = Number(words.find((word) => /^\d+$/.test(word)) ?? 200);
    if (version === 'none') return Promise.resolve({ status, info: undefined, body: Buffer.from('{}'), upstream });
    const info = infoAt(Number(version));
    upstream.head = info.version;
    const isBelieved = !words.includes('alone');
    if (isBelieved && (fleet.head === undefined || fleet.head.version < info.version)) fleet.head = info;
    return Promise.resolve({ status, info, body: Buffer.from('{}'), upstream });
  };
  const compareHeads = (): Promise<void> => {
    compares += 1;
    for (const text of compared.splice(0)) move(text);
    return Promise.resolve();
  };
  const latest = new Latest(
    fleet as unknown as FleetState,
    { whole } as unknown as Pick<Sender, 'whole'>,
    { ...usual, ...changed },
    {
      publish: (each) =>
        void news.push(
          each.kind === 'snapshot'
            ? `${each.snapshot.info.version}/${each.bounds.join('/')} ${each.floor}`
            : `${each.kind} ${each.version}`,
        ),
      onUnreached: (version) => void news.push(`unreached ${version}`),
      ...(comparesHeads ? { compareHeads } : {}),
    },
  );
  let reason: string | undefined;
  const textOf = (error: unknown): string => {
    ({ reason } = error as GatewayError);
    return (error as Error).message.replaceAll(',', ';');
  };
  /** Answers, or fails by the next outcome: `lost` (no node reaches it), `lost:a:b` (these failed), `leaves`, or `others`. */
  const outcomeAt = (version: LedgerVersion | undefined): string => {
    const [outcome = '', ...names] = (outcomes.shift() ?? 'answer').split(':');
    if (others[outcome] !== undefined) throw others[outcome];
    if (outcome === 'leaves') client.abort(new Error('left'));
    const failed = names.map((name) => nodes.get(name) as unknown as Upstream);
    if (outcome !== 'answer') throw new UnreachedError(version, failed);
    return outcome;
  };
  const given = (name: string, version: number, boundMs?: number) => latest.recordGiven(name, at(version), boundMs);
  return {
    node: (...texts: readonly string[]) => texts.forEach(move),
    untrusted: (name: string) => void Object.assign(nodes.get(name) ?? {}, { isTrusted: false, failsNewest: true }),
    failing: (name: string) => void Object.assign(nodes.get(name) ?? {}, { failsNewest: true }),
    head: (version: number) => (fleet.head = infoAt(version)),
    headless: () => (fleet.head = undefined),
    generation: () => (fleet.generation += 1),
    now: (ms: number) => (nowMs = ms),
    tick: async (ms: number) => {
      nowMs += ms;
      t.mock.timers.tick(ms);
      await new Promise(setImmediate);
    },
    /** The answers of the next looks: node, version or `none` or `fails`; `alone`: not believed; a status; `leaves`. */
    looks: (...texts: string[]) => (looks = texts),
    comes: (...texts: string[]) => (coming = texts),
    compared: (...texts: string[]) => (compared = texts),
    outcomes: (...words: string[]) => (outcomes = words),
    reach: async (...words: readonly string[]) => {
      client = new AbortController();
      return latest.reach(demandOf(words), client.signal).then(({ info }) => info.version, textOf);
    },
    read: async (...words: readonly string[]) => {
      const states: string[] = [];
      client = new AbortController();
      const result = await latest
        .at(demandOf(words), { signal: client.signal }, async (state) => {
          states.push(`${state.info.version}@${state.asOfMs}`);
          return Promise.resolve().then(() => outcomeAt(state.info.version));
        })
        .catch(textOf);
      return `${result} after ${states.join('+')}`;
    },
    /** `*`: the version was chosen for the client. `behind`: no node answers below it. `as:c`: with the floor of client c. */
    ask: async (...words: readonly string[]) => {
      const floors: string[] = [];
      client = new AbortController();
      const name = words.find((word) => word.startsWith('as:'))?.slice(3);
      const demand = { ...demandOf(words), ...(name !== undefined && { floor: latest.floorOf(name) }) };
      const result = await latest
        .aboveFloor(demand, client.signal, async (floor = none, isChosen) => {
          floors.push(`${floor === none ? 'any' : floor}${isChosen ? '*' : ''}`);
          const isBehind = words.includes('behind') && fleet.upstreams.every(({ head }) => head < floor);
          if (isBehind) throw new UnreachedError(floor);
          return Promise.resolve().then(() => outcomeAt(floor));
        })
        .catch(textOf);
      return `${result} after ${floors.join('+')}`;
    },
    asked: () => asked.splice(0).join('+') || 'none',
    compares: () => compares,
    reason: () => reason,
    news: () => news.splice(0).join(' ') || 'none',
    find: (maxStalenessMs: number) => latest.find({ maxStalenessMs, min: undefined })?.info.version,
    shared: (maxStalenessMs: number) => {
      const state = latest.find({ maxStalenessMs, min: undefined });
      return state !== undefined && latest.isShared(state) && !latest.isShared({ ...state });
    },
    peek: (boundMs?: number) => Object.values(latest.peek(boundMs) ?? {}).join(' ') || 'none',
    served: (version: number) => latest.recordServed(at(version)),
    given,
    /** A client gets this version of a node's head. */
    answered: (name: string, version: number) => {
      latest.recordServed(at(version));
      given(name, version);
    },
    /** Of every client, for one that has seen `min`. */
    floor: async (min?: number) =>
      latest.aboveFloor({ min: min === undefined ? undefined : at(min) }, client.signal, async (floor) =>
        Promise.resolve(floor ?? 'any'),
      ),
    ahead: () => latest.clientsAhead,
    floorOf: (name: string) => latest.floorOf(name) ?? 'any',
    peer: (version: number) => latest.onPeerVersion(at(version)),
    peerFloor: (name: string, version: number) => latest.onPeerFloor(name, at(version)),
    peerState: (version: number, ...bounds: readonly number[]) =>
      latest.onPeerState({ info: infoAt(version), body: Buffer.from('{}'), asOfMs: nowMs, upstream: 'a' }, bounds),
    replicaState: (version: number, ...bounds: readonly number[]) => latest.onReplicaState(infoAt(version), bounds),
    crowd: (version: number) => {
      for (let name = 0; name < 100_000; name += 1) latest.onPeerFloor(String(name), at(version));
    },
    close: () => latest.close(),
    stopped: () => (stop?.reason as Error | undefined)?.message,
  };
}

const noNode = 'no node reports the latest ledger version now; try again';
const notReached = (version: number): string =>
  `no node that can be reached holds ledger version ${version} yet; try again`;

/** Options, and a table of claims and scripts, with the fleet's head at 900. */
const tables: readonly (readonly [changed: Partial<LatestOptions>, comparesHeads: boolean, table: string])[] = [
  [
    {},
    true,
    `
a look asks for no version first, and gives the state that reads share | node a:900, looks a:900, reach = 900, asked = any, shared 10000 = true, reach age:10000 = 900, asked = none
a look that fails is the client's failure | node a:900, reach = refused, asked = any
three looks without a state are enough | node a:900, looks a:900:503 a:none a:900:503 a:900, reach = ${noNode}, reason = no node, asked = any+any+any
a client that leaves gets no other look | node a:900, looks a:none:leaves a:900, reach = ${noNode}, asked = any
a node that is not believed gives no state | node a:900 b:900, untrusted b, looks b:900 b:900 a:900, reach = 900
nor does a version above the believed head | node a:900, looks a:910:alone a:910:alone a:900, reach = 900, asked = any+any+any
or any version before the first head | node a:1, headless, looks a:1:alone a:1:alone a:1:alone, reach = ${noNode}
a version that a node holds is asked for, and again at one that is not behind | node a:900 b:895, looks b:895 a:900, reach min:900 = 900, asked = 900+900
one that is above the head is waited for | node a:900, looks a:900 a:905, comes a:905, reach min:905 = 905, asked = any+905
and not for ever | node a:900, looks a:900, reach min:905 = the ledger is at version 900 here; and version 905 was asked for; try again, reason = not reached, asked = any
so is one that its client has seen | node a:890, looks a:890 a:895, comes a:895, reach min:895 = 895, asked = any+895
whose node is gone | node a:890, looks a:890, reach min:895 = ${notReached(895)}, asked = any
one that other connections have seen is not | node a:890, looks a:890 a:890, comes a:895, reach own:895 = 890, asked = any+890
the versions of nodes that are not believed count for nothing | node a:900 b:910, head 910, untrusted b, looks a:900, reach min:905 = ${notReached(905)}
nor do those of nodes that fail such reads | node a:900 b:910, head 910, failing b, looks a:900, reach min:905 = ${notReached(905)}
unless all do | node a:900 b:910, head 910, failing a, failing b, looks b:910, reach min:905 = 910, asked = 905
the newest of the nodes counts, in whatever order | node a:890 b:900 c:880, looks b:900, reach min:900 = 900, asked = 900
in an outage the head is taken for provided | node a:890, untrusted a, reach min:900 = refused, asked = 900
a look at the shared version whose node fails is sent again for any | node a:900 b:890, looks a:900, reach = 900, now 5001, looks a:fails b:890 b:890, reach = 890, asked = any+900+any+890, compares = 2
while its node provides it, it is not | node a:900, looks a:900, reach = 900, now 5001, looks refused a:900, reach = refused, asked = any+900
heads are compared before a version is given up, which another node may have reached | node a:900 b:890, looks a:900, reach = 900, now 5001, looks a:fails b:890 b:900, compared b:900, reach = 900, asked = any+900+any+900, compares = 1
not without need | node a:900, looks a:900, reach = 900, compares = 0
not where no client has got a version | node a:890, looks a:890, reach = 890, now 5001, looks a:890, reach = 890, compares = 0
or for those of peers that are ahead | node a:900, peerFloor c 905, looks a:900, reach = 900, compares = 0
a state is renewed just before it is too old, while it is read | node a:900, looks a:900 a:900, reach age:10000 = 900, asked = any, tick 9799, asked = none, tick 1, asked = 900
a look that fails ends that | node a:900, looks a:900, reach age:10000 = 900, tick 9800, asked = any+900, tick 30000, asked = none
a state that nobody reads is not renewed | node a:900, looks a:900, reach = 900, tick 20000, asked = any
nor is one after the end, which ends looks | node a:900, looks a:900, reach age:10000 = 900, stopped = undefined, close, stopped = closing, tick 9800, asked = any
a read is made at the state | node a:900, looks a:900, read = answer after 900@5000
when the nodes that hold it fail, at the newest of the others | node b:880 a:900 c:890, looks a:900, outcomes lost:a, read = answer after 900@5000+890@4000, compares = 1
in whatever order | node a:900 c:890 b:880, looks a:900, outcomes lost:a, read = answer after 900@5000+890@4000
where none is named, all that have reached it have failed | node a:900 b:901 c:899, head 901, looks a:900, outcomes lost, read = answer after 900@5000+899@4000
another node at it, which has not, is as good as any | node a:900 b:905, head 905, looks a:900, outcomes lost:a, read = answer after 900@5000+905@4000
three states are enough | node a:900 b:890 c:880 d:870, looks a:900, outcomes lost:a lost:b lost:c, read = ${notReached(880)} after 900@5000+890@4000+880@4000
another failure is the client's | node a:900 b:890, looks a:900, outcomes refused, read = refused after 900@5000
nothing is read for a client that has left | node a:900 b:890, looks a:900, outcomes leaves:a, read = ${notReached(900)} after 900@5000
or without another node | node a:900, looks a:900, outcomes lost:a, read = ${notReached(900)} after 900@5000
a client that has seen a version waits for it at the others | node a:900 b:890, looks a:900, outcomes lost:a, comes b:896, read min:895 = answer after 900@5000+896@4000
and gets nothing older | node a:900 b:890, looks a:900, outcomes lost:a, read min:895 = ${notReached(895)} after 900@5000
without a floor a read asks for any version, of its client's choice | node a:900, ask = answer after any, ask min:895 = answer after 895
a floor is chosen | node a:900, ask own:890 = answer after 890*
a version that a node provides is asked for twice, then any | node a:900, outcomes lost lost, ask own:890 = answer after 890*+890*+any
a failure at a version that no node provides costs the version | node a:890, outcomes refused, ask own:895 = answer after 895*+890*
another failure then is the client's | node a:900, outcomes lost refused, ask own:890 = refused after 890*+890*
nor is any asked for by a client that leaves | node a:900, outcomes lost leaves, ask own:890 = ${notReached(890)} after 890*+890*
the nodes that have failed provide nothing | node a:900 b:880, outcomes lost:a, ask own:890 = answer after 890*+880*
what is left may be what the client has seen | node a:900 b:885, outcomes lost:a, ask min:885 own:890 = answer after 890*+885
or less | node a:900 b:880, outcomes lost:a, ask min:885 own:890 = answer after 890*+885
or nothing | node a:-1, outcomes lost, ask own:890 = answer after 890*+any
a client gets no older state than its other connections, but its own floor binds nobody else | node a:900, looks a:900, reach age:10000 = 900, head 910, given c 910 = true, ahead = 1, given c 900 = false, ahead = 1
a version above the head binds nobody | node a:900, looks a:900, reach age:10000 = 900, given c 905 = true, ahead = 0
before the first head it does | headless, given c 5 = true, ahead = 1
other processes get to know it where it is ahead of the state of its bound | node a:900, peerState 890 10000, given c 900 10000 = true, news = floor 900
of a bound without a state it is ahead | given c 890 200 = true, news = floor 890
a version of a peer far above the head binds nobody | node a:900, peerFloor c 2000000, ahead = 0, replicaState 2000000 10000, ask = answer after any
or one that all reads have passed | node a:900, peerState 900 10000, peerFloor c 900, ahead = 0, peerFloor c 901, ahead = 1
the state of a peer is shared where a node here holds it | node a:890, peerState 900 10000, find 10000 = undefined, node a:900, peerState 900 10000, find 10000 = 900
and not above the believed head | node a:910, peerState 905 10000, find 10000 = undefined
or before the first one | node a:5, headless, peerState 1 10000, find 10000 = undefined
so is the state of a replica | node a:900, peerState 890 10000, replicaState 900 10000, find 10000 = 900
beyond the bound on clients one floor binds all, which the other processes get to know | node a:900, crowd 895, peerFloor more 895, news = served 895
one that no node here reaches costs one wait, no answer | crowd 905, peerFloor more 905, outcomes refused, ask = answer after 905*+any, news = unreached 905
a version of a peer that a node here is about to reach is waited for, and costs no floor | node a:900, peerFloor c 905, peerFloor d 906, comes a:905, ask as:c behind = answer after 905*, floorOf d = 906, news = none
a client keeps its own floor when another replica's state is out of reach | replicaState 905 10000, outcomes refused, ask own:890 = answer after 905*+890*, news = unreached 905
when the nodes at the shared state fail, a client keeps its own floor while another node holds it | peerState 900 10000, node a:895, outcomes lost, ask own:890 = answer after 900*+890*, news = none
and gets any state when that one fails as well | peerState 900 10000, node a:895, outcomes lost lost, ask own:890 = answer after 900*+890*+any
a client keeps its floor where another node has reached it since it last reported its head | peerState 900 10000, node a:800, compared a:900, ask behind = answer after 900*+900*, find 10000 = 900
when the only node with a client's version is gone, the client gets the newest state that is left, and keeps it | peerState 800 10000, given c 900, node a:890, outcomes lost, ask as:c = answer after 900*+890*, floorOf c = 890
`,
  ],
  [
    {},
    false,
    `
without a comparison of heads the others are taken at their word | node a:900 b:890, looks a:900, outcomes lost:a, read = answer after 900@5000+890@4000
when a floor is lost | node a:890, outcomes lost, ask own:895 = answer after 895*+890*
and when a look finds less | node a:900 b:890, looks a:900, reach = 900, now 5001, looks a:fails b:890 b:890, reach = 890
`,
  ],
  [
    { bounds: [5_000, 10_000] },
    true,
    `
the state of another worker is renewed under a bound that it has no part of | node a:900, peerState 900 5000, find 10000 = 900, looks a:900, tick 9799, asked = none, tick 1, asked = 900
the state of a replica with one of the bounds is a floor of that bound | peerState 900 5000 10000, replicaState 905 10000, find 5000 = 900, floor = 905
beside bounds that the config lacks it is a floor of all | peerState 900 5000 10000, replicaState 905 10000 200, find 5000 = undefined, floor = 905
a look fills the states that are due | node a:900, looks a:900 a:901, reach = 900, news = 900/10000/5000 client, now 5100, reach = 901, news = none, ask = answer after 900*
`,
  ],
  [
    { bounds: [5_000, 10_000], floor: 'gateway' },
    true,
    `
the state of a replica is a floor of all as well | peerState 900 5000 10000, replicaState 905 10000, find 5000 = undefined, floor = 905
with one floor for all it fills all of them, and binds every client | node a:900, looks a:900 a:901, reach = 900, news = 900/10000/5000 gateway, now 5100, reach = 901, news = 901/10000/5000 gateway, ask = answer after 901*
so do the states of other workers, of whatever bound | node a:900, peerState 900 777, ask = answer after 900*
a version that is given binds every client, and none alone | node a:900, looks a:900, reach age:10000 = 900, news = 900/10000/5000 gateway, head 950, served 940, news = served 940, given c 950 = true, ahead = 0
`,
  ],
  [
    { floor: 'gateway' },
    true,
    `
before the first head a version raises the floor | headless, served 5, news = served 5, floor = 5
a version of a peer counts up to a million above the head, and not before the first head | headless, peer 5, floor = any, head 1000, peer 1001001, floor = any, peer 1001000, floor = 1001000
the version of a peer that no node here reaches is ignored and reported once; the own one stays | served 900, peer 905, outcomes refused, ask = answer after 905*+900*, news = served 900 unreached 905, floor = 900
overloaded nodes do not cost the version of a peer | served 900, peer 905, head 905, outcomes refused, ask = refused after 905*, news = served 900, floor = 905
nor does a client that hangs up, or another failure, which the client gets | served 900, peer 905, outcomes leaves malformed foreign, ask = ${notReached(905)} after 905*, ask = malformed after 905*, ask = foreign after 905*, news = served 900, floor = 905
no floor is asked for once, and never given up | outcomes refused, ask = refused after any, news = none
nor is that of the client | outcomes refused, ask min:950 = refused after 950, news = none
without a head the version of a peer is asked for first, then any | peer 905, headless, outcomes refused, ask = answer after 905*+any, news = unreached 905
versions of peers are ignored for ten seconds after no node reached one | served 900, peer 905, outcomes refused, ask, peer 910, floor = 900, now 14999, peer 910, floor = 900, now 15000, peer 910, floor = 910
a version is reported once, and no older one is | head 1000, served 900, served 900, served 899, served 901, served 1000, news = served 900 served 901 served 1000
a version above the believed head raises no floor | served 901, news = none, floor = any
a floor is the newest of the client's own and this gateway's | floor = any, floor 5 = 5, served 900, floor = 900, floor 899 = 900, floor 901 = 901
and its peers', of one generation | served 900, peer 950, peer 940, floor = 950, floor 949 = 950, floor 951 = 951, generation, floor = any, peer 940, floor = 940
the state of another worker is shared and raises the floor, unless it is older | head 1000, peerState 950 10000, peerState 900 10000, find 10000 = 950, floor = 950, news = none
in one generation | peerState 890 10000, generation, find 10000 = undefined, peek = none, floor = any
after a rollback the floor from before delays no client | node a:900, looks a:900 a:500, reach = 900, generation, head 500, node a:500, floor = any, now 5001, reach = 500, served 900, floor = 500
`,
  ],
  [
    { bounds: [200] },
    true,
    `
a look leaves the floor of a client whose peer is ahead of the nodes here | node a:900, looks a:900 a:910, reach age:200 = 900, peerFloor c 950, now 5001, reach = 910, floorOf c = 950
a node that refuses looks gets one for each bound | node a:900, looks a:900 a:900:404 a:900:404, reach age:200 = 900, find 10000 = 900, tick 196, asked = any+900, find 10000 = 900, tick 195, asked = none, find 10000 = 900, tick 1, asked = 900
`,
  ],
  [
    { bounds: [200, 5_000] },
    true,
    `
a report of the state of a bound shows what a read would get | now 1000, peerState 40 200 5000, now 5990, peerState 50 200, now 6000, peek 5000 = 40 5000 true, now 6001, peek 5000 = 50 11 true, now 10991, peek 5000 = 40 9991 false, now 10990, find 5000 = 50
under several bounds a write is published though the client has got a newer state, which is not | peerState 40 200 5000, peerState 100 200, given c 100 200 = true, news = none, floorOf c = 100, given c 95 = true, news = floor 95, floorOf c = 100, peerState 100 5000, floorOf c = any, ahead = 0
while no client reads under the bounds of the config, heads are reported once, not once for each client | answered a 900, answered b 900, news = served 900, ahead = 0
until a bound is out of use again | head 1000, now 1000, answered a 900, peerState 900 5000, now 26000, answered a 910, answered b 910, news = served 900 floor 910 floor 910, ahead = 2, now 26001, answered a 920, answered b 920, news = served 920, ahead = 0
the state of a replica is in use as well | head 1000, replicaState 930 5000, answered a 940, news = floor 940, ahead = 1
`,
  ],
];

for (const [changed, comparesHeads, table] of tables)
  for (const [claim, script] of scriptsIn(table))
    test(claim, async (t) => runScript(stepsOf(t, changed, comparesHeads), script));

/** An error of a node. */
const answerOf = (status: number, code: string) => ({
  status,
  body: Buffer.from(JSON.stringify({ message: 'm', error_code: code })),
});

test('an error about the version of a read that named none is no answer: 410, and 404 by its code', () => {
  const latest = new Latest(
    { head: infoAt(900) } as unknown as FleetState,
    { whole: () => Promise.reject(refusal) },
    usual,
    {
      publish: nothing,
      onUnreached: nothing,
    },
  );
  assert.equal(latest.askedAtMs, -Infinity);
  assert.throws(() => latest.requireVersion(answerOf(410, 'version_pruned')), { message: notReached(900) });
  assert.throws(() => latest.requireVersion(answerOf(404, 'version_not_found'), at(7)), { message: notReached(7) });
  latest.requireVersion(answerOf(404, 'resource_not_found'));
  latest.requireVersion(answerOf(400, 'version_not_found'));
});

test('the body of a look is a ledger info of the chain in its headers', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let isContent: FleetRequest['isContent'];
  const whole = (request: FleetRequest): Promise<never> => {
    ({ isContent } = request);
    return Promise.reject(refusal);
  };
  const fleet = { generation: 0, head: infoAt(900), upstreams: [] } as unknown as FleetState;
  const latest = new Latest(fleet, { whole }, usual, { publish: nothing, onUnreached: nothing });
  await assert.rejects(latest.reach({ maxStalenessMs: 0, min: undefined }, new AbortController().signal));
  const isInfo = (isObject: boolean, isError: boolean, members: object): boolean | undefined =>
    (isContent as ((content: unknown, info: unknown) => boolean) | undefined)?.(
      { json: { isObject, isError, members } },
      { chainId: 4 },
    );
  assert.deepEqual(
    [isInfo(true, false, { chain_id: 4 }), isInfo(true, false, {}), isInfo(true, false, { chain_id: 5 })],
    [true, true, false],
  );
  assert.deepEqual([isInfo(false, false, {}), isInfo(true, true, {})], [false, false]);
});
