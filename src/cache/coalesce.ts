/** Lets concurrent loads of one key share a single upstream read. */
import type { Span } from '../trace/span.ts';
import { Stop, type StopSignal } from '../ledger/stop.ts';

/** `isLeader`: this caller's load was started for it; the others followed. */
export interface Flight<T> {
  readonly value: T;
  readonly isLeader: boolean;
}

interface Shared<T> {
  readonly promise: Promise<T>;
  readonly abort: Stop;
  /** What is done for all of them, in the leader's trace. */
  readonly span: Span | undefined;
  waiting: number;
  /** There is an outcome: nothing is left to be aborted. */
  isOver: boolean;
}

/** `span`: what it does is part of. */
type Load<T> = (signal: StopSignal, span: Span | undefined) => Promise<T>;

const role = 'ledgergate.flight.role';

export class Coalescer<T> {
  readonly #inFlight = new Map<string, Shared<T>>();

  /**
   * Runs `load` for the first caller of `key` and lets later callers wait for the same outcome. A caller whose
   * `signal` aborts stops waiting; the load itself is aborted only when nobody waits any more, so a leader that
   * hangs up does not fail its followers. `span`: the caller's; the load is part of the leader's, and a follower's wait
   * is linked to it.
   */
  async run(key: string, signal: StopSignal, load: Load<T>, span?: Span): Promise<Flight<T>> {
    const running = this.#inFlight.get(key);
    const wait = running && span?.begin('flight', { link: running.span, attributes: { [role]: 'follower' } });
    const shared = running ?? this.#start(key, load, span);
    shared.waiting += 1;
    try {
      return { value: await abortable(shared.promise, signal), isLeader: running === undefined };
    } finally {
      wait?.end();
      shared.waiting -= 1;
      // Mostly there is an outcome by now: an error and an event for nobody would be a tenth of what a miss costs.
      if (shared.waiting === 0 && !shared.isOver) {
        // A later caller must not join a load that is about to be aborted.
        this.#remove(key, shared);
        shared.abort.abort(new Error('nobody waits for this read any more'));
      }
    }
  }

  #start(key: string, load: Load<T>, leader: Span | undefined): Shared<T> {
    const abort = new Stop();
    const span = leader?.begin('flight', { attributes: { [role]: 'leader' } });
    const shared: Shared<T> = { promise: load(abort.signal, span), abort, span, waiting: 0, isOver: false };
    this.#inFlight.set(key, shared);
    const end = (fault?: string): void => {
      shared.isOver = true;
      this.#remove(key, shared);
      if (fault !== undefined) span?.fail(fault);
      span?.end();
    };
    // Before those who wait hear of it. When every caller has left, nobody else is there to hear of the failure.
    shared.promise.then(
      () => end(),
      () => end(abort.signal.aborted ? 'abandoned' : 'failed'),
    );
    return shared;
  }

  #remove(key: string, shared: Shared<T>): void {
    if (this.#inFlight.get(key) === shared) this.#inFlight.delete(key);
  }
}

/** The promise's outcome, or a rejection as soon as `signal` aborts. */
function abortable<T>(promise: Promise<T>, signal: StopSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => {
      reject(signal.reason instanceof Error ? signal.reason : new Error('aborted', { cause: signal.reason }));
    };
    if (signal.aborted) {
      onAbort();
      return;
    }
    const leave = (): void => signal.removeEventListener('abort', onAbort);
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(
      (value) => {
        leave();
        resolve(value);
      },
      (error: Error) => {
        leave();
        reject(error);
      },
    );
  });
}
