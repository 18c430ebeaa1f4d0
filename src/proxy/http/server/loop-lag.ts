/**
 * How late the event loop runs. One stall (garbage collection, a large body) is over when it is noticed, and refusing
 * anybody for it would help nobody; a loop that is late at every turn for half a second has more work than it gets done.
 */
export interface LoopLagOptions {
  /** Monotonic, in milliseconds. */
  readonly now?: () => number;
}

const everyMs = 50;
/** Later than this is late: waiting for a turn costs more than most answers then. */
const lateMs = 100;
/** All looks of so long a time have to be late, and so many of them: one stall of a second is one look. */
const windowMs = 500;
const fewestSamples = 4;

export class LoopLag {
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  #lastMs: number;
  /** The first look of those that were late without a break. */
  #lateSinceMs: number | undefined;
  #lateSamples = 0;
  /** How late the newest look was, in milliseconds. */
  lagMs = 0;

  constructor({ now = () => performance.now() }: LoopLagOptions = {}) {
    this.#now = now;
    this.#lastMs = now();
  }

  /** Whether there is more work than gets done. */
  get isOverloaded(): boolean {
    if (this.#lateSinceMs === undefined || this.#lateSamples < fewestSamples) return false;
    return this.#lastMs - this.#lateSinceMs >= windowMs;
  }

  start(): void {
    this.#lastMs = this.#now();
    this.#timer = setInterval(() => this.sample(), everyMs);
    this.#timer.unref();
  }

  /** Called by the timer, every 50 ms if the loop is in time. */
  sample(): void {
    const nowMs = this.#now();
    this.lagMs = Math.max(0, nowMs - this.#lastMs - everyMs);
    if (this.lagMs < lateMs) {
      this.#lateSinceMs = undefined;
      this.#lateSamples = 0;
    } else {
      this.#lateSinceMs ??= this.#lastMs;
      this.#lateSamples += 1;
    }
    this.#lastMs = nowMs;
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
