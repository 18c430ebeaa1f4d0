/** Lets concurrent loads of one key share a single upstream read. */

/** `isLeader`: this caller's load was started for it; the others followed. */
export interface Flight<T> {
  readonly value: T;
  readonly isLeader: boolean;
}

interface Shared<T> {
  readonly promise: Promise<T>;
  readonly abort: AbortController;
  waiting: number;
}

export class Coalescer<T> {
  readonly #inFlight = new Map<string, Shared<T>>();

  /**
   * Runs `load` for the first caller of `key` and lets later callers wait for the same outcome. A caller whose
   * `signal` aborts stops waiting; the load itself is aborted only when nobody waits any more, so a leader that
   * hangs up does not fail its followers.
   */
  async run(key: string, signal: AbortSignal, load: (signal: AbortSignal) => Promise<T>): Promise<Flight<T>> {
    const running = this.#inFlight.get(key);
    const shared = running ?? this.#start(key, load);
    shared.waiting += 1;
    try {
      return { value: await abortable(shared.promise, signal), isLeader: running === undefined };
    } finally {
      shared.waiting -= 1;
      if (shared.waiting === 0) {
        // A later caller must not join a load that is about to be aborted.
        if (this.#inFlight.get(key) === shared) this.#inFlight.delete(key);
        shared.abort.abort(new Error('nobody waits for this read any more'));
      }
    }
  }

  #start(key: string, load: (signal: AbortSignal) => Promise<T>): Shared<T> {
    const abort = new AbortController();
    const promise = load(abort.signal).finally(() => {
      if (this.#inFlight.get(key) === shared) this.#inFlight.delete(key);
    });
    // When every caller has left, nobody is there to hear of the failure.
    promise.catch(() => undefined);
    const shared: Shared<T> = { promise, abort, waiting: 0 };
    this.#inFlight.set(key, shared);
    return shared;
  }
}

/** The promise's outcome, or a rejection as soon as `signal` aborts. */
function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => {
      reject(signal.reason instanceof Error ? signal.reason : new Error('aborted', { cause: signal.reason }));
    };
    if (signal.aborted) {
      onAbort();
      return;
    }
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
