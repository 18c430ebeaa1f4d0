/**
 * A worker's end of the events between workers. Like replicas, workers share no state: each publishes new state before it
 * answers a client with it, and applies the events of its peers as they arrive.
 */
import type { PeerEvent, Submitted } from '../gateway/peer-workers.ts';
import type { Channel } from './channel.ts';
import { isLedgerEvent, NewestState } from './newest-state.ts';
import type { PrimaryHandlers, Published } from './protocol.ts';

/** Longest wait of a submission for the other workers to record it. */
const submittedMs = 250;
/** All processes of a machine share the origin of `process.hrtime`; `performance.now` starts with each process. */
const originMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();

/** Publishes the events of this worker once, and filters those of its peers. */
export class PeerLink {
  readonly #primary: Pick<Channel<PrimaryHandlers>, 'call' | 'notify'>;
  readonly #newest = new NewestState();
  /** Replacements of the ledger that this worker applied or published since the start. */
  #ledger: number;
  #isFollowing = false;

  constructor(primary: Pick<Channel<PrimaryHandlers>, 'call' | 'notify'>, ledger: number) {
    this.#primary = primary;
    this.#ledger = ledger;
  }

  /** See `PeerWorkers.publish`. */
  publish(event: PeerEvent): void {
    const own = moved(event, originMs);
    if (isLedgerEvent(own) && !this.#newest.record(own)) return;
    if (event.kind === 'ledger replaced') {
      if (this.#isFollowing) return;
      this.#enter(this.#ledger + 1);
    }
    this.#primary.notify('publish', { ledger: this.#ledger, event: own });
  }

  /** See `PeerWorkers.publishSubmission`. */
  publishSubmission(event: Submitted): Promise<void> {
    const published = { ledger: this.#ledger, event };
    // Without the record a peer merely asks another node first.
    return this.#primary.call('publish', published, submittedMs).catch(() => undefined);
  }

  /** Applies an event of a peer, unless its ledger was replaced since. */
  receive({ ledger, event }: Published, apply: (event: PeerEvent) => void): void {
    if (event.kind === 'ledger replaced') return this.#follow(ledger, () => apply(event));
    const isOfLedger = isLedgerEvent(event) || event.kind === 'refused';
    if (isOfLedger && ledger !== this.#ledger) return;
    if (isLedgerEvent(event) && !this.#newest.record(event)) return;
    apply(moved(event, -originMs));
  }

  #follow(ledger: number, apply: () => void): void {
    // This worker has replaced the ledger already.
    if (ledger <= this.#ledger) return;
    this.#enter(ledger);
    this.#isFollowing = true;
    try {
      apply();
    } finally {
      this.#isFollowing = false;
    }
  }

  #enter(ledger: number): void {
    this.#ledger = ledger;
    this.#newest.clear();
  }
}

/** The event with its time shifted to another clock. */
function moved<Event extends PeerEvent>(event: Event, byMs: number): Event {
  if (event.kind !== 'snapshot') return event;
  return { ...event, snapshot: { ...event.snapshot, asOfMs: event.snapshot.asOfMs + byMs } };
}
