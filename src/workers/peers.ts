/**
 * Between workers, by way of the primary: the events that one publishes to the others (their table is `gateway/bus.ts`),
 * and the reads that one makes for all.
 */
import { DistrustedFunctions } from '../encode/index.ts';
import { type Newness, type PeerEvent, rowOf } from '../gateway/index.ts';
import type { Channel, PrimaryHandlers, Published, ReadTurn, Setup } from './channel.ts';
import type { WorkerProcess } from './worker-pool.ts';

/** Longest wait for a worker to apply an awaited event, and of its sender for all of them. */
const appliedMs = 200;
const awaitedMs = 250;
/** All processes of a machine share the origin of `process.hrtime`; `performance.now` starts with each process. */
const originMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();

/** A worker that the broadcast addresses. */
export type Peer = Pick<WorkerProcess, 'id' | 'channel' | 'isServing'>;

/** The primary's end: forwards each event to the peers, older state excepted. */
export class WorkerBroadcast {
  readonly #workers: () => readonly Peer[];
  readonly #state = new LedgerState();
  /** Functions that only nodes encode, also for workers that start later. */
  readonly #distrusted = new DistrustedFunctions();
  /** The end of the use of pages, for the same ones. */
  #pagesEnd: PeerEvent | undefined;

  constructor(workers: () => readonly Peer[]) {
    this.#workers = workers;
  }

  /** The published state that a new worker starts with. */
  get setup(): Pick<Setup, 'ledger' | 'published' | 'distrusted'> {
    const { ledger, newest } = this.#state;
    const published = this.#pagesEnd === undefined ? newest : [...newest, { ledger, event: this.#pagesEnd }];
    return { ledger, published, distrusted: this.#distrusted.all };
  }

  /**
   * Forwards an event of worker `id`. The promise of an awaited one resolves once the serving peers applied it. Events queue
   * in the pipe of a hung worker; the hang watch bounds that to ten seconds of events.
   */
  publish(id: number, published: Published): Promise<void> | undefined {
    const { event } = published;
    if (event.kind === 'distrusted') this.#distrusted.add(event.functionId);
    if (event.kind === 'pages distrusted') this.#pagesEnd = event;
    if (!this.#state.record(published)) return undefined;
    const peers = this.#workers().filter((worker) => worker.id !== id);
    if (rowOf(event).isAwaited) return applied(peers, published);
    for (const { channel } of peers) channel.notify('published', published);
    return undefined;
  }
}

async function applied(peers: readonly Peer[], published: Published): Promise<void> {
  const answers = peers.map(async ({ channel, isServing }) => {
    // A starting worker applies the event before its first request.
    if (isServing) await channel.call('published', published, appliedMs);
    else channel.notify('published', published);
  });
  await Promise.allSettled(answers);
}

/** A worker's end: publishes its events once, and filters those of its peers. */
export class PeerLink {
  readonly #primary: Pick<Channel<PrimaryHandlers>, 'call' | 'notify'>;
  readonly #state: LedgerState;
  #isFollowing = false;

  constructor(primary: Pick<Channel<PrimaryHandlers>, 'call' | 'notify'>, ledger: number) {
    this.#primary = primary;
    this.#state = new LedgerState(ledger);
  }

  /** See `PeerWorkers.publish`. */
  publish(event: PeerEvent): Promise<void> | undefined {
    const isReplacement = event.kind === 'ledger replaced';
    if (isReplacement && this.#isFollowing) return undefined;
    const published = { ledger: this.#state.ledger + Number(isReplacement), event: moved(event, originMs) };
    if (!this.#state.record(published)) return undefined;
    // Without the record of a submission a peer merely asks another node first.
    if (rowOf(event).isAwaited) return this.#primary.call('publish', published, awaitedMs).catch(() => undefined);
    this.#primary.notify('publish', published);
    return undefined;
  }

  /** Applies an event of a peer, unless it is no news here. Returns as `apply` does. */
  receive(published: Published, apply: (event: PeerEvent) => void | Promise<void>): void | Promise<void> {
    const { event } = published;
    if (!this.#state.record(published)) return undefined;
    this.#isFollowing = event.kind === 'ledger replaced';
    try {
      return apply(moved(event, -originMs));
    } finally {
      this.#isFollowing = false;
    }
  }
}

/** The event with its time shifted to another clock. */
function moved<Event extends PeerEvent>(event: Event, byMs: number): Event {
  if (event.kind !== 'snapshot') return event;
  return { ...event, snapshot: { ...event.snapshot, asOfMs: event.snapshot.asOfMs + byMs } };
}

/** The newest published state of one ledger: the start of a new worker, and the filter of older events. */
class LedgerState {
  /** Replacements of the ledger since the start. */
  ledger: number;
  /** By kind and state. */
  readonly #newest = new Map<string, { readonly event: PeerEvent; readonly newness: Newness }>();

  constructor(ledger = 0) {
    this.ledger = ledger;
  }

  get newest(): readonly Published[] {
    const events = new Set([...this.#newest.values()].map(({ event }) => event));
    return [...events].map((event) => ({ ledger: this.ledger, event }));
  }

  /** Records the event; false for one of another ledger, or that is newer than no state of its kind. */
  record({ ledger, event }: Published): boolean {
    if (event.kind === 'ledger replaced') return this.#enter(ledger);
    const { of, newness: newnessOf, states, atStart } = rowOf(event);
    if (of !== 'ledger') return true;
    if (ledger !== this.ledger) return false;
    const start = atStart?.(event);
    if (start !== undefined) this.#keep(event.kind, start, start);
    const newness = newnessOf?.(event);
    if (newness === undefined) return true;
    const names = states?.(event).map((state) => `${event.kind} ${state}`) ?? [event.kind];
    return names.filter((name) => this.#keep(name, event, newness)).length > 0;
  }

  #keep(name: string, event: PeerEvent, newness: Newness): boolean {
    const before = this.#newest.get(name)?.newness;
    if (before !== undefined && !isNewer(newness, before)) return false;
    this.#newest.set(name, { event, newness });
    return true;
  }

  /** Begins a ledger, of which no state is known yet. Several workers detect one replacement: the first event wins. */
  #enter(ledger: number): boolean {
    if (ledger <= this.ledger) return false;
    this.ledger = ledger;
    this.#newest.clear();
    return true;
  }
}

function isNewer(next: Newness, before: Newness): boolean {
  if (next.version !== before.version) return next.version > before.version;
  return (next.asOfMs ?? 0) > (before.asOfMs ?? 0);
}

/** Workers that wait for the end of a read, and the worker that makes it. */
interface OpenFlight {
  readonly leader: number;
  readonly waiting: (() => void)[];
}

/** Reads in flight at most; further ones are made without a look at each other. */
const mostFlights = 100_000;

/** The primary's record of the reads that workers make, so that one worker reads a cold key for all. */
export class FlightDesk {
  readonly #open = new Map<string, OpenFlight>();

  /** The handlers of one worker, until `release`. */
  handlersFor(worker: number): Pick<PrimaryHandlers, 'enterFlight' | 'leaveFlight'> {
    return {
      enterFlight: (name) => this.#enter(name, worker),
      leaveFlight: (name) => {
        const flight = this.#open.get(name);
        if (flight?.leader === worker) this.#end(name, flight);
      },
    };
  }

  /** The worker has exited: its reads have ended. */
  release(worker: number): void {
    for (const [name, flight] of this.#open) if (flight.leader === worker) this.#end(name, flight);
  }

  #enter(name: string, worker: number): ReadTurn | Promise<ReadTurn> {
    const flight = this.#open.get(name);
    if (flight !== undefined && flight.leader !== worker) {
      return new Promise((resolve) => {
        flight.waiting.push(() => resolve('look'));
      });
    }
    if (this.#open.size < mostFlights) this.#open.set(name, flight ?? { leader: worker, waiting: [] });
    return 'lead';
  }

  #end(name: string, { waiting }: OpenFlight): void {
    this.#open.delete(name);
    for (const resolve of waiting) resolve();
  }
}
