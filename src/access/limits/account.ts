/** What one tenant has used of one plan, in this process. */
import type { BoundName, Bounds, LimitCount, BoundStanding } from './counter.ts';
import { Window } from './window.ts';

export const burstMs = 1_000;

interface WindowBound {
  readonly name: BoundStanding['name'];
  readonly window: Window;
  readonly limit: number;
  readonly amount: number;
}

interface ExceededBound {
  readonly name: BoundName;
  readonly freeInMs: number;
}

/** Bounds come with every request, since plans change; the span is that of the account. */
export class LimitAccount {
  readonly #requests: Window;
  readonly #cost: Window;
  readonly #burst: Window;
  #underWay = 0;

  constructor(windowMs: number) {
    this.#requests = new Window(windowMs);
    this.#cost = new Window(windowMs);
    this.#burst = new Window(burstMs);
  }

  /** Counts the request where all bounds have room for it. */
  take(bounds: Bounds, cost: number, nowMs: number): LimitCount {
    const over = this.#findOver(bounds, cost, nowMs);
    if (over === undefined) this.add(cost, nowMs);
    const standings = this.#boundsOf(bounds, cost).map((bound) => standingOf(bound, nowMs));
    if (over === undefined) return { isAdmitted: true, standings };
    return { isAdmitted: false, over: over.name, freeInMs: over.freeInMs, standings };
  }

  /** Counts a request that was admitted, by others or here. */
  add(cost: number, nowMs: number): void {
    this.#requests.add(nowMs, 1);
    this.#burst.add(nowMs, 1);
    this.#cost.add(nowMs, cost);
    this.#underWay += 1;
  }

  /** Ends a request. What it cost more than its charge may go over the limit: then the next ones wait. */
  settle(extraCost: number, nowMs: number): void {
    this.#underWay -= 1;
    if (extraCost > 0) this.#cost.add(nowMs, extraCost);
  }

  /** The bound that takes longest to have room. */
  #findOver(bounds: Bounds, cost: number, nowMs: number): ExceededBound | undefined {
    let over: ExceededBound | undefined;
    for (const { name, window, limit, amount } of this.#boundsOf(bounds, cost)) {
      const freeInMs = window.freeAtMs(nowMs, limit - amount) - nowMs;
      if (freeInMs > (over?.freeInMs ?? 0)) over = { name, freeInMs };
    }
    if (over !== undefined || bounds.concurrency === undefined || this.#underWay < bounds.concurrency) return over;
    return { name: 'concurrency', freeInMs: 0 };
  }

  #boundsOf({ requests, cost, burst }: Bounds, charge: number): WindowBound[] {
    const bounds: WindowBound[] = [];
    if (requests !== undefined) bounds.push({ name: 'requests', window: this.#requests, limit: requests, amount: 1 });
    if (cost !== undefined) {
      // A request that costs more than a whole window grants has to be possible in an empty one.
      bounds.push({ name: 'cost', window: this.#cost, limit: cost, amount: Math.min(charge, cost) });
    }
    if (burst !== undefined) bounds.push({ name: 'burst', window: this.#burst, limit: burst, amount: 1 });
    return bounds;
  }
}

function standingOf({ name, window, limit }: WindowBound, nowMs: number): BoundStanding {
  const freeAtMs = window.nextFreeAtMs(nowMs);
  return {
    name,
    remaining: Math.max(0, Math.floor(limit - window.used(nowMs))),
    freeInMs: freeAtMs === undefined ? undefined : freeAtMs - nowMs,
  };
}
