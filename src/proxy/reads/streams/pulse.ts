/** The pulse of streams: the state that reads of "latest" share, looked for ten times a second while one is open. */
import type { Fleet, PublishedState } from '../../../upstream/index.ts';

/** A source of streams, while it has one. */
export interface PulseListener {
  /** Called at each beat, with a state of the fleet's present generation. */
  onBeat(state: PublishedState): void;
  /** Called where a beat has no state. */
  onMiss?(error: unknown): void;
}

/** The pulse of one process. A beat looks at the fleet only where no shared state is young enough. */
export type Pulse = ReturnType<typeof createPulse>;

/** From beat to beat, in ms. */
export const beatMs = 100;
/** The largest age of a beat's state: under a looser bound of reads, streams are no later than this. */
const mostAgeMs = 200;

/** `settings`: the live default bound of reads; 0, which shares no state, stands for `mostAgeMs`. */
export function createPulse(
  fleet: Pick<Fleet, 'generation' | 'latest'>,
  settings: { readonly maxStalenessMs: number },
) {
  const closing = new AbortController();
  const listeners = new Set<PulseListener>();
  let timer: NodeJS.Timeout | undefined;
  let isBeating = false;
  const stop = (): void => {
    clearInterval(timer);
    timer = undefined;
  };
  const beat = async (): Promise<void> => {
    if (isBeating) return;
    isBeating = true;
    const { generation, latest } = fleet;
    const demand = { maxStalenessMs: Math.min(settings.maxStalenessMs || mostAgeMs, mostAgeMs), min: undefined };
    const call = await latest.reach(demand, closing.signal).then(
      (state) => (listener: PulseListener) => listener.onBeat(state),
      (error: unknown) => (listener: PulseListener) => listener.onMiss?.(error),
    );
    isBeating = false;
    // A state that was found while the ledger was replaced may be of either.
    if (timer === undefined || generation !== fleet.generation) return;
    for (const listener of listeners) call(listener);
  };
  return {
    /** See `Fleet.generation`: what streams have sent of an earlier one is void. */
    get generation(): number {
      return fleet.generation;
    },
    /** Calls the listener from now on. Returns whether it is a new one. */
    join(listener: PulseListener): boolean {
      if (listeners.has(listener)) return false;
      listeners.add(listener);
      if (timer === undefined && !closing.signal.aborted) {
        timer = setInterval(() => void beat(), beatMs).unref();
        void beat();
      }
      return true;
    },
    /** Calls it no more. */
    leave(listener: PulseListener): void {
      listeners.delete(listener);
      if (listeners.size === 0) stop();
    },
    close(): void {
      closing.abort(new Error('closing'));
      stop();
    },
  };
}
