import type { CancelSignal } from '../../ledger/index.ts';
import type { LimitMetrics } from './limit-metrics.ts';
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
import type { LimitQueue } from './limit-queue.ts';
import type { AccessOperation, Plan, Principal } from '../keys/principal.ts';
import type { Limits, Settled, Ticket } from './ticket.ts';
import type { Usage } from '../usage/usage.ts';
import { burstMs } from './account.ts';

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
    const bounds = boundsOf(plan);
    if (!isBounded(bounds)) return new CountedTicket(this.#parts, principal, cost, [], undefined);
    const charge: Charge = { subject: subjectOf(principal), hasKey: principal.name !== undefined, bounds, cost };
    const request = { principal, operation, charge, signal };
    const taken = plan.waitMs === 0 ? counter.take(charge) : this.#takeInTurn(request);
    return taken instanceof Promise ? this.#ticketOf(request, taken) : this.#ticket(request, taken);
  }

  close(): void {
    this.#parts.queue.close();
    this.#parts.queueOfAddresses.close();
  }

  #queueOf({ name }: Principal): LimitQueue {
    return name === undefined ? this.#parts.queueOfAddresses : this.#parts.queue;
  }

  /** Counts the request behind those of its tenant that wait. */
  #takeInTurn({ principal, charge, signal }: ChargedRequest): CountResult | Promise<CountResult> {
    const { waitMs } = principal.plan;
    const attempt = (): CountResult | Promise<CountResult> => this.#parts.counter.take(charge);
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
    return new CountedTicket(this.#parts, principal, cost, headers, { taken, queue, subject });
  }

  #refused(
    principal: Principal,
    operation: AccessOperation,
    why: 'unavailable' | (LimitCount & { isAdmitted: false }),
  ): Ticket {
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
  readonly #parts: PlanLimitsParts;
  readonly #principal: Principal;
  /** The charge. */
  readonly #cost: number;
  readonly #counted: Counted | undefined;

  constructor(
    parts: PlanLimitsParts,
    principal: Principal,
    cost: number,
    headers: readonly string[],
    counted: Counted | undefined,
  ) {
    this.headers = headers;
    this.#parts = parts;
    this.#principal = principal;
    this.#cost = cost;
    this.#counted = counted;
  }

  settle(settled: Settled): void {
    const { costs, metrics, usage } = this.#parts;
    const principal = this.#principal;
    const whole = costOf(settled, costs());
    if (this.#counted !== undefined) {
      const { taken, queue, subject } = this.#counted;
      taken.settle(Math.max(0, whole - this.#cost));
      queue?.wake(subject);
    }
    metrics.answered({ plan: principal.plan.name, key: principal.name }, settled.outcome, whole);
    usage.add(principal, settled, whole);
  }
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
