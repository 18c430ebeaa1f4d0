/**
 * Final costs and ended leases of requests, waiting to be written to Redis in the background: grouped by account,
 * bounded in number. Leases of requests in flight are renewed. A superfluous lease (after an admission or settlement
 * without an answer) ends without a renewal.
 */
import { renewal, settlement } from './limits-script.ts';
import { runScript, type Store } from '../redis.ts';

/** The names in Redis of one account: its windows, and the leases of its requests in flight. */
export interface AccountNames {
  readonly windows: string;
  readonly leases: string;
  readonly partMs: number;
}

interface SettlementOptions {
  readonly leaseMs: number;
  readonly onLost: () => void;
}

/** One account's costs and leases that are not written yet. */
interface Settlement {
  readonly account: AccountNames;
  extraCost: number;
  readonly leases: string[];
}

interface LeasedRequest {
  readonly account: AccountNames;
  renewAtMs: number;
}

/** Accounts with a waiting settlement at most, and scripts in flight. */
const maxWaiting = 8_192;
const maxRunning = 256;
/** Leases of one script at most: more would block the server. */
const maxLeases = 256;

/** The settlements of one process, at most one waiting for each account. */
export class Settlements {
  readonly #store: Store;
  readonly #options: SettlementOptions;
  readonly #waiting = new Map<string, Settlement>();
  /** Requests in flight, by lease. */
  readonly #inFlight = new Map<string, LeasedRequest>();
  readonly #renewals: NodeJS.Timeout;
  readonly #running = new Set<Promise<void>>();
  #isPlanned = false;

  constructor(store: Store, options: SettlementOptions) {
    this.#store = store;
    this.#options = options;
    this.#renewals = setInterval(() => this.#renew(), options.leaseMs / 6).unref();
  }

  /** Renews the lease of an admitted request until `end`. */
  begin(account: AccountNames, lease: string): void {
    this.#inFlight.set(lease, { account, renewAtMs: performance.now() + this.#options.leaseMs / 3 });
  }

  /** Settles a request. `extraCost`: beyond the charge. `lease`: absent where concurrency is not bounded. */
  end(account: AccountNames, extraCost: number, lease: string | undefined): void {
    if (lease !== undefined) this.#inFlight.delete(lease);
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

  /** Flushes before the next reads from sockets: a client's next request finds its lease free. */
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
    for (const [lease, request] of this.#inFlight) {
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
      // After a failed renewal the lease ends: its request no longer counts as in flight.
      await this.#store.write(key, (client) => runScript(client, renewal, [key], args));
    }
  }
}
