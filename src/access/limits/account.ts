/** One tenant's use of one plan, in this process. Pure. */
import type { BoundName, Bounds, LimitCount, BoundStanding } from './counter.ts';
import { Window } from './window.ts';

/** The span of the bound `burst`. */
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

/** Windows and requests in flight of one tenant. Bounds come with every request, since plans change. */
export class LimitAccount {
  readonly #requests: Window;
  readonly #cost: Window;
  readonly #burst: Window;
  #inFlight = 0;
  readonly windowMs: number;
  /** Last use that the order of eviction knows. */
  usedAtMs = -Infinity;

  constructor(windowMs: number) {
    this.windowMs = windowMs;
    this.#requests = new Window(windowMs);
    this.#cost = new Window(windowMs);
    this.#burst = new Window(burstMs);
  }

  /** Counts the request if all bounds have room for it. */
  take(bounds: Bounds, cost: number, nowMs: number): LimitCount {
    const windows = this.#boundsOf(bounds, cost);
    const over = this.#findOver(windows, bounds.concurrency, nowMs);
    if (over === undefined) this.add(cost, nowMs);
    const standings = windows.map((bound) => standingOf(bound, nowMs));
    if (over === undefined) return { isAdmitted: true, standings };
    return { isAdmitted: false, over: over.name, freeInMs: over.freeInMs, standings };
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
  #findOver(windows: WindowBound[], concurrency: number | undefined, nowMs: number): ExceededBound | undefined {
    let over: ExceededBound | undefined;
    for (const { name, window, limit, amount } of windows) {
      const freeInMs = window.freeAtMs(nowMs, limit - amount) - nowMs;
      if (freeInMs > (over?.freeInMs ?? 0)) over = { name, freeInMs };
    }
    if (over !== undefined || concurrency === undefined || this.#inFlight < concurrency) return over;
    return { name: 'concurrency', freeInMs: 0 };
  }

  #boundsOf({ requests, cost, burst }: Bounds, charge: number): WindowBound[] {
    const bounds: WindowBound[] = [];
    if (requests !== undefined) bounds.push({ name: 'requests', window: this.#requests, limit: requests, amount: 1 });
    if (cost !== undefined) {
      // An empty window admits a request that costs more than the whole window.
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
