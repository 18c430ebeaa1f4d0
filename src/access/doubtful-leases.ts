/**
 * Leases that Redis may hold although nothing is under way: nobody answered when they were taken, or given back. Left
 * alone they would keep places from their tenant for as long as a lease lasts, so they are given back when Redis is well.
 */
import type { Account } from './settlements.ts';

export interface DoubtfulLeasesOptions {
  /** A lease is over by itself after this long. */
  readonly leaseMs: number;
  /** Gives them back; whether Redis said that it has. Never rejects. */
  readonly release: (account: Account, leases: readonly string[]) => Promise<boolean>;
}

interface Doubtful {
  readonly account: Account;
  readonly untilMs: number;
}

/** More are left to end by themselves. */
const maxLeases = 8_192;
const retriesPerLease = 60;

export class DoubtfulLeases {
  readonly #options: DoubtfulLeasesOptions;
  readonly #leases = new Map<string, Doubtful>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: DoubtfulLeasesOptions) {
    this.#options = options;
  }

  add(account: Account, leases: readonly string[]): void {
    const untilMs = performance.now() + this.#options.leaseMs;
    for (const lease of leases) {
      if (this.#leases.size < maxLeases && !this.#leases.has(lease)) this.#leases.set(lease, { account, untilMs });
    }
    this.#tryLater();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #tryLater(): void {
    if (this.#isClosed || this.#timer !== undefined || this.#leases.size === 0) return;
    this.#timer = setTimeout(() => void this.#try(), this.#options.leaseMs / retriesPerLease);
    this.#timer.unref();
  }

  async #try(): Promise<void> {
    for (const [account, leases] of this.#byAccount()) {
      // Redis is away: the rest would fare no better.
      if (!(await this.#options.release(account, leases))) break;
      for (const lease of leases) this.#leases.delete(lease);
    }
    this.#timer = undefined;
    this.#tryLater();
  }

  /** Those that are not over yet. */
  #byAccount(): ReadonlyMap<Account, string[]> {
    const nowMs = performance.now();
    const accounts = new Map<string, Account>();
    const found = new Map<Account, string[]>();
    for (const [lease, { account, untilMs }] of this.#leases) {
      if (untilMs <= nowMs) {
        this.#leases.delete(lease);
        continue;
      }
      const known = accounts.get(account.windows) ?? account;
      accounts.set(account.windows, known);
      const some = found.get(known) ?? [];
      some.push(lease);
      found.set(known, some);
    }
    return found;
  }
}
