import { LimitAccount } from './account.ts';
import { shareOf, type Charge, type LimitCounter, type CountResult } from './counter.ts';

/** Accounts with a key at most, and as many without. An account takes about a kilobyte. */
const maxAccounts = 16_384;

/** An account used within this time keeps its place in the order of eviction. */
const recentMs = 1_000;

interface MemoryCounterOptions {
  /** Monotonic, in milliseconds. */
  readonly now: () => number;
  /** Processes that share the bounds. Default 1. */
  readonly processes?: number;
  /** Default 16,384 with a key, and as many without one. */
  readonly maxAccounts?: number;
}

/**
 * Counts in this process. Accounts are bounded in number, the least recently used is evicted. A client can reset an
 * address's account only by using as many other addresses as there are accounts, each with an allowance of its own: it
 * gains nothing. Keys have accounts apart, so that addresses do not evict them.
 */
export class MemoryCounter implements LimitCounter {
  readonly #options: MemoryCounterOptions;
  readonly #keyed = new Map<string, LimitAccount>();
  readonly #anonymous = new Map<string, LimitAccount>();

  constructor(options: MemoryCounterOptions) {
    this.#options = options;
  }

  /** Number of accounts. */
  get size(): number {
    return this.#keyed.size + this.#anonymous.size;
  }

  take(charge: Charge): CountResult & { kind: 'counted' } {
    const nowMs = this.#options.now();
    const account = this.#accountOf(charge, nowMs);
    const bounds = shareOf(charge.bounds, this.#options.processes ?? 1);
    const count = account.take(bounds, charge.cost, nowMs);
    if (!count.isAdmitted) return { kind: 'counted', count, settle: () => undefined };
    return { kind: 'counted', count, settle: this.#settleOf(account) };
  }

  /** Counts a request that another counter admitted; returns its `settle`. */
  note(charge: Charge): (extraCost: number) => void {
    const nowMs = this.#options.now();
    const account = this.#accountOf(charge, nowMs);
    account.add(charge.cost, nowMs);
    return this.#settleOf(account);
  }

  /** Most requests have no extra cost, and need no clock. */
  #settleOf(account: LimitAccount): (extraCost: number) => void {
    return (extraCost) => account.settle(extraCost, extraCost > 0 ? this.#options.now() : 0);
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
    if (accounts.size > (this.#options.maxAccounts ?? maxAccounts)) {
      const [oldest] = accounts.keys();
      if (oldest !== undefined) accounts.delete(oldest);
    }
    return account;
  }
}
