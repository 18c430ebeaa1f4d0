/**
 * Allowances: token buckets that bound retries, hedges, log lines, and requests to a metered node. Every request takes a
 * token. Looks and probes are sent without one as well: they leave a debt, so that the sum stays within the allowance.
 */

/** The next line of the log about a used-up allowance is due after so long without a refused request. */
const quietMs = 60_000;

/** An allowance of requests. All times in ms of one monotonic clock. */
export class Allowance {
  #perSecond: number;
  #most: number;
  /** Negative: a debt of at most one burst. */
  #tokens: number;
  #atMs: number | undefined;
  #refusedAtMs = -Infinity;

  /**
   * `perSecond`: tokens that time adds; 0: `deposit` alone adds them; `undefined`: unlimited. `most`: first and largest
   * number of tokens, the burst.
   */
  constructor(perSecond: number | undefined, most = burstOf(perSecond)) {
    this.#perSecond = perSecond ?? 0;
    this.#most = most;
    this.#tokens = most;
  }

  /** Changes the rate; saved tokens stay, up to the new burst. */
  change(perSecond: number | undefined, nowMs: number): void {
    const saved = this.tokens(nowMs);
    this.#perSecond = perSecond ?? 0;
    this.#most = burstOf(perSecond);
    this.#tokens = saved === undefined || perSecond === undefined ? this.#most : Math.min(saved, this.#most);
  }

  /** Tokens left; `undefined`: unlimited. */
  tokens(nowMs: number): number | undefined {
    this.#refill(nowMs);
    return this.#most === Infinity ? undefined : this.#tokens;
  }

  isSpent(nowMs: number): boolean {
    return this.freeInMs(nowMs) > 0;
  }

  /** Whether half of the burst is left after one more request. */
  hasToSpare(nowMs: number): boolean {
    this.#refill(nowMs);
    return this.#tokens - 1 >= this.#most / 2;
  }

  /** Ms until a token is left; 0: one is. */
  freeInMs(nowMs: number): number {
    this.#refill(nowMs);
    return this.#tokens >= 1 ? 0 : ((1 - this.#tokens) / this.#perSecond) * 1000;
  }

  /** Takes a token; false when none is left. */
  withdraw(nowMs: number): boolean {
    if (this.isSpent(nowMs)) return false;
    this.#tokens -= 1;
    return true;
  }

  /** Takes a token for a request that is sent in any case. */
  spend(nowMs: number): void {
    this.#refill(nowMs);
    this.#tokens = Math.max(-this.#most, this.#tokens - 1);
  }

  /** Adds tokens: that of a request that was not sent, or the share of an ordinary request in a budget of retries. */
  deposit(tokens: number): void {
    this.#tokens = Math.min(this.#most, this.#tokens + tokens);
  }

  /** Records a request that found no token. Returns whether none has for a minute. */
  refuse(nowMs: number): boolean {
    const isFirst = nowMs - this.#refusedAtMs > quietMs;
    this.#refusedAtMs = nowMs;
    return isFirst;
  }

  #refill(nowMs: number): void {
    const sinceMs = nowMs - (this.#atMs ?? nowMs);
    this.#atMs = nowMs;
    this.deposit((sinceMs / 1000) * this.#perSecond);
  }
}

/** A rate below 1 a second saves one token as well: otherwise no request would be sent. */
function burstOf(perSecond = Infinity): number {
  return Math.max(1, perSecond);
}
