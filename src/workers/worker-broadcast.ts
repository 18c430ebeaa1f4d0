import { DistrustedFunctions } from '../encode/distrusted.ts';
import { isLedgerEvent, NewestState } from './newest-state.ts';
import type { Published, Setup } from './protocol.ts';
import type { WorkerProcess } from './worker-process.ts';

/** Longest wait for a worker to record a submission. */
const recordedMs = 200;

/** A worker that the broadcast addresses. */
export type Peer = Pick<WorkerProcess, 'id' | 'channel' | 'isServing'>;

/** The primary's end of the events between workers: forwards each to the peers, older state excepted. */
export class WorkerBroadcast {
  readonly #workers: () => readonly Peer[];
  readonly #newest = new NewestState();
  /** Functions that only nodes encode, also for workers that start later. */
  readonly #distrusted = new DistrustedFunctions();
  /** Replacements of the ledger since the start. */
  #ledger = 0;

  constructor(workers: () => readonly Peer[]) {
    this.#workers = workers;
  }

  /** The published state that a new worker starts with. */
  get setup(): Pick<Setup, 'ledger' | 'published' | 'distrusted'> {
    const ledger = this.#ledger;
    const published = this.#newest.events.map((event) => ({ ledger, event }));
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
    if (event.kind === 'ledger replaced') {
      // Several workers detect one replacement: the first event wins.
      if (ledger <= this.#ledger) return false;
      this.#ledger = ledger;
      this.#newest.clear();
    }
    return !isLedgerEvent(event) || (ledger === this.#ledger && this.#newest.record(event));
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
