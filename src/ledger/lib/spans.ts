/**
 * Counts of the present span of time and of the one before it: a share, a rate or a maximum of the last one to two spans, in
 * fixed memory. A count stays until the end of the span after its own.
 */
export class Spans {
  readonly #spanMs: number;
  #present: Float64Array;
  #before: Float64Array;
  #beganAtMs = -Infinity;

  constructor(spanMs: number, counters = 1) {
    this.#spanMs = spanMs;
    this.#present = new Float64Array(counters);
    this.#before = new Float64Array(counters);
  }

  /** The counts as of now, in ms of one monotonic clock: the next span begins when the present one is over. */
  at(nowMs: number): this {
    const sinceMs = nowMs - this.#beganAtMs;
    if (sinceMs < this.#spanMs) return this;
    [this.#present, this.#before] = [this.#before, this.#present];
    this.#present.fill(0);
    if (sinceMs >= 2 * this.#spanMs) this.#before.fill(0);
    this.#beganAtMs = nowMs;
    return this;
  }

  add(counter = 0, amount = 1): void {
    this.#present[counter] = (this.#present[counter] ?? 0) + amount;
  }

  /** The count of both spans. */
  sum(counter = 0): number {
    return (this.#present[counter] ?? 0) + (this.#before[counter] ?? 0);
  }

  /** The larger one of the counts of each span. */
  most(counter = 0): number {
    return Math.max(this.#present[counter] ?? 0, this.#before[counter] ?? 0);
  }

  clear(): void {
    this.#present.fill(0);
    this.#before.fill(0);
  }
}
