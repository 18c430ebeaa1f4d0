/** Counts in Redis, for all replicas. */
import { randomBytes } from 'node:crypto';
import { runScript, type Store } from '../redis.ts';
import {
  type BoundName,
  type BoundStanding,
  type Charge,
  type Counted,
  type LimitCount,
  noSettlement,
} from './counter.ts';
import { admission, renewal, settlement } from './limits-script.ts';
import { partMsOf } from './window.ts';

const usualLeaseMs = 30_000;

/** Counts in Redis, for all replicas: one script per request, its settlement later in the background. */
export class RedisCounter {
  readonly #store: Store;
  readonly #prefix: string;
  readonly #leaseMs: number;
  readonly #settlements: Settlements;
  /** Distinguishes the leases of this process. */
  readonly #process = randomBytes(9).toString('base64url');
  #leases = 0;

  /** `prefix`: of names in Redis. `onLost`: called when a settlement is lost. `leaseMs`: lifetime of a lease without renewal. */
  constructor(store: Store, prefix: string, onLost: () => void, leaseMs = usualLeaseMs) {
    this.#store = store;
    this.#prefix = prefix;
    this.#leaseMs = leaseMs;
    this.#settlements = new Settlements(store, onLost, leaseMs);
  }

  /** Counts the request if there is room; `undefined` when Redis did not answer in time. */
  async take(charge: Charge): Promise<Counted | undefined> {
    const { requests, cost, burst, concurrency, windowMs } = charge.bounds;
    const account = this.#accountOf(charge);
    const lease = concurrency === undefined ? undefined : `${this.#process}${(this.#leases += 1).toString(36)}`;
    const limits = [requests, cost, burst, concurrency].map((limit) => String(limit ?? -1));
    const args = [String(partMsOf(windowMs)), ...limits, String(charge.cost), lease ?? '', String(this.#leaseMs)];
    const outcome = await this.#store.write(account.windows, (client) =>
      runScript(client, admission, [account.windows, account.leases], args),
    );
    // Redis may have admitted the request all the same: its lease ends without a renewal.
    if ('failure' in outcome) return undefined;
    const count = parseCount(outcome.value, charge);
    if (count === undefined) return undefined;
    if (!count.isAdmitted) return { count, settle: noSettlement };
    if (lease !== undefined) this.#settlements.begin(account, lease);
    return {
      count,
      settle: (extraCost) => this.#settlements.end(account, cost === undefined ? 0 : extraCost, lease),
    };
  }

  /** Resolves when every settlement is written, or lost. */
  async close(): Promise<void> {
    await this.#settlements.close();
  }

  #accountOf({ subject, bounds: { windowMs } }: Charge): AccountNames {
    const start = `${this.#prefix}:limits:{${subject}}:${windowMs}`;
    return { windows: start, leases: `${start}:leases`, partMs: partMsOf(windowMs) };
  }
}

const overNames: Readonly<Record<string, BoundName>> = {
  r: 'requests',
  c: 'cost',
  b: 'burst',
  l: 'concurrency',
};

/** `undefined` for a malformed reply. */
function parseCount(reply: unknown, { bounds }: Charge): LimitCount | undefined {
  if (!Array.isArray(reply) || reply.length !== 9) return undefined;
  const [isAdmitted, over, freeInMs, ...used] = reply as [number, string, number, ...number[]];
  const standings: BoundStanding[] = [];
  for (const [index, name] of (['requests', 'cost', 'burst'] as const).entries()) {
    const limit = bounds[name];
    const [inUse = -1, freeMs = -1] = used.slice(index * 2);
    if (limit === undefined || inUse < 0) continue;
    standings.push({ name, remaining: Math.max(0, limit - inUse), freeInMs: freeMs < 0 ? undefined : freeMs });
  }
  if (isAdmitted === 1) return { isAdmitted: true, standings };
  return { isAdmitted: false, over: overNames[over] ?? 'requests', freeInMs, standings };
}

/** The names in Redis of one account: its windows, and the leases of its requests in flight. */
interface AccountNames {
  readonly windows: string;
  readonly leases: string;
  readonly partMs: number;
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

/**
 * Final costs and ended leases of the requests of one process, waiting to be written in the background: grouped by
 * account, bounded in number. Leases of requests in flight are renewed. A superfluous lease (after an admission or
 * settlement without an answer) ends without a renewal.
 */
class Settlements {
  readonly #store: Store;
  readonly #onLost: () => void;
  readonly #leaseMs: number;
  readonly #waiting = new Map<string, Settlement>();
  /** Requests in flight, by lease. */
  readonly #inFlight = new Map<string, LeasedRequest>();
  readonly #renewals: NodeJS.Timeout;
  readonly #running = new Set<Promise<void>>();
  #isPlanned = false;

  constructor(store: Store, onLost: () => void, leaseMs: number) {
    this.#store = store;
    this.#onLost = onLost;
    this.#leaseMs = leaseMs;
    this.#renewals = setInterval(() => this.#renew(), leaseMs / 6).unref();
  }

  /** Renews the lease of an admitted request until `end`. */
  begin(account: AccountNames, lease: string): void {
    this.#inFlight.set(lease, { account, renewAtMs: performance.now() + this.#leaseMs / 3 });
  }

  /** Settles a request. `extraCost`: beyond the charge. `lease`: absent where concurrency is not bounded. */
  end(account: AccountNames, extraCost: number, lease: string | undefined): void {
    if (lease !== undefined) this.#inFlight.delete(lease);
    if (extraCost <= 0 && lease === undefined) return;
    let waiting = this.#waiting.get(account.windows);
    if (waiting === undefined) {
      if (this.#waiting.size >= maxWaiting) return this.#onLost();
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
      if ('failure' in outcome) return this.#onLost();
    }
  }

  #renew(): void {
    const nowMs = performance.now();
    const due = new Map<string, string[]>();
    for (const [lease, request] of this.#inFlight) {
      if (request.renewAtMs > nowMs) continue;
      request.renewAtMs = nowMs + this.#leaseMs / 3;
      const leases = due.get(request.account.leases) ?? [];
      leases.push(lease);
      due.set(request.account.leases, leases);
    }
    for (const [key, leases] of due) void this.#renewSome(key, leases);
  }

  async #renewSome(key: string, leases: readonly string[]): Promise<void> {
    for (let first = 0; first < leases.length; first += maxLeases) {
      const args = [String(this.#leaseMs), ...leases.slice(first, first + maxLeases)];
      // After a failed renewal the lease ends: its request no longer counts as in flight.
      await this.#store.write(key, (client) => runScript(client, renewal, [key], args));
    }
  }
}
