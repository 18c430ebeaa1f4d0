import { randomUUID } from 'node:crypto';
import type { Registry } from 'prom-client';
import type { AccessConfig } from '../../config/index.ts';
import type { CancelSignal } from '../../ledger/index.ts';
import type { Journal } from '../../metrics/index.ts';
import type { AccessOperation, Plan, Principal } from '../keys/principal.ts';
import type { AccessRedis, OpenStore, StoreTrouble } from '../redis.ts';
import { Usage } from '../usage/usage.ts';
import { UsageStore } from '../usage/usage-store.ts';
import { burstMs } from './account.ts';
import { costOf, leastCostOf, type Costs } from './cost.ts';
import {
  isBounded,
  type Bounds,
  type Charge,
  type LimitCount,
  type LimitCounter,
  type CountResult,
  type BoundStanding,
} from './counter.ts';
import { createLimitMetrics, type LimitMetrics } from './limit-metrics.ts';
import { LimitQueue } from './limit-queue.ts';
import { MemoryCounter } from './limits-memory.ts';
import { RedisCounter } from './limits-redis.ts';
import {
  counterInPrimary,
  counterWithFallback,
  type LimitServiceClient,
  type WhenRedisIsDown,
} from './limits-shared.ts';
import type { Limits, Settled, Ticket } from './ticket.ts';

/** The part of the config that limits depend on. */
export type LimitsConfig = Pick<AccessConfig, 'costs' | 'whenRedisIsDown' | 'usage'>;

interface LimitsDependencies {
  readonly registry: Registry;
  readonly journal: Journal;
  readonly processes: number;
  /** Counts for all replicas, over a connection of its own; absent: `limitService`, or else this process counts. */
  readonly redis: AccessRedis | undefined;
  /** The primary; absent in a single process. */
  readonly limitService: LimitServiceClient | undefined;
  /** Names of the plans, read at each scrape. */
  readonly plans: () => Iterable<string>;
}

/** `Retry-After` in ms where the time of room is unknown. */
const unknownMs = 1_000;

const now = (): number => performance.now();

/** Admits requests within their plans: counts them, queues those over a limit, and settles their final cost. */
export class PlanLimits implements Limits {
  readonly usage: Usage;
  readonly metrics: LimitMetrics;
  /** Resolves when Redis is reachable, or known not to be. */
  readonly started: Promise<void> | undefined;
  readonly #counter: LimitCounter;
  readonly #queue = new LimitQueue();
  /** Apart: waiting addresses leave room for keys. */
  readonly #queueOfAddresses = new LimitQueue();
  readonly #link: OpenStore | undefined;
  readonly #redisCounter: RedisCounter | undefined;
  #config: LimitsConfig;

  constructor(config: LimitsConfig, dependencies: LimitsDependencies) {
    const { redis, registry, journal, plans } = dependencies;
    this.#config = config;
    const metrics = createLimitMetrics(registry, {
      byKey: config.usage.metricsByKey,
      waiting: () => this.#queue.waiting + this.#queueOfAddresses.waiting,
      plans,
    });
    this.metrics = metrics;
    const link = redis?.link((change) => recordTrouble(journal, change, this.#config.whenRedisIsDown));
    const names = { prefix: redis?.keyPrefix ?? '' };
    this.#link = link;
    this.started = link?.started;
    this.#redisCounter = link && new RedisCounter(link, { ...names, onLost: () => metrics.lost('settlement') });
    this.usage = new Usage({
      now: () => Date.now(),
      store: link && new UsageStore(link, { ...names, process: randomUUID() }),
      onLost: () => metrics.lost('usage'),
    });
    this.#counter = this.#createCounter(dependencies);
  }

  get costs(): Costs {
    return this.#config.costs;
  }

  admit(principal: Principal, operation: AccessOperation, signal: CancelSignal): Ticket | Promise<Ticket> {
    const { plan } = principal;
    const cost = leastCostOf(operation, this.costs);
    const bounds = boundsOf(plan);
    if (!isBounded(bounds)) return new CountedTicket(this, principal, cost, [], undefined);
    const charge: Charge = { subject: subjectOf(principal), hasKey: principal.name !== undefined, bounds, cost };
    const request = { principal, operation, charge, signal };
    const taken = plan.waitMs === 0 ? this.#counter.take(charge) : this.#takeInTurn(request);
    return taken instanceof Promise ? this.#ticketOf(request, taken) : this.#ticket(request, taken);
  }

  /** Applies costs and `whenRedisIsDown`; metrics by key need a restart. */
  update(config: LimitsConfig): void {
    this.#config = config;
  }

  /** Refuses what waits, flushes usage and settlements to Redis within its timeouts, and frees everything. */
  async close(): Promise<void> {
    this.#queue.close();
    this.#queueOfAddresses.close();
    await Promise.all([this.#redisCounter?.close(), this.usage.close()]);
    this.#link?.close();
  }

  #createCounter({ processes, limitService }: LimitsDependencies): LimitCounter {
    if (this.#redisCounter !== undefined) {
      return counterWithFallback({
        shared: this.#redisCounter,
        memory: new MemoryCounter({ now, processes }),
        choice: () => this.#config.whenRedisIsDown,
        onFallback: (choice) => this.metrics.fellBack(choice),
      });
    }
    if (limitService === undefined) return new MemoryCounter({ now });
    return counterWithFallback({
      shared: counterInPrimary(limitService),
      memory: new MemoryCounter({ now, processes }),
    });
  }

  #queueOf({ name }: Principal): LimitQueue {
    return name === undefined ? this.#queueOfAddresses : this.#queue;
  }

  /** Counts the request behind those of its tenant that wait. */
  #takeInTurn({ principal, charge, signal }: ChargedRequest): CountResult | Promise<CountResult> {
    const { waitMs } = principal.plan;
    const attempt = (): CountResult | Promise<CountResult> => this.#counter.take(charge);
    return this.#queueOf(principal).take(charge.subject, { waitMs, signal, attempt });
  }

  /** Apart from `admit`: a count in memory costs no promise and no closure. */
  async #ticketOf(request: ChargedRequest, taken: Promise<CountResult>): Promise<Ticket> {
    return this.#ticket(request, await taken);
  }

  #ticket({ principal, operation, charge, signal }: ChargedRequest, taken: CountResult): Ticket {
    if (signal.aborted) {
      if (taken.kind === 'counted' && taken.count.isAdmitted) taken.settle(0);
      return { kind: 'left' };
    }
    if (taken.kind === 'unavailable') return this.#refused(principal, operation, 'unavailable');
    const { count } = taken;
    if (!count.isAdmitted) return this.#refused(principal, operation, count);
    const headers = limitHeaders(charge.bounds, count.standings);
    const { subject, cost } = charge;
    const queue = principal.plan.waitMs > 0 ? this.#queueOf(principal) : undefined;
    return new CountedTicket(this, principal, cost, headers, { taken, queue, subject });
  }

  #refused(
    principal: Principal,
    operation: AccessOperation,
    why: 'unavailable' | (LimitCount & { isAdmitted: false }),
  ): Ticket {
    const { metrics, usage } = this;
    const { plan, name: key } = principal;
    usage.addRefusal(principal, operation);
    if (why === 'unavailable') {
      metrics.refused({ plan: plan.name, key }, why);
      return { kind: 'refused', because: 'unavailable', retryAfterMs: unknownMs, headers: [] };
    }
    metrics.refused({ plan: plan.name, key }, why.over);
    const headers = limitHeaders(boundsOf(plan), why.standings);
    return { kind: 'refused', because: 'limit', retryAfterMs: why.freeInMs === 0 ? unknownMs : why.freeInMs, headers };
  }
}

/** A request of a plan with bounds. */
interface ChargedRequest {
  readonly principal: Principal;
  readonly operation: AccessOperation;
  readonly charge: Charge;
  /** Aborts when the client hangs up. */
  readonly signal: CancelSignal;
}

/** The count of an admitted request. */
interface Counted {
  readonly taken: Extract<CountResult, { kind: 'counted' }>;
  /** Present in plans whose requests wait. */
  readonly queue: LimitQueue | undefined;
  readonly subject: string;
}

/** The ticket of an admitted request. A class: closures for each request cost more. */
class CountedTicket {
  readonly kind = 'admitted';
  readonly headers: readonly string[];
  readonly #limits: PlanLimits;
  readonly #principal: Principal;
  /** The charge. */
  readonly #cost: number;
  readonly #counted: Counted | undefined;

  constructor(
    limits: PlanLimits,
    principal: Principal,
    cost: number,
    headers: readonly string[],
    counted: Counted | undefined,
  ) {
    this.headers = headers;
    this.#limits = limits;
    this.#principal = principal;
    this.#cost = cost;
    this.#counted = counted;
  }

  settle(settled: Settled): void {
    const { costs, metrics, usage } = this.#limits;
    const principal = this.#principal;
    const whole = costOf(settled, costs);
    if (this.#counted !== undefined) {
      const { taken, queue, subject } = this.#counted;
      taken.settle(Math.max(0, whole - this.#cost));
      queue?.wake(subject);
    }
    metrics.answered({ plan: principal.plan.name, key: principal.name }, settled.outcome, whole);
    usage.add(principal, settled, whole);
  }
}

const choices: Readonly<Record<WhenRedisIsDown, string>> = {
  local: 'each replica counts for itself',
  refuse: 'requests with limits are refused',
  allow: 'requests are not counted',
};

function recordTrouble(
  journal: Journal,
  { server, trouble, isOn, reason }: StoreTrouble,
  choice: WhenRedisIsDown,
): void {
  const place = { trouble, whenRedisIsDown: choice, ...(server === '' ? {} : { server }) };
  if (isOn) journal.record('limits alone', { reason, ...place }, `limits are not counted in Redis: ${choices[choice]}`);
  else journal.record('limits shared', place, 'limits are counted in Redis again');
}

/** Tenants and addresses are distinct: a tenant may be named like an address. One text per principal of a key. */
function subjectOf(principal: Principal): string {
  const known = knownSubjects.get(principal);
  if (known !== undefined) return known;
  const { name, tenant, plan } = principal;
  const subject = `${plan.name}:${name === undefined ? 'address' : 'tenant'}:${tenant}`;
  if (name !== undefined) knownSubjects.set(principal, subject);
  return subject;
}

const knownSubjects = new WeakMap<Principal, string>();

const knownBounds = new WeakMap<Plan, Bounds>();

/** The counted part of a plan, one object per plan: plain data for IPC. */
function boundsOf(plan: Plan): Bounds {
  const known = knownBounds.get(plan);
  if (known !== undefined) return known;
  const { windowMs, requests, cost, burst, concurrency } = plan;
  const bounds = { windowMs, requests, cost, burst, concurrency };
  knownBounds.set(plan, bounds);
  return bounds;
}

/**
 * `RateLimit` and `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-10, a policy for each bound over time: flat
 * name-value pairs, as in Node's raw headers; empty without such a bound.
 */
export function limitHeaders(bounds: Bounds, standings: readonly BoundStanding[]): readonly string[] {
  if (standings.length === 0) return [];
  let items = '';
  for (const standing of standings) items += items === '' ? itemOf(standing) : `, ${itemOf(standing)}`;
  return ['RateLimit', items, 'RateLimit-Policy', policyOf(bounds)];
}

/** Rounded up: a client that waits this long has waited long enough. */
function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1_000));
}

const policies = new WeakMap<Bounds, string>();

function policyOf(bounds: Bounds): string {
  const known = policies.get(bounds);
  if (known !== undefined) return known;
  const { windowMs, requests, cost, burst } = bounds;
  const items: string[] = [];
  if (requests !== undefined) items.push(`"requests";q=${requests};w=${wholeSeconds(windowMs)}`);
  // No registered unit (`qu`) fits.
  if (cost !== undefined) items.push(`"cost";q=${cost};w=${wholeSeconds(windowMs)}`);
  if (burst !== undefined) items.push(`"burst";q=${burst};w=${wholeSeconds(burstMs)}`);
  const policy = items.join(', ');
  policies.set(bounds, policy);
  return policy;
}

function itemOf({ name, remaining, freeInMs }: BoundStanding): string {
  return `"${name}";r=${remaining}${freeInMs === undefined ? '' : `;t=${wholeSeconds(freeInMs)}`}`;
}
