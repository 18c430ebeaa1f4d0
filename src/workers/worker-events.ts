/**
 * Events between workers, both ends. Like replicas, workers share no state: each publishes new state before it answers a
 * client with it, and applies the events of its peers as they arrive. The primary forwards them.
 */
import { DistrustedFunctions } from '../encode/index.ts';
import type { PeerEvent, PrimaryHandlers, Published, Setup } from './protocol.ts';
import type { WorkerProcess } from './worker-process.ts';
import type { Channel } from './channel.ts';

/** Ledger state that workers answer clients with; only newer state is news. */
type LedgerEvent = Extract<PeerEvent, { readonly kind: 'head' | 'served' | 'snapshot' }>;

/** Longest wait for a worker to record a submission. */
const recordedMs = 200;

/** A worker that the broadcast addresses. */
export type Peer = Pick<WorkerProcess, 'id' | 'channel' | 'isServing'>;

/** The primary's end: forwards each event to the peers, older state excepted. */
export class WorkerBroadcast {
  readonly #workers: () => readonly Peer[];
  readonly #newest = new NewestState();
  /** Functions that only nodes encode, also for workers that start later. */
  readonly #distrusted = new DistrustedFunctions();

  constructor(workers: () => readonly Peer[]) {
    this.#workers = workers;
  }

  /** The published state that a new worker starts with. */
  get setup(): Pick<Setup, 'ledger' | 'published' | 'distrusted'> {
    const { ledger, events } = this.#newest;
    const published = events.map((event) => ({ ledger, event }));
    return { ledger, published, distrusted: this.#distrusted.all };
  }

  /**
   * Forwards an event of worker `id`. The promise of a `submitted` event resolves once the serving peers recorded it.
   * Events queue in the pipe of a hung worker; the hang watch bounds that to ten seconds of events.
   */
  publish(id: number, published: Published): Promise<void> | undefined {
    if (!this.#isNews(published)) return undefined;
    const peers = this.#workers().filter((worker) => worker.id !== id);
    if (published.event.kind === 'submitted') return record(peers, published);
    for (const { channel } of peers) channel.notify('published', published);
    return undefined;
  }

  #isNews({ ledger, event }: Published): boolean {
    if (event.kind === 'distrusted') this.#distrusted.add(event.functionId);
    // Several workers detect one replacement: the first event wins.
    if (event.kind === 'ledger replaced') return this.#newest.enter(ledger);
    return !isLedgerEvent(event) || (ledger === this.#newest.ledger && this.#newest.record(event));
  }
}

async function record(peers: readonly Peer[], published: Published): Promise<void> {
  const recorded = peers.map(async ({ channel, isServing }) => {
    // A starting worker applies the event before its first request.
    if (isServing) await channel.call('published', published, recordedMs);
    else channel.notify('published', published);
  });
  await Promise.allSettled(recorded);
}

/** Longest wait of a submission for the other workers to record it. */
const submittedMs = 250;
/** All processes of a machine share the origin of `process.hrtime`; `performance.now` starts with each process. */
const originMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();

/** A worker's end: publishes its events once, and filters those of its peers. */
export class PeerLink {
  readonly #primary: Pick<Channel<PrimaryHandlers>, 'call' | 'notify'>;
  readonly #newest = new NewestState();
  #isFollowing = false;

  constructor(primary: Pick<Channel<PrimaryHandlers>, 'call' | 'notify'>, ledger: number) {
    this.#primary = primary;
    this.#newest.enter(ledger);
  }

  /** See `PeerWorkers.publish`. */
  publish(event: PeerEvent): void {
    const own = moved(event, originMs);
    if (isLedgerEvent(own) && !this.#newest.record(own)) return;
    if (event.kind === 'ledger replaced') {
      if (this.#isFollowing) return;
      this.#newest.enter(this.#newest.ledger + 1);
    }
    this.#primary.notify('publish', { ledger: this.#newest.ledger, event: own });
  }

  /** See `PeerWorkers.publishSubmission`. */
  publishSubmission(event: Extract<PeerEvent, { readonly kind: 'submitted' }>): Promise<void> {
    const published = { ledger: this.#newest.ledger, event };
    // Without the record a peer merely asks another node first.
    return this.#primary.call('publish', published, submittedMs).catch(() => undefined);
  }

  /** Applies an event of a peer, unless its ledger was replaced since. */
  receive({ ledger, event }: Published, apply: (event: PeerEvent) => void): void {
    if (event.kind === 'ledger replaced') return this.#follow(ledger, () => apply(event));
    const isOfLedger = isLedgerEvent(event) || event.kind === 'refused';
    if (isOfLedger && ledger !== this.#newest.ledger) return;
    if (isLedgerEvent(event) && !this.#newest.record(event)) return;
    apply(moved(event, -originMs));
  }

  #follow(ledger: number, apply: () => void): void {
    if (!this.#newest.enter(ledger)) return;
    this.#isFollowing = true;
    try {
      apply();
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

/** The newest published ledger state of each kind: the start of a new worker, and the filter of older events. */
class NewestState {
  /** Replacements of the ledger since the start. */
  ledger = 0;
  readonly #newest = new Map<LedgerEvent['kind'], LedgerEvent>();

  get events(): readonly LedgerEvent[] {
    return [...this.#newest.values()];
  }

  /** Records the event; false for one that is not newer than the last of its kind. */
  record(event: LedgerEvent): boolean {
    const before = this.#newest.get(event.kind);
    if (before !== undefined && !isNewer(event, before)) return false;
    this.#newest.set(event.kind, event);
    return true;
  }

  /** Begins a ledger, of which no state is known yet; false where it, or a later one, has begun already. */
  enter(ledger: number): boolean {
    if (ledger <= this.ledger) return false;
    this.ledger = ledger;
    this.#newest.clear();
    return true;
  }
}

/** Whether the event is state of one ledger; other events outlive a replacement of the ledger. */
function isLedgerEvent(event: PeerEvent): event is LedgerEvent {
  return event.kind === 'head' || event.kind === 'served' || event.kind === 'snapshot';
}

function isNewer(event: LedgerEvent, before: LedgerEvent): boolean {
  const [version, known] = [versionOf(event), versionOf(before)];
  if (version !== known || event.kind !== 'snapshot' || before.kind !== 'snapshot') return version > known;
  // A quiet ledger keeps its version: a later request renews the snapshot.
  return event.snapshot.asOfMs > before.snapshot.asOfMs;
}

function versionOf(event: LedgerEvent): bigint {
  if (event.kind === 'served') return event.version;
  return (event.kind === 'head' ? event : event.snapshot).info.version;
}
