/** Fixed bounds on requests to nodes: a budget of extra requests, and a count of what is held at once. */

/** Options of a `RetryBudget`. */
export interface RetryBudgetOptions {
  /** Deposit of one ordinary request, in parts of one extra request. */
  readonly share: number;
  /** Deposit of time, so that a quiet gateway may retry too. Default 0. */
  readonly perSecond?: number;
  /** Largest balance, which is also the first: the largest burst. */
  readonly most: number;
}

/**
 * Bounds retries, or hedges, to a share of the ordinary requests: when every node fails at once, nodes get the share on
 * top and not a multiple.
 */
export class RetryBudget {
  readonly #options: Required<RetryBudgetOptions>;
  #balance: number;
  #atMs: number | undefined;

  constructor({ share, perSecond = 0, most }: RetryBudgetOptions) {
    this.#options = { share, perSecond, most };
    this.#balance = most;
  }

  /** Records an ordinary request. `share`: where the share changes at run time. */
  deposit(share = this.#options.share): void {
    this.#balance = Math.min(this.#options.most, this.#balance + share);
  }

  /** Takes one extra request out of the balance; false where it has none. `nowMs`: of a monotonic clock. */
  withdraw(nowMs: number): boolean {
    const { perSecond, most } = this.#options;
    this.#balance = Math.min(most, this.#balance + ((nowMs - (this.#atMs ?? nowMs)) / 1000) * perSecond);
    this.#atMs = nowMs;
    if (this.#balance < 1) return false;
    this.#balance -= 1;
    return true;
  }
}

/** Counts holders of a limited resource. Nothing waits here: waits are in `PlaceQueue`. */
export class Semaphore {
  readonly #limit: number;
  #taken = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get taken(): number {
    return this.#taken;
  }

  get isFull(): boolean {
    return this.#taken >= this.#limit;
  }

  /** Returns whether a unit was free; then `release` must follow. */
  tryAcquire(): boolean {
    if (this.isFull) return false;
    this.#taken += 1;
    return true;
  }

  /** Takes a unit even where none is free. */
  acquireUnbounded(): void {
    this.#taken += 1;
  }

  /** Gives one unit back. */
  release(): void {
    this.#taken -= 1;
  }
}
