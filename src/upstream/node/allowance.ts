/**
 * Allowance of requests to a metered node: a token bucket with a burst of one second. Every request that is sent takes a
 * token. Looks and probes are sent without one as well: they leave a debt, so that the sum stays within the allowance.
 */

/** The next line of the log about a used-up allowance is due after so long without a refused request. */
const quietMs = 60_000;

/** The allowance of one node. All times in ms of one monotonic clock. */
export class Allowance {
  /** `undefined`: unlimited. */
  #perSecond: number | undefined;
  /** Negative: a debt of at most one burst. */
  #tokens: number;
  #atMs: number | undefined;
  #refusedAtMs = -Infinity;

  /** `perSecond`: requests a second, above 0; `undefined`: unlimited. */
  constructor(perSecond: number | undefined) {
    this.#perSecond = perSecond;
    this.#tokens = this.#burst;
  }

  /** Changes the rate; saved tokens stay, up to the new burst. */
  change(perSecond: number | undefined, nowMs: number): void {
    const wasLimited = this.#perSecond !== undefined;
    this.#refill(nowMs);
    this.#perSecond = perSecond;
    this.#tokens = wasLimited ? Math.min(this.#tokens, this.#burst) : this.#burst;
  }

  /** Tokens left; `undefined`: unlimited. */
  tokens(nowMs: number): number | undefined {
    this.#refill(nowMs);
    return this.#perSecond === undefined ? undefined : this.#tokens;
  }

  /** Whether no token is left. */
  isSpent(nowMs: number): boolean {
    return this.freeInMs(nowMs) > 0;
  }

  /** Whether half of the burst is left after one more request. */
  hasToSpare(nowMs: number): boolean {
    this.#refill(nowMs);
    return this.#perSecond === undefined || this.#tokens - 1 >= this.#burst / 2;
  }

  /** Ms until a token is left; 0: one is. */
  freeInMs(nowMs: number): number {
    if (this.#perSecond === undefined) return 0;
    this.#refill(nowMs);
    return Math.max(0, ((1 - this.#tokens) / this.#perSecond) * 1000);
  }

  /** Takes a token; false when none is left. */
  take(nowMs: number): boolean {
    if (this.isSpent(nowMs)) return false;
    this.#tokens -= 1;
    return true;
  }

  /** Takes a token for a request that is sent in any case. */
  spend(nowMs: number): void {
    this.#refill(nowMs);
    this.#tokens = Math.max(-this.#burst, this.#tokens - 1);
  }

  /** Returns the token of a request that was not sent. */
  giveBack(): void {
    this.#tokens = Math.min(this.#burst, this.#tokens + 1);
  }

  /** Records a request that found no token. Returns whether none has for a minute. */
  refuse(nowMs: number): boolean {
    const isFirst = nowMs - this.#refusedAtMs > quietMs;
    this.#refusedAtMs = nowMs;
    return isFirst;
  }

  /** A rate below 1 a second saves one token as well: otherwise no request would be sent. */
  get #burst(): number {
    return Math.max(1, this.#perSecond ?? 1);
  }

  #refill(nowMs: number): void {
    const sinceMs = nowMs - (this.#atMs ?? nowMs);
    this.#atMs = nowMs;
    this.#tokens = Math.min(this.#burst, this.#tokens + (sinceMs / 1000) * (this.#perSecond ?? 0));
  }
}
