/** How long a crashed worker stays away: long enough that one that crashes at once does not take the machine along. */

const firstMs = 100;
const longestMs = 10_000;
/** Who lived this long has not crashed for what it was started with. */
const settledMs = 30_000;

export class BackOff {
  #nextMs = firstMs;

  /** The wait before the next start, for a worker that lived for `livedMs`. */
  next(livedMs: number): number {
    if (livedMs >= settledMs) this.#nextMs = firstMs;
    const waitMs = this.#nextMs;
    this.#nextMs = Math.min(longestMs, waitMs * 2);
    return waitMs;
  }
}
