/**
 * Counts in this process. Accounts are bounded in number: the ones not used for longest make room. Who has many
 * addresses can thereby forget what one of them has used only by using as many others as there are accounts, each of
 * which had its own allowance unused until then: it wins nothing that the addresses did not give it anyway. Keys have
 * accounts apart, so that addresses cannot make room among them.
 */
import { LimitAccount } from './account.ts';
import { shareOf, type Charge, type LimitCounter, type CountResult } from './counter.ts';

/** Of each sort. An account takes about a kilobyte. */
const maxAccounts = 16_384;

export interface MemoryCounterOptions {
  /** Monotonic, in milliseconds. */
  readonly now: () => number;
  /** This process grants its share of the bounds. Default 1: all of them. */
  readonly processes?: number;
  /** Default 16,384 with a key, and as many without one. */
  readonly maxAccounts?: number;
}

export class MemoryCounter implements LimitCounter {
  readonly #options: MemoryCounterOptions;
  readonly #keyed = new Map<string, LimitAccount>();
  readonly #anonymous = new Map<string, LimitAccount>();

  constructor(options: MemoryCounterOptions) {
    this.#options = options;
  }

  /** Accounts that are held. */
  get size(): number {
    return this.#keyed.size + this.#anonymous.size;
  }

  take(charge: Charge): CountResult & { kind: 'counted' } {
    const account = this.#accountOf(charge);
    const bounds = shareOf(charge.bounds, this.#options.processes ?? 1);
    const count = account.take(bounds, charge.cost, this.#options.now());
    if (!count.isAdmitted) return { kind: 'counted', count, settle: nothing };
    return { kind: 'counted', count, settle: (extraCost) => account.settle(extraCost, this.#options.now()) };
  }

  /** Counts what others have admitted; gives its `settle`. */
  note(charge: Charge): (extraCost: number) => void {
    const account = this.#accountOf(charge);
    account.add(charge.cost, this.#options.now());
    return (extraCost) => account.settle(extraCost, this.#options.now());
  }

  close(): void {
    this.#keyed.clear();
    this.#anonymous.clear();
  }

  #accountOf({ subject, hasKey, bounds: { windowMs } }: Charge): LimitAccount {
    const accounts = hasKey ? this.#keyed : this.#anonymous;
    // A span that was changed begins anew.
    const name = `${windowMs} ${subject}`;
    const account = accounts.get(name) ?? new LimitAccount(windowMs);
    accounts.delete(name);
    accounts.set(name, account);
    if (accounts.size > (this.#options.maxAccounts ?? maxAccounts)) {
      const [oldest] = accounts.keys();
      if (oldest !== undefined) accounts.delete(oldest);
    }
    return account;
  }
}

function nothing(): void {}
