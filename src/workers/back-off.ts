/** How far apart the starts of one place are: far enough that who crashes at once does not take the machine along. */

const firstMs = 100;
const longestMs = 10_000;
/** Who lived this long has not crashed for what it was started with. */
const settledMs = 30_000;

export class BackOff {
  #apartMs = firstMs;

  /** The wait before the next start, after a process that lived for `livedMs`: 0 where that was long enough. */
  next(livedMs: number): number {
    if (livedMs >= settledMs) this.#apartMs = firstMs;
    const waitMs = Math.max(0, this.#apartMs - livedMs);
    this.#apartMs = Math.min(longestMs, this.#apartMs * 2);
    return Math.round(waitMs);
  }
}
