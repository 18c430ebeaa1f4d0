/**
 * A sliding window, counted in parts: memory does not grow with what is counted. It is on the safe side: what was
 * counted stays until the whole part it fell into is older than the span, so that no span of time, wherever it begins,
 * holds more than was let in. In return up to one part in twenty more time passes before something is free again.
 */

/** Parts of a span. The Lua script of `limits-script.ts` counts the same way. */
export const partsOfSpan = 20;

/** Of a span, in whole milliseconds, rounded up: the parts together are never shorter than the span. */
export function partMsOf(spanMs: number): number {
  return Math.ceil(spanMs / partsOfSpan);
}

/** The parts of the span, and the one that has begun. */
const kept = partsOfSpan + 1;

/** Times are milliseconds of one clock. A clock that goes back stands still here until it has caught up. */
export class Window {
  readonly #partMs: number;
  readonly #amounts = new Float64Array(kept);
  /** Number of the part that is counted into, since the clock's zero. */
  #newest = 0;
  #used = 0;
  /** No part before this one holds anything. */
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

  /** When no more than `most` will be in use if nothing is added: `nowMs` where that is so already. */
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

  /** When something of what is in use is free again; `undefined` where nothing is. */
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
    // Summed anew, so that no rounding adds up.
    this.#used = 0;
    for (const amount of this.#amounts) this.#used += amount;
  }
}

function slotOf(part: number): number {
  return ((part % kept) + kept) % kept;
}
