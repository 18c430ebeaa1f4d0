/** Counts over the last 10, 100 and 1,000 seconds, in fixed memory. A hit on a counter is one addition. */

/** What a window is called by, in seconds. */
export const spans = [10, 100, 1_000] as const;

/** A window as it is handed on: plain data, so that it can come from another process. */
export interface WindowTold {
  readonly seconds: number;
  /** What has been counted for, in seconds: less after a start, and up to a tenth more later. */
  readonly coveredSeconds: number;
  readonly cells: Uint32Array;
}

/** Parts of a window that leave one by one; one more is being filled. */
const parts = 10;

class Ring {
  readonly seconds: number;
  readonly total: Uint32Array;
  readonly #parts: readonly Uint32Array[];
  #at = 0;
  /** Seconds that the part being filled has. */
  #filled = 0;
  /** Parts that are full. */
  #full = 0;

  constructor(seconds: number, cells: number) {
    this.seconds = seconds;
    this.total = new Uint32Array(cells);
    this.#parts = Array.from({ length: parts + 1 }, () => new Uint32Array(cells));
  }

  add(second: Uint32Array): void {
    const part = this.#parts[this.#at];
    if (part === undefined) return;
    for (let cell = 0; cell < second.length; cell += 1) {
      const count = second[cell] ?? 0;
      if (count === 0) continue;
      part[cell] = (part[cell] ?? 0) + count;
      this.total[cell] = (this.total[cell] ?? 0) + count;
    }
  }

  /** A second has passed. */
  advance(): void {
    this.#filled += 1;
    if (this.#filled < this.seconds / parts) return;
    this.#filled = 0;
    this.#full = Math.min(this.#full + 1, parts);
    this.#at = (this.#at + 1) % (parts + 1);
    const leaving = this.#parts[this.#at];
    if (leaving === undefined) return;
    for (let cell = 0; cell < leaving.length; cell += 1)
      this.total[cell] = (this.total[cell] ?? 0) - (leaving[cell] ?? 0);
    leaving.fill(0);
  }

  get coveredSeconds(): number {
    return (this.#full * this.seconds) / parts + this.#filled;
  }
}

export class Windows {
  /** What is counted in the second that runs: whoever counts adds to its cells. */
  readonly second: Uint32Array;
  readonly #rings: readonly Ring[];
  /** Of all time. */
  readonly #all: Float64Array;
  #rolledAtMs: number;

  /** `nowMs`: of the clock that `roll` is told. */
  constructor(cells: number, nowMs: number) {
    this.second = new Uint32Array(cells);
    this.#rings = spans.map((seconds) => new Ring(seconds, cells));
    this.#all = new Float64Array(cells);
    this.#rolledAtMs = nowMs;
  }

  /** To be called each second; where that was not possible, the seconds that were missed are made up for. */
  roll(nowMs: number): void {
    const passed = Math.floor((nowMs - this.#rolledAtMs) / 1_000);
    if (passed <= 0) return;
    this.#rolledAtMs += passed * 1_000;
    this.#keep();
    const longest = spans[2] + spans[2] / parts;
    for (let second = 0; second < Math.min(passed, longest); second += 1) {
      for (const ring of this.#rings) ring.advance();
    }
  }

  /** By window, shortest first; what was counted since the last roll is in it. */
  told(nowMs: number): readonly WindowTold[] {
    this.roll(nowMs);
    this.#keep();
    const since = Math.max(0, nowMs - this.#rolledAtMs) / 1_000;
    return this.#rings.map(({ seconds, coveredSeconds, total }) => ({
      seconds,
      coveredSeconds: coveredSeconds + since,
      cells: total.slice(),
    }));
  }

  /** Of all time. */
  get all(): readonly number[] {
    return Array.from(this.#all, (count, cell) => count + (this.second[cell] ?? 0));
  }

  #keep(): void {
    for (const ring of this.#rings) ring.add(this.second);
    for (let cell = 0; cell < this.second.length; cell += 1)
      this.#all[cell] = (this.#all[cell] ?? 0) + (this.second[cell] ?? 0);
    this.second.fill(0);
  }
}

/** What several processes counted, as one. */
export function mergeWindows(told: readonly (readonly WindowTold[])[]): readonly WindowTold[] {
  return (told[0] ?? []).map(({ seconds, cells }, index) => {
    const sum = new Uint32Array(cells.length);
    let coveredSeconds = 0;
    for (const windows of told) {
      const window = windows[index];
      if (window === undefined) continue;
      coveredSeconds = Math.max(coveredSeconds, window.coveredSeconds);
      for (let cell = 0; cell < sum.length; cell += 1) sum[cell] = (sum[cell] ?? 0) + (window.cells[cell] ?? 0);
    }
    return { seconds, coveredSeconds, cells: sum };
  });
}
