/** Deadlines of attempts and streams, and waits for places and versions. */
import { type CancelSignal, CancelToken, setPatientTimeout } from '../ledger/index.ts';

/** Its name is that of the platform's own time-outs. */
class TimeoutError extends Error {
  override readonly name = 'TimeoutError';

  constructor(ms: number) {
    super(`no answer within ${Math.round(ms)} ms`);
  }
}

/** Aborts with `parent`, by itself after `ms`, or when it is given up. `end` must be called. */
export class Deadline extends CancelToken {
  readonly #parent: CancelSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #follow = (): void => this.abort(this.#parent.reason);
  isOver = false;
  readonly #ms: number;
  readonly #group: Set<Deadline> | undefined;
  #isReleased = false;
  #isGivenUp = false;

  /** `group`: has this deadline until it is released. */
  constructor(parent: CancelSignal, ms: number, group?: Set<Deadline>) {
    super();
    this.#parent = parent;
    this.#ms = ms;
    this.#group = group;
    group?.add(this);
    this.#timer = setPatientTimeout(() => this.expire(), ms);
    if (parent.aborted) this.#follow();
    else parent.addEventListener('abort', this.#follow);
  }

  /** The outcome is of no use any more: the wait was given up, or its parent aborted. */
  get isAbandoned(): boolean {
    return this.#isGivenUp || this.#parent.aborted;
  }

  giveUp(reason: Error): void {
    this.#isGivenUp = true;
    this.abort(reason);
  }

  /** Stops the clock; the parent is still followed, so that a streamed body ends with its client. */
  release(): void {
    this.#isReleased = true;
    this.#group?.delete(this);
    clearTimeout(this.#timer);
  }

  /** Ends everything: a parent that outlives many requests must not gather their listeners. */
  end(): void {
    this.release();
    this.#parent.removeEventListener('abort', this.#follow);
  }

  /** Ends the wait as the end of its time does. */
  expire(): void {
    // Clearing the timer does not stop an action that is due (`setPatientTimeout`).
    if (this.#isReleased) return;
    this.isOver = true;
    this.abort(new TimeoutError(this.#ms));
  }
}

/**
 * Waits for `ms` at most, and until an abort; either resolves it to `late`. `begin` gets the function that ends the wait,
 * and returns the one that forgets it.
 */
export function waitWithin<T>(
  { ms, signal, late }: { readonly ms: number; readonly signal: CancelSignal; readonly late: T },
  begin: (end: (outcome: T) => void) => () => unknown,
): Promise<T> {
  if (signal.aborted) return Promise.resolve(late);
  return new Promise((resolve) => {
    const quit = (): void => end(late);
    const end = (outcome: T): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', quit);
      forget();
      resolve(outcome);
    };
    const timer = setTimeout(quit, ms);
    signal.addEventListener('abort', quit, { once: true });
    const forget = begin(end);
  });
}
