/**
 * Final costs and ended leases of requests, on their way to Redis: gathered by account, bounded in number, written in the
 * background. Leases of requests in flight are renewed. A lease that Redis may hold without need (an admission or a
 * settlement without an answer) is not renewed, and its end frees the place.
 */
import { renewal, settlement } from './limits-script.ts';
import { runScript, type Store } from './store.ts';

/** The names in Redis of one account: its windows, and the leases of its requests in flight. */
export interface AccountNames {
  readonly windows: string;
  readonly leases: string;
  readonly partMs: number;
}

/** See `RedisCounterOptions`. */
export interface SettlementOptions {
  readonly leaseMs: number;
  readonly onLost: () => void;
}

/** One account's costs and leases that are not written yet. */
interface Settlement {
  readonly account: AccountNames;
  extraCost: number;
  readonly leases: string[];
}

interface UnderWay {
  readonly account: AccountNames;
  renewAtMs: number;
}

/** Accounts with a settlement that waits, and scripts in flight. */
const maxWaiting = 8_192;
const maxRunning = 256;
/** A script with more would hold up the server. */
const maxLeases = 256;

/** One for a process: its settlements wait here, at most one for each account. */
export class Settlements {
  readonly #store: Store;
  readonly #options: SettlementOptions;
  readonly #waiting = new Map<string, Settlement>();
  /** By lease. As many as there are requests under way. */
  readonly #underWay = new Map<string, UnderWay>();
  readonly #renewals: NodeJS.Timeout;
  readonly #running = new Set<Promise<void>>();
  #isPlanned = false;

  constructor(store: Store, options: SettlementOptions) {
    this.#store = store;
    this.#options = options;
    this.#renewals = setInterval(() => this.#renew(), options.leaseMs / 6);
    this.#renewals.unref();
  }

  /** The request was admitted under this lease, which is renewed until its end. */
  begin(account: AccountNames, lease: string): void {
    this.#underWay.set(lease, { account, renewAtMs: performance.now() + this.#options.leaseMs / 3 });
  }

  /** `extraCost`: beyond the charge. `lease`: absent where concurrency is not bounded. */
  end(account: AccountNames, extraCost: number, lease: string | undefined): void {
    if (lease !== undefined) this.#underWay.delete(lease);
    if (extraCost <= 0 && lease === undefined) return;
    let waiting = this.#waiting.get(account.windows);
    if (waiting === undefined) {
      if (this.#waiting.size >= maxWaiting) return this.#options.onLost();
      waiting = { account, extraCost: 0, leases: [] };
      this.#waiting.set(account.windows, waiting);
    }
    waiting.extraCost += extraCost;
    if (lease !== undefined) waiting.leases.push(lease);
    this.#plan();
  }

  async close(): Promise<void> {
    clearInterval(this.#renewals);
    this.#flush();
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** After the current reads and before the next ones: a client that asks again finds its place free. */
  #plan(): void {
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setImmediate(() => {
      this.#isPlanned = false;
      this.#flush();
    });
  }

  #flush(): void {
    for (const [name, waiting] of this.#waiting) {
      if (this.#running.size >= maxRunning) return;
      this.#waiting.delete(name);
      const run: Promise<void> = this.#write(waiting).then(() => {
        this.#running.delete(run);
        if (this.#waiting.size > 0) this.#plan();
      });
      this.#running.add(run);
    }
  }

  async #write({ account, extraCost, leases }: Settlement): Promise<void> {
    const cost = String(Math.round(extraCost * 1_000) / 1_000);
    for (let first = 0; first === 0 || first < leases.length; first += maxLeases) {
      const args = [String(account.partMs), first === 0 ? cost : '0', ...leases.slice(first, first + maxLeases)];
      const outcome = await this.#store.write(account.windows, (client) =>
        runScript(client, settlement, [account.windows, account.leases], args),
      );
      if ('failure' in outcome) return this.#options.onLost();
    }
  }

  #renew(): void {
    const nowMs = performance.now();
    const due = new Map<string, string[]>();
    for (const [lease, request] of this.#underWay) {
      if (request.renewAtMs > nowMs) continue;
      request.renewAtMs = nowMs + this.#options.leaseMs / 3;
      const leases = due.get(request.account.leases) ?? [];
      leases.push(lease);
      due.set(request.account.leases, leases);
    }
    for (const [key, leases] of due) void this.#renewSome(key, leases);
  }

  async #renewSome(key: string, leases: readonly string[]): Promise<void> {
    for (let first = 0; first < leases.length; first += maxLeases) {
      const args = [String(this.#options.leaseMs), ...leases.slice(first, first + maxLeases)];
      // A lease that is not renewed ends: its request is no longer counted as in flight.
      await this.#store.write(key, (client) => runScript(client, renewal, [key], args));
    }
  }
}
