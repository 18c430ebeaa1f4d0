import { type CancelSignal, CancelToken } from '../ledger/index.ts';
import type { Span } from '../metrics/index.ts';

/** The outcome of a load for one caller. `isLeader`: exactly one caller is; the others followed. */
export interface Flight<T> {
  readonly value: T;
  readonly isLeader: boolean;
}

type Load<T> = (signal: CancelSignal, span: Span | undefined) => Promise<T>;

const role = 'ledgergate.flight.role';

/** Single flight: concurrent loads of one key share one upstream read. */
export class Coalescer<T> {
  readonly #inFlight = new Map<string, Shared<T>>();

  /**
   * Runs `load` for the first caller of `key`; later callers wait for the same outcome. A caller whose `signal` aborts
   * stops waiting. The load aborts when its last caller leaves: a leader that hangs up does not fail its followers, the
   * oldest of which becomes the leader. `span`: the caller's; the load's span is a child of the first leader's, and a
   * follower's wait links to it.
   */
  run(key: string, signal: CancelSignal, load: Load<T>, span?: Span): Promise<Flight<T>> {
    const running = this.#inFlight.get(key);
    if (running !== undefined) {
      const wait = span?.begin('flight', { link: running.span, attributes: { [role]: 'follower' } });
      return running.join(signal, wait);
    }
    // Later callers must not join a load that has ended or aborts.
    const onEnd = (ended: Shared<T>): void => {
      if (this.#inFlight.get(key) === ended) this.#inFlight.delete(key);
    };
    const part = span?.begin('flight', { attributes: { [role]: 'leader' } });
    const shared = new Shared<T>(part, onEnd);
    this.#inFlight.set(key, shared);
    shared.start(load);
    return shared.join(signal);
  }
}

interface Waiter<T> {
  resolve(flight: Flight<T>): void;
  reject(error: unknown): void;
}

/** A load and its waiting callers. */
class Shared<T> {
  /** The load's span, in the trace of the first leader. */
  readonly span: Span | undefined;
  readonly #stop = new CancelToken();
  /** In order of arrival: the first one leads. */
  readonly #waiters = new Set<Waiter<T>>();
  readonly #onEnd: (shared: Shared<T>) => void;

  constructor(span: Span | undefined, onEnd: (shared: Shared<T>) => void) {
    this.span = span;
    this.#onEnd = onEnd;
  }

  start(load: Load<T>): void {
    // The promise also catches a synchronous throw of `load`.
    new Promise<T>((resolve) => resolve(load(this.#stop, this.span))).then(
      (value) => this.#end(undefined, (waiter, isLeader) => waiter.resolve({ value, isLeader })),
      (error: unknown) => this.#end(this.#stop.aborted ? 'abandoned' : 'failed', (waiter) => waiter.reject(error)),
    );
  }

  /** `wait`: the span of a follower's wait. */
  join(signal: CancelSignal, wait?: Span): Promise<Flight<T>> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        wait?.end();
        signal.removeEventListener('abort', onAbort);
        this.#waiters.delete(waiter);
      };
      const onAbort = (): void => {
        leave();
        reject(CancelToken.reasonOf(signal));
        if (this.#waiters.size === 0) this.#abandon();
      };
      const waiter: Waiter<T> = {
        resolve(flight) {
          leave();
          resolve(flight);
        },
        reject(error) {
          leave();
          reject(error);
        },
      };
      this.#waiters.add(waiter);
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  #end(fault: string | undefined, tell: (waiter: Waiter<T>, isLeader: boolean) => void): void {
    this.#onEnd(this);
    if (fault !== undefined) this.span?.fail(fault);
    this.span?.end();
    const [leader] = this.#waiters;
    for (const waiter of this.#waiters) tell(waiter, waiter === leader);
  }

  #abandon(): void {
    this.#onEnd(this);
    this.#stop.abort(new Error('the last caller of this read has left'));
  }
}
