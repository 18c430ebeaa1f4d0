import type { CancelSignal } from '../../ledger/stop.ts';
import type { LimitMetrics } from '../../metrics/limit-metrics.ts';
import { costOf, leastCostOf, type Costs } from './cost.ts';
import {
  isBounded,
  type Bounds,
  type Charge,
  type LimitCount,
  type LimitCounter,
  type CountResult,
} from './counter.ts';
import { limitHeaders } from './limit-headers.ts';
import type { LimitQueue } from './limit-queue.ts';
import type { AccessOperation, Plan, Principal } from '../keys/principal.ts';
import type { Limits, Settled, Ticket } from './ticket.ts';
import type { Usage } from '../usage/usage.ts';

interface PlanLimitsParts {
  readonly counter: LimitCounter;
  readonly queue: LimitQueue;
  /** Queues of requests without a key, apart: waiting addresses leave room for keys. */
  readonly queueOfAddresses: LimitQueue;
  /** The current costs: the config may change. */
  readonly costs: () => Costs;
  readonly usage: Usage;
  readonly metrics: LimitMetrics;
}

/** `Retry-After` in ms where the time of room is unknown. */
const unknownMs = 1_000;

/** Admits requests within their plans: counts them, queues those over a limit, and settles their final cost. */
export class PlanLimits implements Limits {
  readonly #parts: PlanLimitsParts;

  constructor(parts: PlanLimitsParts) {
    this.#parts = parts;
  }

  admit(principal: Principal, operation: AccessOperation, signal: CancelSignal): Ticket | Promise<Ticket> {
    const { plan } = principal;
    const { counter, costs } = this.#parts;
    const cost = leastCostOf(operation, costs());
    const request = { principal, operation, cost };
    const bounds = boundsOf(plan);
    if (!isBounded(bounds)) return this.#admitted(request, [], () => undefined);
    const charge: Charge = { subject: subjectOf(principal), hasKey: principal.name !== undefined, bounds, cost };
    const attempt = (): CountResult | Promise<CountResult> => counter.take(charge);
    const isLast = (taken: CountResult): Ticket => this.#ticket({ ...request, charge }, taken, signal);
    if (plan.waitMs === 0) return then(attempt(), isLast);
    const { waitMs } = plan;
    return then(this.#queueOf(principal).take(charge.subject, { waitMs, signal, attempt }), isLast);
  }

  close(): void {
    this.#parts.queue.close();
    this.#parts.queueOfAddresses.close();
    this.#parts.counter.close();
  }

  #queueOf({ name }: Principal): LimitQueue {
    return name === undefined ? this.#parts.queueOfAddresses : this.#parts.queue;
  }

  #ticket(request: Request & { readonly charge: Charge }, taken: CountResult, signal: CancelSignal): Ticket {
    const { principal, charge } = request;
    if (signal.aborted) {
      if (taken.kind === 'counted' && taken.count.isAdmitted) taken.settle(0);
      return { kind: 'left' };
    }
    if (taken.kind === 'unavailable') return this.#refused(request, 'unavailable');
    const { count, settle } = taken;
    if (!count.isAdmitted) return this.#refused(request, count);
    const headers = limitHeaders(charge.bounds, count.standings);
    const queue = this.#queueOf(principal);
    const isAwaited = principal.plan.waitMs > 0;
    return this.#admitted(request, headers, (extraCost) => {
      settle(extraCost);
      if (isAwaited) queue.wake(charge.subject);
    });
  }

  #admitted(
    { principal, cost }: Request,
    headers: readonly string[],
    settle: (extraCost: number) => void,
  ): Ticket & { kind: 'admitted' } {
    const { costs, metrics, usage } = this.#parts;
    return {
      kind: 'admitted',
      headers,
      settle: (settled: Settled) => {
        const whole = costOf(settled, costs());
        settle(Math.max(0, whole - cost));
        metrics.answered({ plan: principal.plan.name, key: principal.name }, settled.outcome, whole);
        usage.add(principal, settled, whole);
      },
    };
  }

  #refused({ principal, operation }: Request, why: 'unavailable' | (LimitCount & { isAdmitted: false })): Ticket {
    const { metrics, usage } = this.#parts;
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

interface Request {
  readonly principal: Principal;
  readonly operation: AccessOperation;
  /** The charge. */
  readonly cost: number;
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

/** Synchronous for a synchronous value: a count in memory costs no promise. */
function then<T, R>(value: T | Promise<T>, next: (value: T) => R | Promise<R>): R | Promise<R> {
  return value instanceof Promise ? (async () => next(await value))() : next(value);
}
