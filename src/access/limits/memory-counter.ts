/** Counts in this process. */
import { type Charge, type Counted, noSettlement, shareOf } from './counter.ts';
import { LimitAccount } from './window.ts';

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
