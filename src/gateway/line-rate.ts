/** Bounds how many lines of one kind are written, however often there is a reason for one. */

export interface Rate {
  readonly perSecond: number;
  /** At once, after a time without any. */
  readonly most: number;
}

export class LineRate {
  readonly #rate: Rate;
  readonly #now: () => number;
  #left: number;
  #atMs: number;

  /** `now`: monotonic, in milliseconds. */
  constructor(rate: Rate, now: () => number) {
    this.#rate = rate;
    this.#now = now;
    this.#left = rate.most;
    this.#atMs = now();
  }

  /** Whether one more may be written now; it counts as written then. */
  take(): boolean {
    const nowMs = this.#now();
    const { perSecond, most } = this.#rate;
    this.#left = Math.min(most, this.#left + ((nowMs - this.#atMs) / 1000) * perSecond);
    this.#atMs = nowMs;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}
