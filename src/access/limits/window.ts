/** The use of a plan over time, in sliding windows. Pure. */
import { type Bounds, type BoundStanding, burstMs, type ExceededBound, laterOf } from './counter.ts';

/** Parts of a span. The Lua script of `limits-script.ts` counts the same way. */
export const partsOfSpan = 20;

/** Length of a part in ms, rounded up: the parts together are never shorter than the span. */
export function partMsOf(spanMs: number): number {
  return Math.ceil(spanMs / partsOfSpan);
}

/** The parts of the span, and the current one. */
const kept = partsOfSpan + 1;

/**
 * A sliding window, counted in parts: its memory is constant. It is conservative: an amount stays until its whole part
 * is older than the span, so that no span, wherever it begins, exceeds the limit. In return an amount is freed up to
 * one twentieth of the span late. Times are milliseconds of one clock. A clock that goes back counts as standing still
 * until it has caught up.
 */
export class Window {
  readonly spanMs: number;
  readonly #partMs: number;
  readonly #amounts = new Float64Array(kept);
  /** Number of the current part, since the clock's zero. */
  #newest = 0;
  #used = 0;
  /** Every part before this one is empty. */
  #oldest = 0;

  constructor(spanMs: number) {
    this.spanMs = spanMs;
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

  /** The bound of this name, unless an amount has room beside `most` in use. */
  findOver(name: ExceededBound['name'], most: number, nowMs: number): ExceededBound | undefined {
    const freeInMs = this.freeAtMs(nowMs, most) - nowMs;
    return freeInMs > 0 ? { name, freeInMs } : undefined;
  }

  standing(name: BoundStanding['name'], limit: number, nowMs: number): BoundStanding {
    const freeAtMs = this.nextFreeAtMs(nowMs);
    const remaining = Math.max(0, Math.floor(limit - this.used(nowMs)));
    return { name, remaining, freeInMs: freeAtMs === undefined ? undefined : freeAtMs - nowMs };
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

/** Windows and requests in flight of one tenant. Bounds come with every request, since plans change. */
export class LimitAccount {
  readonly windowMs: number;
  readonly #requests: Window;
  readonly #cost: Window;
  readonly #burst = new Window(burstMs);
  #inFlight = 0;

  constructor(windowMs: number) {
    this.windowMs = windowMs;
    this.#requests = new Window(windowMs);
    this.#cost = new Window(windowMs);
  }

  standings({ requests, cost, burst }: Bounds, nowMs: number): BoundStanding[] {
    const standings: BoundStanding[] = [];
    if (requests !== undefined) standings.push(this.#requests.standing('requests', requests, nowMs));
    if (cost !== undefined) standings.push(this.#cost.standing('cost', cost, nowMs));
    if (burst !== undefined) standings.push(this.#burst.standing('burst', burst, nowMs));
    return standings;
  }

  /** Counts an admitted request, also one that Redis or another process admitted. */
  add(cost: number, nowMs: number): void {
    this.#requests.add(nowMs, 1);
    this.#burst.add(nowMs, 1);
    this.#cost.add(nowMs, cost);
    this.#inFlight += 1;
  }

  /** Ends a request. Its extra cost may exceed the limit: then later requests wait. */
  settle(extraCost: number, nowMs: number): void {
    this.#inFlight -= 1;
    if (extraCost > 0) this.#cost.add(nowMs, extraCost);
  }

  /** The exceeded bound that takes longest to have room. */
  findOver({ requests, cost, burst, concurrency }: Bounds, charge: number, nowMs: number): ExceededBound | undefined {
    let over: ExceededBound | undefined;
    if (requests !== undefined) over = this.#requests.findOver('requests', requests - 1, nowMs);
    // An empty window admits a request that costs more than the whole window.
    if (cost !== undefined) over = laterOf(over, this.#cost.findOver('cost', cost - Math.min(charge, cost), nowMs));
    if (burst !== undefined) over = laterOf(over, this.#burst.findOver('burst', burst - 1, nowMs));
    if (over !== undefined || concurrency === undefined || this.#inFlight < concurrency) return over;
    return { name: 'concurrency', freeInMs: 0 };
  }
}
