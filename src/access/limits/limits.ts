/** Requests within their plans: counted, made to wait, and charged at their end. */
import type { AccessConfig } from '../../config/index.ts';
import { type CancelSignal, GatewayError } from '../../ledger/index.ts';
import type { Journal, Outcome } from '../../metrics/index.ts';
import type { AccessMetrics } from '../access-metrics.ts';
import type { AccessOperation, Principal } from '../keys/principals.ts';
import type { AccessRedis, OpenStore, StoreTrouble } from '../redis.ts';
import { LocalUsage, usageTroubles } from '../usage/local-usage.ts';
import { RedisUsage } from '../usage/redis-usage.ts';
import { type UsageStore, usageSubjectOf } from '../usage/usage-store.ts';
import { Usage } from '../usage/usage.ts';
import type { CalendarDay } from './calendar.ts';
import { boundsOf, chargeOf, streamBoundsOf, subjectOf } from './charge.ts';
import { costOf, leastCostOf, type Settled } from './cost.ts';
import {
  type Bounds,
  type BoundStanding,
  type Charge,
  type Counted,
  isBounded,
  type LimitCount,
  limitHeaders,
  noSettlement,
  timedBoundsOf,
} from './counter.ts';
import { LimitQueue } from './limit-queue.ts';
import { MemoryCounter } from './memory-counter.ts';
import { type LimitServiceClient, PrimaryCounter } from './primary-counter.ts';
import { createQuotas } from './quota-file.ts';
import { Quotas } from './quotas.ts';
import { RedisCounter } from './redis-counter.ts';

/** The part of the config that limits depend on. */
export type LimitsConfig = Pick<AccessConfig, 'costs' | 'whenRedisIsDown'>;

interface LimitsDependencies {
  readonly metrics: AccessMetrics;
  readonly journal: Journal;
  /** Processes of this gateway. */
  readonly processes: number;
  /** Counts for all replicas, over a connection of its own; absent: `limitService`, or else this process counts. */
  readonly redis: AccessRedis | undefined;
  /** The primary; absent in a single process. */
  readonly limitService: LimitServiceClient | undefined;
  /** The primary's usage; absent in a single process. */
  readonly usageStore?: UsageStore | undefined;
  /** Keeps the quotas of a process that counts for all; absent: they last as long as the process. */
  readonly folder?: string | undefined;
  /** Unix time in ms, for the day and month of quotas. Default: the system's. */
  readonly now?: (() => number) | undefined;
}

/** The rest of a bound, with its limit and span. */
interface PlanStanding extends BoundStanding {
  readonly limit: number;
  /** Its span; of a day or month its whole length. */
  readonly windowMs: number;
}

/** Parts of an admission that few requests have. */
interface AdmitOptions {
  /** The client's `countedNetwork`, for plans with `perAddress`. */
  readonly address?: string | undefined;
  /** Longest wait for its limits. Default: its plan's. */
  readonly waitMs?: number;
}

/** The decision on a request: admitted, or 429 or 503. `undefined`: the client hung up during its wait. */
type LimitDecision = AdmittedRequest | GatewayError;

/** The end of an event stream, or the refusal; `undefined`: its plan has no bound of streams. */
type StreamDecision = (() => void) | GatewayError | undefined;

/** A request with its charge; absent in a plan without bounds. */
interface ChargedRequest {
  readonly principal: Principal;
  readonly operation: AccessOperation;
  readonly charge: Charge | undefined;
  /** Neither plan nor usage counts it. */
  readonly isUncounted?: boolean;
}

/** `Retry-After` in seconds where the time of room is unknown. */
const unknownSeconds = 1;

/** Admits requests within their plans: counts them, queues those over a limit, and settles their final cost. */
export class PlanLimits {
  readonly usage: Usage;
  /** Resolves when Redis is reachable, or known not to be. */
  readonly started: Promise<void> | undefined;
  readonly #metrics: AccessMetrics;
  /** Counts alone where nothing is shared; otherwise also what `#shared` admits, so that windows continue without it. */
  readonly #memory: MemoryCounter;
  readonly #shared: RedisCounter | PrimaryCounter | undefined;
  readonly #queue = new LimitQueue();
  /** Apart: waiting addresses leave room for keys. */
  readonly #queueOfAddresses = new LimitQueue();
  readonly #link: OpenStore | undefined;
  /** Servers of Redis in trouble; '' for a single one. */
  readonly #away = new Set<string>();
  /** Writes the quotas that this process keeps. */
  readonly #closeQuotas: (() => void) | undefined;
  #config: LimitsConfig;

  constructor(config: LimitsConfig, dependencies: LimitsDependencies) {
    const { metrics, journal, processes, redis, limitService, usageStore, folder, now } = dependencies;
    this.#config = config;
    this.#metrics = metrics;
    const link = redis?.link((change) => {
      if (change.isOn) this.#away.add(change.server);
      else this.#away.delete(change.server);
      recordTrouble(journal, change, this.#config.whenRedisIsDown);
      if (!change.isOn && this.#shared instanceof RedisCounter) this.#shared.quotas.reportAll();
    });
    this.#link = link;
    this.started = link?.started;
    const prefix = redis?.keyPrefix ?? '';
    const onDropped = (): void => metrics.lost('quota');
    if (link !== undefined) {
      const quotas: Quotas = new Quotas({ processes, now, onDropped, onCounted: (use) => shared.quotas.note(use) });
      const shared = new RedisCounter(link, prefix, { quotas, onLost: metrics.lost });
      this.#shared = shared;
      this.#memory = new MemoryCounter(processes, quotas);
    } else if (limitService !== undefined) {
      const quotas = new Quotas({ processes, now, onDropped });
      this.#shared = new PrimaryCounter(limitService, quotas);
      this.#memory = new MemoryCounter(processes, quotas);
    } else {
      const { quotas, close } = createQuotas(folder, { journal, now, onDropped });
      this.#memory = new MemoryCounter(1, quotas);
      this.#closeQuotas = close;
    }
    const onLost = (): void => metrics.lost('usage');
    const store: UsageStore =
      link !== undefined
        ? new RedisUsage(link, prefix)
        : (usageStore ?? new LocalUsage({ folder, onTrouble: usageTroubles(journal), onLost, now }));
    this.usage = new Usage(store, onLost, now);
  }

  /** Whether requests are refused because Redis does not count them. */
  get isRefusing(): boolean {
    return this.#away.size > 0 && this.#config.whenRedisIsDown === 'refuse';
  }

  /** Requests that wait for their limits. */
  get waiting(): number {
    return this.#queue.waiting + this.#queueOfAddresses.waiting;
  }

  /** Synchronous where this process counts alone and no request waits. Never rejects. `signal`: the client hangs up. */
  admit(
    principal: Principal,
    operation: AccessOperation,
    signal: CancelSignal,
    { address, waitMs = principal.plan.waitMs }: AdmitOptions = {},
  ): LimitDecision | Promise<LimitDecision | undefined> {
    const bounds = boundsOf(principal.plan);
    if (!isBounded(bounds)) return new AdmittedRequest(this, { principal, operation, charge: undefined });
    const charge = chargeOf(principal, leastCostOf(operation, this.#config.costs), address);
    const request = { principal, operation, charge };
    const taken =
      waitMs === 0
        ? this.#take(charge)
        : this.#queueOf(principal).take(charge.subject, {
            waitMs,
            signal,
            attempt: () => this.#take(charge),
            address: charge.address,
          });
    return taken instanceof Promise ? this.#decideLate(request, taken, signal) : this.#decide(request, taken);
  }

  /** Admits a request about the principal itself: it is never charged. */
  admitUncounted(principal: Principal, operation: AccessOperation): AdmittedRequest {
    return new AdmittedRequest(this, { principal, operation, charge: undefined, isUncounted: true });
  }

  /**
   * The rest of each bound over time, without a charge; `undefined` while it cannot be read. `address`: as of `admit`;
   * without it the bound of addresses is left out.
   */
  async standing(principal: Principal, address?: string): Promise<readonly PlanStanding[] | undefined> {
    const charge = chargeOf(principal, 0, address);
    const today = this.#todayOf(charge.bounds);
    if (timedBoundsOf(charge.bounds, today).length === 0) return [];
    const left = (await this.#shared?.standings(charge)) ?? this.#standingsHere(charge);
    if (left === undefined) return undefined;
    return timedBoundsOf(charge.bounds, today).flatMap(({ name, limit, windowMs }) => {
      const found = left.find((standing) => standing.name === name);
      return found === undefined ? [] : { name, limit, windowMs, remaining: found.remaining, freeInMs: found.freeInMs };
    });
  }

  /**
   * Counts an event stream as in flight in an account of its own; the result ends it. A refusal is 429 or 503. Synchronous
   * where this process counts alone.
   */
  openStream(principal: Principal): StreamDecision | Promise<StreamDecision> {
    const bounds = streamBoundsOf(principal.plan);
    if (bounds.concurrency === undefined) return undefined;
    const charge: Charge = {
      subject: `${subjectOf(principal)}:streams`,
      hasKey: principal.name !== undefined,
      bounds,
      cost: 0,
    };
    const decide = ({ count, settle }: Counted): StreamDecision => {
      if (count.isAdmitted) return () => settle(0);
      this.#metrics.streamRefused(principal);
      return refusalOf(count, []);
    };
    const taken = this.#take(charge);
    return taken instanceof Promise ? taken.then(decide) : decide(taken);
  }

  /** Charges an admitted request. `count`: of a plan with bounds. */
  settle({ principal, charge, isUncounted }: ChargedRequest, settled: Settled, count: Counted | undefined): void {
    if (isUncounted === true) return;
    const cost = costOf(settled, this.#config.costs);
    if (charge !== undefined && count !== undefined) {
      count.settle(Math.max(0, cost - charge.cost));
      if (principal.plan.waitMs > 0) this.#queueOf(principal).wake(charge.subject);
    }
    this.#metrics.answered(principal, settled.outcome, cost);
    this.usage.add(principal, settled, cost);
  }

  /** Applies costs and `whenRedisIsDown`. */
  update(config: LimitsConfig): void {
    this.#config = config;
  }

  /** Refuses what waits, flushes usage and settlements to Redis within its timeouts, and frees everything. */
  async close(): Promise<void> {
    this.#queue.close();
    this.#queueOfAddresses.close();
    const settlements = this.#shared instanceof RedisCounter ? this.#shared.close() : undefined;
    await Promise.all([settlements, this.usage.close()]);
    this.#closeQuotas?.();
    this.#link?.close();
  }

  /** The day of a plan's quota. */
  #todayOf({ quota }: Bounds): CalendarDay | undefined {
    return quota === undefined ? undefined : this.#memory.quotas.today();
  }

  /** The rest by the counts of this process; `undefined` where it does not count requests at the moment. */
  #standingsHere(charge: Charge): readonly BoundStanding[] | undefined {
    if (this.#link !== undefined && this.#config.whenRedisIsDown !== 'local') return undefined;
    return this.#memory.standings(charge);
  }

  #queueOf({ name }: Principal): LimitQueue {
    return name === undefined ? this.#queueOfAddresses : this.#queue;
  }

  #take(charge: Charge): Counted | Promise<Counted> {
    return this.#shared === undefined ? this.#memory.take(charge) : this.#takeShared(this.#shared, charge);
  }

  /** Follows `access.whenRedisIsDown` while Redis does not answer; for the primary, this process counts. */
  async #takeShared(shared: RedisCounter | PrimaryCounter, charge: Charge): Promise<Counted> {
    const choice = this.#link === undefined ? 'local' : this.#config.whenRedisIsDown;
    const taken = await shared.take(charge);
    if (typeof taken === 'string') {
      if (this.#link !== undefined) this.#metrics.fellBack(choice);
      return choice === 'local' ? this.#memory.take(charge, taken === 'unanswered') : uncounted[choice];
    }
    if (choice !== 'local' || !taken.count.isAdmitted) return taken;
    const settleHere = this.#memory.note(charge);
    return {
      count: taken.count,
      settle: (extraCost) => {
        settleHere(extraCost);
        taken.settle(extraCost);
      },
    };
  }

  /** Apart from `admit`: a count in memory costs no promise and no closure. */
  async #decideLate(
    request: ChargedRequest,
    counting: Promise<Counted>,
    signal: CancelSignal,
  ): Promise<LimitDecision | undefined> {
    const taken = await counting;
    if (!signal.aborted) return this.#decide(request, taken);
    taken.settle(0);
    return undefined;
  }

  #decide(request: ChargedRequest, taken: Counted): LimitDecision {
    const { principal, operation } = request;
    const { count } = taken;
    const bounds = boundsOf(principal.plan);
    const headers = limitHeaders(bounds, count.standings, this.#todayOf(bounds));
    if (count.isAdmitted) return new AdmittedRequest(this, request, headers, taken);
    this.usage.addRefusal(principal, operation);
    this.#metrics.limited(principal, count.over);
    return refusalOf(count, headers);
  }
}

/** Counts of a Redis that does not answer. */
const uncounted: Readonly<Record<'refuse' | 'allow', Counted>> = {
  refuse: { count: { isAdmitted: false, over: 'unavailable', freeInMs: 0, standings: [] }, settle: noSettlement },
  allow: { count: { isAdmitted: true, standings: [] }, settle: noSettlement },
};

/** 429, or 503 where nothing could count the request. */
function refusalOf({ over, freeInMs }: LimitCount & { isAdmitted: false }, flat: readonly string[]): GatewayError {
  const seconds = freeInMs === 0 ? unknownSeconds : Math.max(1, Math.ceil(freeInMs / 1_000));
  const headers = [...flat, 'Retry-After', String(seconds)];
  switch (over) {
    case 'unavailable':
      break;
    case 'day':
    case 'month':
      return new GatewayError('rateLimited', `the quota of the ${over} is used up; try again after it`, { headers });
    case 'address':
      return new GatewayError('rateLimited', 'over the limit of one address in the plan; try again', { headers });
    case 'requests':
    case 'cost':
    case 'burst':
    case 'concurrency':
      return new GatewayError('rateLimited', 'over the limits of the plan; try again', { headers });
  }
  return new GatewayError('unavailable', 'requests cannot be counted at the moment; try again', {
    headers,
    reason: 'not counted',
  });
}

/** The parts of a response that access follows, common to every transport. */
export interface Answer {
  readonly statusCode: number;
  readonly headersSent: boolean;
  /** The client is gone, or the answer broke off. */
  readonly destroyed: boolean;
  /** 'close': the answer is out or abandoned. */
  once(event: 'close', listener: () => void): unknown;
}

/** Result of a request so far. */
interface RequestResult extends Pick<Settled, 'upstreamMs' | 'gasUsed' | 'bytes' | 'bodyBytes'> {
  readonly outcome: Outcome;
}

const nothingYet: RequestResult = { outcome: 'local', upstreamMs: 0, gasUsed: undefined, bytes: 0, bodyBytes: 0 };

/** Charges one request to its principal, once, when its answer is out and no work for it is in flight. */
export class AdmittedRequest {
  /** Replaced by `renew` alone. */
  principal: Principal;
  readonly operation: AccessOperation;
  /** `RateLimit` and `RateLimit-Policy`, flat: every answer to it carries them. */
  readonly headers: readonly string[];
  /** Canonical name of the function of a view, once its body is read; `undefined`: it is not certain. */
  functionId: string | undefined = undefined;
  readonly #limits: PlanLimits;
  readonly #request: ChargedRequest;
  readonly #count: Counted | undefined;
  #isSettled = false;
  #isWorkedOn = false;
  /** Whether the head was sent at the end; undefined before the end. */
  #isAnswered: boolean | undefined;
  #result = nothingYet;
  #waitsSinceMs: number | undefined;

  /** `count`: of a plan with bounds. */
  constructor(limits: PlanLimits, request: ChargedRequest, headers: readonly string[] = [], count?: Counted) {
    this.principal = request.principal;
    this.operation = request.operation;
    this.headers = headers;
    this.#limits = limits;
    this.#request = request;
    this.#count = count;
  }

  /** Whether the answer is private to a key's holder: shared caches must not store it. */
  get isPrivate(): boolean {
    return this.principal.name !== undefined;
  }

  /** The fields of a log line: no tenant without a key, since lines contain no client address. */
  get logged(): { readonly tenant: string | undefined; readonly plan: string } {
    const [, tenant, plan] = usageSubjectOf(this.principal);
    return { tenant: tenant ?? undefined, plan };
  }

  /** Replaces the source of the final result. */
  follow(result: RequestResult): void {
    this.#result = result;
  }

  /**
   * Admits further work for the client of a stream; `undefined`: its plan refuses it, or the client hung up. Without the
   * plan's wait, which would hold up the work of other clients: its next turn asks again.
   */
  again(signal: CancelSignal): AdmittedRequest | undefined | Promise<AdmittedRequest | undefined> {
    const options = { address: this.#request.charge?.address, waitMs: 0 };
    const decision = this.#limits.admit(this.principal, this.operation, signal, options);
    return decision instanceof Promise ? decision.then(admittedOf) : admittedOf(decision);
  }

  /** Has further work charged to the client as it is now: its key may be of another plan since the stream began. */
  renew(principal: Principal): void {
    this.principal = principal;
  }

  /** Counts an event stream for the client, see `PlanLimits.openStream`. */
  openStream(): ReturnType<PlanLimits['openStream']> {
    return this.#limits.openStream(this.principal);
  }

  /** Records bytes of a stream after the end of its request. */
  addBytes(bytes: number): void {
    this.#limits.usage.addBytes(this.principal, this.operation, bytes);
  }

  /** Starts the clock of the wait for a node. */
  noteWait(): void {
    this.#waitsSinceMs ??= performance.now();
  }

  /** Keeps the concurrency permit until `work` ends, even after a hang-up. `work` never rejects. */
  holdFor(work: Promise<void>, response: Answer): void {
    this.#isWorkedOn = true;
    void work.then(() => {
      this.#isWorkedOn = false;
      if (this.#isAnswered !== undefined) this.settle(response);
    });
  }

  /** Reports the result once, when the answer is out or abandoned and no work is in flight. */
  settle({ headersSent, statusCode }: Pick<Answer, 'headersSent' | 'statusCode'>): void {
    this.#isAnswered ??= headersSent;
    if (this.#isSettled || this.#isWorkedOn) return;
    this.#isSettled = true;
    const { operation } = this;
    const { outcome, upstreamMs, gasUsed, bytes, bodyBytes } = this.#result;
    // No spread: it would copy property by property, for each hit.
    const settled: Settled = this.#isAnswered
      ? { operation, outcome: charged[outcome], status: statusCode, upstreamMs, gasUsed, bytes, bodyBytes }
      : { operation, outcome: 'error', status: hungUp, upstreamMs: this.#waitedMs(), gasUsed, bytes, bodyBytes };
    this.#limits.settle(this.#request, settled, this.#count);
  }

  /**
   * Node time of a request whose client hung up before the head: its wait. A view is charged as executed (cost.ts),
   * because nodes finish it. Its gas is charged to the next leader of the flight; without one, the gas is unrecorded.
   */
  #waitedMs(): number {
    const waitedMs = this.#waitsSinceMs === undefined ? 0 : performance.now() - this.#waitsSinceMs;
    return Math.max(this.#result.upstreamMs, waitedMs);
  }

  /** Settles at the latest when `response` closes: for waits without an `Exchange`. */
  settleAtClose(response: Answer): void {
    response.once('close', () => this.settle(response));
  }
}

function admittedOf(decision: LimitDecision | undefined): AdmittedRequest | undefined {
  return decision instanceof AdmittedRequest ? decision : undefined;
}

/** Outcomes as plans charge them. */
const charged: Readonly<Record<Outcome, Settled['outcome']>> = {
  memory: 'hit',
  store: 'hit',
  redis: 'hit',
  collapsed: 'collapsed',
  miss: 'miss',
  passed: 'miss',
  local: 'local',
  refused: 'error',
  failed: 'error',
};

/** Status of a hang-up in the access logs of common proxies; HTTP defines none. */
const hungUp = 499;

const choices: Readonly<Record<LimitsConfig['whenRedisIsDown'], string>> = {
  local: 'each replica counts for itself',
  refuse: 'requests with limits are refused',
  allow: 'requests are not counted',
};

function recordTrouble(
  journal: Journal,
  { server, trouble, isOn, reason }: StoreTrouble,
  choice: LimitsConfig['whenRedisIsDown'],
): void {
  const place = { trouble, whenRedisIsDown: choice, ...(server === '' ? {} : { server }) };
  if (isOn) journal.record('limits alone', { reason, ...place }, `limits are not counted in Redis: ${choices[choice]}`);
  else journal.record('limits shared', place, 'limits are counted in Redis again');
}
