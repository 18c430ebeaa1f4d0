/**
 * Final costs and ended leases of requests, on their way to Redis: gathered by account, bounded in number, written in the
 * background. Leases of requests in flight are renewed. A lease that Redis may hold without need (an admission or a
 * settlement without an answer) is not renewed, and its end frees the place.
 */
import { renewal, settlement } from './limits-script.ts';
import { runScript, type Store } from './store.ts';

/** Names in Redis of what is counted together. */
export interface Account {
  readonly windows: string;
  readonly leases: string;
  readonly partMs: number;
}

export interface Ended {
  readonly extraCost: number;
  readonly lease: string | undefined;
}

export interface SettlementOptions {
  readonly leaseMs: number;
  readonly onLost: () => void;
}

/** One account's costs and leases that are not written yet. */
interface Settlement {
  readonly account: Account;
  extraCost: number;
  readonly leases: string[];
}

interface UnderWay {
  readonly account: Account;
  renewAtMs: number;
}

/** Accounts that something waits for, and scripts under way. */
const maxWaiting = 8_192;
const maxRunning = 256;
/** A script with more would hold up the server. */
const maxLeases = 256;

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

  begin(account: Account, lease: string): void {
    this.#underWay.set(lease, { account, renewAtMs: performance.now() + this.#options.leaseMs / 3 });
  }

  end(account: Account, { extraCost, lease }: Ended): void {
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
    this.#tell();
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** After what is being read now, and before what is read next: who asks again finds its place free. */
  #plan(): void {
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setImmediate(() => {
      this.#isPlanned = false;
      this.#tell();
    });
  }

  #tell(): void {
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
      // What is not renewed ends; a request that takes that long is then not counted as under way.
      await this.#store.write(key, (client) => runScript(client, renewal, [key], args));
    }
  }
}
