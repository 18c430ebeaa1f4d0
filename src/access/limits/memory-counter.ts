/** Counts in this process. */
import {
  type BoundName,
  type Bounds,
  type BoundStanding,
  burstMs,
  type Charge,
  type Counted,
  type LimitCount,
  noSettlement,
  shareOf,
} from './counter.ts';
import { Window } from './window.ts';

/** Accounts with a key at most, and as many without. An account takes about a kilobyte. */
const maxAccounts = 16_384;

/** An account used within this time keeps its place in the order of eviction. */
const recentMs = 1_000;

/**
 * Counts in this process. Accounts are bounded in number, the least recently used is evicted. A client can reset an
 * address's account only by using as many other addresses as there are accounts, each with an allowance of its own: it
 * gains nothing. Keys have accounts apart, so that addresses do not evict them.
 */
export class MemoryCounter {
  readonly #processes: number;
  readonly #keyed = new Map<string, LimitAccount>();
  readonly #anonymous = new Map<string, LimitAccount>();

  /** `processes`: that share the bounds. */
  constructor(processes = 1) {
    this.#processes = processes;
  }

  /** Number of accounts. */
  get size(): number {
    return this.#keyed.size + this.#anonymous.size;
  }

  take(charge: Charge): Counted {
    const nowMs = performance.now();
    const account = this.#accountOf(charge, nowMs);
    const bounds = shareOf(charge.bounds, this.#processes);
    const count = account.take(bounds, charge.cost, nowMs);
    return { count, settle: count.isAdmitted ? this.#settleOf(account) : noSettlement };
  }

  /** Counts a request that another counter admitted; returns its `settle`. */
  note(charge: Charge): (extraCost: number) => void {
    const nowMs = performance.now();
    const account = this.#accountOf(charge, nowMs);
    account.add(charge.cost, nowMs);
    return this.#settleOf(account);
  }

  /** Most requests have no extra cost, and need no clock. */
  #settleOf(account: LimitAccount): (extraCost: number) => void {
    return (extraCost) => account.settle(extraCost, extraCost > 0 ? performance.now() : 0);
  }

  #accountOf({ subject, hasKey, bounds: { windowMs } }: Charge, nowMs: number): LimitAccount {
    const accounts = hasKey ? this.#keyed : this.#anonymous;
    const known = accounts.get(subject);
    if (known?.windowMs === windowMs && nowMs - known.usedAtMs < recentMs) return known;
    // A new span begins a new account.
    const account = known?.windowMs === windowMs ? known : new LimitAccount(windowMs);
    account.usedAtMs = nowMs;
    accounts.delete(subject);
    accounts.set(subject, account);
    if (accounts.size > maxAccounts) {
      const [oldest] = accounts.keys();
      if (oldest !== undefined) accounts.delete(oldest);
    }
    return account;
  }
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
  take(bounds: Bounds, charge: number, nowMs: number): LimitCount {
    const over = this.#findOver(bounds, charge, nowMs);
    if (over === undefined) this.add(charge, nowMs);
    const { requests, cost, burst } = bounds;
    const standings: BoundStanding[] = [];
    if (requests !== undefined) standings.push(standingOf('requests', this.#requests, requests, nowMs));
    if (cost !== undefined) standings.push(standingOf('cost', this.#cost, cost, nowMs));
    if (burst !== undefined) standings.push(standingOf('burst', this.#burst, burst, nowMs));
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
  #findOver({ requests, cost, burst, concurrency }: Bounds, charge: number, nowMs: number): ExceededBound | undefined {
    let over: ExceededBound | undefined;
    if (requests !== undefined) over = laterOf(over, 'requests', this.#requests.freeAtMs(nowMs, requests - 1) - nowMs);
    if (cost !== undefined) {
      // An empty window admits a request that costs more than the whole window.
      const most = cost - Math.min(charge, cost);
      over = laterOf(over, 'cost', this.#cost.freeAtMs(nowMs, most) - nowMs);
    }
    if (burst !== undefined) over = laterOf(over, 'burst', this.#burst.freeAtMs(nowMs, burst - 1) - nowMs);
    if (over !== undefined || concurrency === undefined || this.#inFlight < concurrency) return over;
    return { name: 'concurrency', freeInMs: 0 };
  }
}

function laterOf(over: ExceededBound | undefined, name: BoundName, freeInMs: number): ExceededBound | undefined {
  return freeInMs > (over?.freeInMs ?? 0) ? { name, freeInMs } : over;
}

function standingOf(name: BoundStanding['name'], window: Window, limit: number, nowMs: number): BoundStanding {
  const freeAtMs = window.nextFreeAtMs(nowMs);
  const remaining = Math.max(0, Math.floor(limit - window.used(nowMs)));
  return { name, remaining, freeInMs: freeAtMs === undefined ? undefined : freeAtMs - nowMs };
}
