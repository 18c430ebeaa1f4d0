/** The pulse of streams: the state that reads of "latest" share, looked for ten times a second while somebody listens. */
import type { Fleet, PublishedState } from '../../../upstream/index.ts';

/** A source of streams, while it has one. */
export interface PulseListener {
  /** Called at each beat, with a state of the fleet's present generation. */
  onBeat(state: PublishedState): void;
  /** Called where a beat has no state. */
  onMiss?(error: unknown): void;
}

const beatMs = 100;
/** The largest age of a beat's state: under a looser bound of reads, streams are no later than this. */
const mostAgeMs = 200;

/** The pulse of one process. A beat looks at the fleet only where no shared state is young enough. */
export class Pulse {
  readonly #fleet: Pick<Fleet, 'generation' | 'latest'>;
  readonly #settings: { readonly maxStalenessMs: number };
  readonly #closing = new AbortController();
  readonly #listeners = new Set<PulseListener>();
  #timer: NodeJS.Timeout | undefined;
  #isBeating = false;

  /** `settings`: the live default bound of reads; 0, which shares no state, stands for `mostAgeMs`. */
  constructor(fleet: Pick<Fleet, 'generation' | 'latest'>, settings: { readonly maxStalenessMs: number }) {
    this.#fleet = fleet;
    this.#settings = settings;
  }

  /** See `Fleet.generation`: what streams have sent of an earlier one is void. */
  get generation(): number {
    return this.#fleet.generation;
  }

  /** Calls the listener from now on. Returns whether it is a new one. */
  join(listener: PulseListener): boolean {
    if (this.#listeners.has(listener)) return false;
    this.#listeners.add(listener);
    if (this.#timer === undefined && !this.#closing.signal.aborted) {
      this.#timer = setInterval(() => void this.#beat(), beatMs).unref();
      void this.#beat();
    }
    return true;
  }

  /** Calls it no more. */
  leave(listener: PulseListener): void {
    this.#listeners.delete(listener);
    if (this.#listeners.size === 0) this.#stop();
  }

  close(): void {
    this.#closing.abort(new Error('closing'));
    this.#stop();
  }

  #stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #beat(): Promise<void> {
    if (this.#isBeating) return;
    this.#isBeating = true;
    const { generation, latest } = this.#fleet;
    const demand = { maxStalenessMs: Math.min(this.#settings.maxStalenessMs || mostAgeMs, mostAgeMs), min: undefined };
    let call: (listener: PulseListener) => void;
    try {
      const state = await latest.reach(demand, this.#closing.signal);
      call = (listener) => listener.onBeat(state);
    } catch (error) {
      call = (listener) => listener.onMiss?.(error);
    }
    this.#isBeating = false;
    // A state that was found while the ledger was replaced may be of either.
    if (this.#timer === undefined || generation !== this.#fleet.generation) return;
    for (const listener of this.#listeners) call(listener);
  }
}
