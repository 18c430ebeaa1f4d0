/**
 * Reads ahead of their first client: a read that clients ask for often within one shared state is made at the next one as
 * soon as one of them reads that, so that the others find the answer in memory, or join the read (docs/scaling.md has the
 * gain). Only nodes with places and allowance to spare get such reads.
 */
import type { Registry } from 'prom-client';
import type { LedgerVersion } from '../../ledger/index.ts';
import { Counter } from '../../metrics/index.ts';
import type { Fleet, ReportedState } from '../../upstream/index.ts';
import type { Read } from './read.ts';
import type { Reader } from './reader.ts';

/** A read that clients ask for so often within a state is hot: docs/scaling.md compares it with 2, 5 and 10. */
const hotTimes = 3;
/** Hot reads of one state, at most: the first ones that became hot, which are the most frequent. */
const mostHot = 256;
/** Reads ahead that are in flight at once, at most. */
const mostInFlight = 4;
/** Client of these reads, which no plan charges: no address and no tenant has this name. */
const client = '(hot reads)';

/** Counts what clients read of the shared state, and reads it at the next one. */
export class HotReads {
  readonly #fleet: Fleet;
  readonly #reader: Reader;
  readonly #pinned: (read: Read, version: LedgerVersion) => Read;
  readonly #isBusy: () => boolean;
  readonly #results: ReturnType<typeof createHotMetrics>;
  readonly #closing = new AbortController();
  /** The shared state that counts are of. */
  #state: ReportedState | undefined;
  #hot: Read[] = [];
  /** The hot reads of the state before it, which are not yet begun. */
  #due: Read[] = [];
  #inFlight = 0;

  /** `pinned`: the read at a version. `isBusy`: the process is overloaded, or drains its clients. */
  constructor(
    fleet: Fleet,
    reader: Reader,
    pinned: (read: Read, version: LedgerVersion) => Read,
    isBusy: () => boolean,
    registry: Registry,
  ) {
    this.#fleet = fleet;
    this.#reader = reader;
    this.#pinned = pinned;
    this.#isBusy = isBusy;
    this.#results = createHotMetrics(registry);
  }

  /** Counts a client's read of this state, if it is the one that reads with the default bound share. Part of each hit. */
  record(read: Read, state: ReportedState): void {
    if (state !== this.#state) {
      if (!this.#fleet.latest.isShared(state)) return;
      this.#renew(state);
    }
    const { asked } = read;
    if (asked?.of !== state) read.asked = { of: state, times: 1 };
    else {
      asked.times += 1;
      if (asked.times === hotTimes && this.#hot.length < mostHot) this.#hot.push(read);
    }
  }

  close(): void {
    this.#closing.abort(new Error('closing'));
  }

  #renew(state: ReportedState): void {
    const before = this.#state?.info.version;
    // On a quiet ledger memory has the answers; behind a rollback other reads may be hot.
    const isNewer = before !== undefined && state.info.version > before;
    this.#results.inc({ result: 'skipped' }, this.#due.length);
    this.#due = isNewer ? this.#hot : [];
    this.#hot = [];
    this.#state = state;
    // The client that has come first is served first.
    if (this.#due.length > 0) queueMicrotask(() => this.#begin());
  }

  #begin(): void {
    while (this.#inFlight < mostInFlight && this.#state !== undefined) {
      const read = this.#due.shift();
      if (read === undefined) return;
      const pinned = this.#pinned(read, this.#state.info.version);
      if (this.#reader.locate(pinned) !== undefined) continue;
      if (this.#mayRead(pinned)) void this.#load(pinned);
      else this.#results.inc({ result: 'skipped' });
    }
  }

  #mayRead(pinned: Read): boolean {
    if (this.#closing.signal.aborted || this.#isBusy() || this.#reader.isLarge(pinned)) return false;
    return this.#fleet.sender.hasToSpare(pinned.need);
  }

  async #load(pinned: Read): Promise<void> {
    this.#inFlight += 1;
    // A client that has joined the read gets the error.
    const isRead = await this.#reader.load(pinned, { client, signal: this.#closing.signal, isAhead: true }).then(
      ({ entry }) => entry.lifetimeMs > 0,
      () => false,
    );
    this.#results.inc({ result: isRead ? 'ahead' : 'failed' });
    this.#inFlight -= 1;
    this.#begin();
  }
}

/** Registers the family of hot reads, which the result counts. */
export function createHotMetrics(registry: Registry) {
  return new Counter(registry, {
    name: 'ledgergate_hot_reads_total',
    help: 'Reads that clients asked for often within a shared state, by what became of them at the next one: made ahead of clients, failed, skipped (nodes or the gateway had nothing to spare, or the state was replaced first).',
    labels: { result: ['ahead', 'failed', 'skipped'] },
  });
}
