/**
 * Measures how late the event loop runs. A single stall (garbage collection, a large body) is over when it shows, so
 * shedding load would be pointless; a loop late at every turn for half a second is overloaded.
 */

const everyMs = 50;
/** From this lag on, the wait for a turn costs more than most answers. */
const lateMs = 100;
/**
 * Overload takes late samples for this long without a break, and this many of them: a stall of a second is one sample.
 */
const windowMs = 500;
const fewestSamples = 4;

/** Samples the lag of the event loop. */
export class LoopLag {
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  #lastMs: number;
  /** Time of the first sample in an unbroken run of late ones. */
  #lateSinceMs: number | undefined;
  #lateSamples = 0;
  /** Lag of the newest sample, in milliseconds. */
  lagMs = 0;

  /** `now`: monotonic, in milliseconds. */
  constructor(now = () => performance.now()) {
    this.#now = now;
    this.#lastMs = now();
  }

  /** Whether the loop has been late for `windowMs` without a break. */
  get isOverloaded(): boolean {
    if (this.#lateSinceMs === undefined || this.#lateSamples < fewestSamples) return false;
    return this.#lastMs - this.#lateSinceMs >= windowMs;
  }

  start(): void {
    this.#lastMs = this.#now();
    this.#timer = setInterval(() => this.sample(), everyMs).unref();
  }

  /** Called by the timer, every 50 ms on a loop in time. */
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
