import { randomBytes } from 'node:crypto';
import type { BoundName, Charge, LimitCount, BoundStanding, CountResult } from './counter.ts';
import { admission } from './limits-script.ts';
import { Settlements, type AccountNames } from './settlements.ts';
import { runScript, type Store } from '../redis.ts';
import { partMsOf } from './window.ts';

interface RedisCounterOptions {
  /** Prefix of names in Redis. */
  readonly prefix: string;
  /** Called when a settlement is lost. */
  readonly onLost: () => void;
  /** Lifetime in ms of a lease without renewal. Default 30,000. */
  readonly leaseMs?: number;
}

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

  constructor(store: Store, { prefix, onLost, leaseMs = usualLeaseMs }: RedisCounterOptions) {
    this.#store = store;
    this.#prefix = prefix;
    this.#leaseMs = leaseMs;
    this.#settlements = new Settlements(store, { leaseMs, onLost });
  }

  /** Like `LimitCounter.take`; `undefined` when Redis did not answer in time. */
  async take(charge: Charge): Promise<CountResult | undefined> {
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
    if (!count.isAdmitted) return { kind: 'counted', count, settle: () => undefined };
    if (lease !== undefined) this.#settlements.begin(account, lease);
    const hasCost = cost !== undefined;
    return {
      kind: 'counted',
      count,
      settle: (extraCost) => this.#settlements.end(account, hasCost ? extraCost : 0, lease),
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
