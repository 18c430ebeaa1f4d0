/**
 * Whether a node leaves reads unanswered while it tells its ledger as ever: a stuck disk, a full pool of threads.
 *
 * A client can choose a read that takes any node too long, so a time-out alone proves nothing. But when another node
 * answers the very read that this one did not, and this one answered no other read meanwhile, it is this node's doing.
 * Twice in a row, and it is passed over for a while; then one read at a time tries whether it answers again.
 */

const hungUntilPaused = 2;
const firstPauseMs = 1_000;
const longestPauseMs = 30_000;

/** All times in ms of one clock. */
export class HungReads {
  #hung = 0;
  #answeredAtMs = -Infinity;
  /** 0 while the node answers. */
  #pauseMs = 0;
  #pausedAtMs = -Infinity;
  #pausedUntilMs = -Infinity;

  /** Whether the node is to be passed over for any other. */
  isPaused(nowMs: number): boolean {
    return nowMs < this.#pausedUntilMs;
  }

  /** A read is sent. The first one after a pause is a trial: while it may be under way, others stay away. */
  sent(nowMs: number, boundMs: number): void {
    if (this.#pauseMs > 0 && !this.isPaused(nowMs)) this.#pausedUntilMs = nowMs + boundMs + this.#pauseMs;
  }

  /** A read was answered. Returns whether that ends a pause. */
  answered(nowMs: number): boolean {
    const wasPaused = this.#pauseMs > 0;
    this.#hung = 0;
    this.#answeredAtMs = nowMs;
    this.#pauseMs = 0;
    this.#pausedUntilMs = -Infinity;
    return wasPaused;
  }

  /** Another node answered the read that this one was sent at `sentAtMs` and did not. Returns the pause that begins. */
  hung(sentAtMs: number, nowMs: number): number | undefined {
    // Reads of one moment hang together: what was sent before the pause says nothing new.
    if (sentAtMs <= this.#answeredAtMs || sentAtMs < this.#pausedAtMs) return undefined;
    this.#hung += 1;
    if (this.#hung < hungUntilPaused) return undefined;
    this.#pauseMs = Math.min(Math.max(firstPauseMs, this.#pauseMs * 2), longestPauseMs);
    this.#pausedAtMs = nowMs;
    this.#pausedUntilMs = nowMs + this.#pauseMs;
    return this.#pauseMs;
  }
}
