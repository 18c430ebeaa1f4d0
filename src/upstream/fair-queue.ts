/**
 * Requests that wait for a place at a node. Clients take turns, so one that asks for everything at once waits for
 * itself; and there are never more waiting than can be served soon: the others are told so at once.
 */
import type { StopSignal } from '../ledger/stop.ts';

/** `full`: too many wait already. `late`: nothing became free in time. */
export type Refusal = 'full' | 'late';
export type Waited<R> = { readonly place: R } | { readonly refused: Refusal };

interface Waiter<R> {
  readonly client: string;
  readonly accepts: (place: R) => boolean;
  end(outcome: Waited<R>): void;
}

export interface FairQueueOptions {
  /** As many may wait as places become free within this time, in ms. */
  readonly usualWaitMs: number;
  /** As many may always wait. */
  readonly fewest: number;
  /** More never may. */
  readonly most: number;
}

/** The pace at which places become free is taken over this span. */
const spanMs = 1_000;

export class FairQueue<R> {
  readonly #options: FairQueueOptions;
  /** In the order in which clients have their turn; each one's requests in the order they came. */
  readonly #clients = new Map<string, Set<Waiter<R>>>();
  #waiting = 0;
  #beganAtMs = 0;
  #freed = 0;
  #freedBefore = 0;

  constructor(options: FairQueueOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** How many may wait now. */
  bound(nowMs: number): number {
    this.#turn(nowMs);
    const { usualWaitMs, fewest, most } = this.#options;
    const perMs = Math.max(this.#freedBefore, this.#freed) / spanMs;
    return Math.min(most, Math.max(fewest, Math.floor(perMs * usualWaitMs)));
  }

  /** Waits for a place that `accepts`, at most `withinMs`, until `signal` aborts (then it is `late`). */
  wait(
    client: string,
    accepts: (place: R) => boolean,
    { signal, withinMs, nowMs }: { readonly signal: StopSignal; readonly withinMs: number; readonly nowMs: number },
  ): Promise<Waited<R>> {
    if (signal.aborted) return Promise.resolve({ refused: 'late' });
    if (this.#waiting >= this.bound(nowMs) && !this.#makeRoom(client)) return Promise.resolve({ refused: 'full' });
    return new Promise((resolve) => {
      const quit = (): void => waiter.end({ refused: 'late' });
      const timer = setTimeout(quit, withinMs);
      signal.addEventListener('abort', quit, { once: true });
      const waiter: Waiter<R> = {
        client,
        accepts,
        end: (outcome) => {
          clearTimeout(timer);
          signal.removeEventListener('abort', quit);
          this.#remove(waiter);
          resolve(outcome);
        },
      };
      this.#add(waiter);
    });
  }

  /** Gives a place to whoever's turn it is among those that accept it. Returns whether somebody took it. */
  offer(place: R): boolean {
    for (const [client, waiters] of this.#clients) {
      for (const waiter of waiters) {
        if (!waiter.accepts(place)) continue;
        waiter.end({ place });
        this.#moveBack(client);
        return true;
      }
    }
    return false;
  }

  /** A place has become free, whoever gets it. */
  noteFreed(nowMs: number): void {
    this.#turn(nowMs);
    this.#freed += 1;
  }

  /** The newest request of the client with most of them gives way to one of a client that has clearly fewer. */
  #makeRoom(client: string): boolean {
    let longest: Set<Waiter<R>> | undefined;
    for (const waiters of this.#clients.values()) if (waiters.size > (longest?.size ?? 0)) longest = waiters;
    if (longest === undefined || longest.size <= (this.#clients.get(client)?.size ?? 0) + 1) return false;
    let newest: Waiter<R> | undefined;
    for (const waiter of longest) newest = waiter;
    newest?.end({ refused: 'full' });
    return true;
  }

  #add(waiter: Waiter<R>): void {
    const waiters = this.#clients.get(waiter.client);
    if (waiters === undefined) this.#clients.set(waiter.client, new Set([waiter]));
    else waiters.add(waiter);
    this.#waiting += 1;
  }

  #remove(waiter: Waiter<R>): void {
    const waiters = this.#clients.get(waiter.client);
    if (waiters?.delete(waiter) !== true) return;
    this.#waiting -= 1;
    if (waiters.size === 0) this.#clients.delete(waiter.client);
  }

  #moveBack(client: string): void {
    const waiters = this.#clients.get(client);
    if (waiters === undefined) return;
    this.#clients.delete(client);
    this.#clients.set(client, waiters);
  }

  #turn(nowMs: number): void {
    const sinceMs = nowMs - this.#beganAtMs;
    if (sinceMs < spanMs) return;
    this.#freedBefore = sinceMs < 2 * spanMs ? this.#freed : 0;
    this.#freed = 0;
    this.#beganAtMs = nowMs;
  }
}
