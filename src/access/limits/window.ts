/**
 * A sliding window, counted in parts: its memory is constant. It is conservative: an amount stays until its whole part
 * is older than the span, so that no span, wherever it begins, exceeds the limit. In return an amount is freed up to
 * one twentieth of the span late.
 */

/** Parts of a span. The Lua script of `limits-script.ts` counts the same way. */
export const partsOfSpan = 20;

/** Length of a part in ms, rounded up: the parts together are never shorter than the span. */
export function partMsOf(spanMs: number): number {
  return Math.ceil(spanMs / partsOfSpan);
}

/** The parts of the span, and the current one. */
const kept = partsOfSpan + 1;

/** Times are milliseconds of one clock. A clock that goes back counts as standing still until it has caught up. */
export class Window {
  readonly #partMs: number;
  readonly #amounts = new Float64Array(kept);
  /** Number of the current part, since the clock's zero. */
  #newest = 0;
  #used = 0;
  /** Every part before this one is empty. */
  #oldest = 0;

  constructor(spanMs: number) {
    this.#partMs = partMsOf(spanMs);
  }

  used(nowMs: number): number {
    this.#moveTo(nowMs);
    return this.#used;
  }

  add(nowMs: number, amount: number): void {
    this.#moveTo(nowMs);
    const slot = this.#newest % kept;
    this.#amounts[slot] = (this.#amounts[slot] ?? 0) + amount;
    this.#used += amount;
  }

  /** The time at which at most `most` is in use, if nothing is added; `nowMs` if it is now. */
  freeAtMs(nowMs: number, most: number): number {
    this.#moveTo(nowMs);
    let used = this.#used;
    if (used <= most) return nowMs;
    for (let part = this.#newest - partsOfSpan; part < this.#newest; part += 1) {
      used -= this.#amounts[slotOf(part)] ?? 0;
      if (used <= most) return (part + kept) * this.#partMs;
    }
    return (this.#newest + kept) * this.#partMs;
  }

  /** The time at which some amount is freed; `undefined` where nothing is in use. */
  nextFreeAtMs(nowMs: number): number | undefined {
    this.#moveTo(nowMs);
    if (this.#used <= 0) return undefined;
    this.#oldest = Math.max(this.#oldest, this.#newest - partsOfSpan);
    while (this.#oldest < this.#newest && (this.#amounts[slotOf(this.#oldest)] ?? 0) <= 0) this.#oldest += 1;
    return (this.#oldest + kept) * this.#partMs;
  }

  #moveTo(nowMs: number): void {
    const part = Math.floor(nowMs / this.#partMs);
    const steps = Math.min(part - this.#newest, kept);
    if (steps <= 0) return;
    for (let step = 1; step <= steps; step += 1) this.#amounts[(this.#newest + step) % kept] = 0;
    this.#newest = part;
    // A new sum, so that rounding errors do not add up.
    this.#used = 0;
    for (const amount of this.#amounts) this.#used += amount;
  }
}

function slotOf(part: number): number {
  return ((part % kept) + kept) % kept;
}
