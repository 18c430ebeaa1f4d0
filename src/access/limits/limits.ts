/** Requests within their plans: counted, made to wait, and charged at their end. */
import type { AccessConfig } from '../../config/index.ts';
import { type CancelSignal, GatewayError } from '../../ledger/index.ts';
import type { Journal, Outcome } from '../../metrics/index.ts';
import type { AccessMetrics } from '../access-metrics.ts';
import type { AccessOperation, Principal } from '../keys/principals.ts';
import type { AccessRedis, OpenStore, StoreTrouble } from '../redis.ts';
import { RedisUsage } from '../usage/redis-usage.ts';
import { type UsageStore, usageSubjectOf } from '../usage/usage-store.ts';
import { Usage } from '../usage/usage.ts';
import type { CalendarDay } from './calendar.ts';
import { costOf, leastCostOf, type Settled } from './cost.ts';
import {
  type BoundName,
  type BoundStanding,
  type Charge,
  type Counted,
  type LimitCount,
  limitHeaders,
  noSettlement,
  type TimedBound,
  timedBoundsOf,
} from './counter.ts';
import { LimitQueue } from './limit-queue.ts';
import { MemoryCounter } from './memory-counter.ts';
import { GatewayCounts, PrimaryCounter, type PrimaryPeers } from './primary-counter.ts';
import { Quotas } from './quotas.ts';
import { RedisCounter } from './redis-counter.ts';

/** The part of the config that limits depend on. */
export type LimitsConfig = Pick<AccessConfig, 'costs' | 'whenRedisIsDown'>;

interface LimitsDependencies {
  readonly metrics: AccessMetrics;
  readonly journal: Journal;
  readonly processes: number;
  /** Counts for all replicas, over a connection of its own; absent: `peers`, or else this process counts. */
  readonly redis: AccessRedis | undefined;
  readonly peers: PrimaryPeers | undefined;
  /** Keeps the counts of a process that counts for all; absent: they last as long as the process. */
  readonly folder?: string | undefined;
  /** Unix time in ms, for the day and month of quotas. Default: the system's. */
  readonly now?: (() => number) | undefined;
}

/** The rest of a bound over time, with its limit and span. */
type PlanStanding = TimedBound & BoundStanding;

/** The decision on a request: admitted, or 429 or 503. `undefined`: the client hung up during its wait. */
type LimitDecision = AdmittedRequest | GatewayError;

/** The end of an event stream, or the refusal; `undefined`: its plan has no bound of streams. */
type StreamDecision = (() => void) | GatewayError | undefined;

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
  readonly #link: OpenStore | undefined;
  /** Servers of Redis in trouble; '' for a single one. */
  readonly #away = new Set<string>();
  #config: LimitsConfig;

  constructor(config: LimitsConfig, dependencies: LimitsDependencies) {
    const { metrics, journal, processes, redis, peers, folder, now } = dependencies;
    this.#config = config;
    this.#metrics = metrics;
    const createMemory = (): MemoryCounter =>
      new MemoryCounter(processes, new Quotas({ processes, now, onDropped: () => metrics.lost('quota') }));
    let store: UsageStore;
    if (redis !== undefined) {
      this.#memory = createMemory();
      this.#link = redis.link((change) => this.#follow(change, journal));
      this.#shared = new RedisCounter(this.#link, redis.keyPrefix, this.#memory.quotas, metrics.lost);
      store = new RedisUsage(this.#link, redis.keyPrefix);
    } else if (peers !== undefined) {
      this.#memory = createMemory();
      this.#shared = new PrimaryCounter(peers.limitService, this.#memory.quotas);
      store = peers.usageStore;
    } else {
      const counts = new GatewayCounts({ folder, journal, now }, metrics.lost);
      this.#memory = counts.counter;
      store = counts.usage;
    }
    this.started = this.#link?.started;
    this.usage = new Usage(store, () => metrics.lost('usage'), now);
  }

  /** Whether every server of Redis counts; true without Redis. */
  get isShared(): boolean {
    return this.#away.size === 0;
  }

  /** Whether requests are refused because Redis does not count them. */
  get isRefusing(): boolean {
    return !this.isShared && this.#config.whenRedisIsDown === 'refuse';
  }

  get waiting(): number {
    return this.#queue.waiting;
  }

  /**
   * Synchronous where this process counts alone and no request waits. Never rejects. `signal`: the client hangs up.
   * `address`: the client's `countedNetwork`, for plans with `perAddress`. `waitMs`: longest wait for its limits.
   */
  admit(
    principal: Principal,
    operation: AccessOperation,
    signal: CancelSignal,
    address?: string,
    waitMs = principal.plan.waitMs,
  ): LimitDecision | Promise<LimitDecision | undefined> {
    const charge = chargeOf(principal, leastCostOf(operation, this.#config.costs), address);
    if (charge === undefined) return new AdmittedRequest(this, principal, operation);
    const taken =
      waitMs === 0
        ? this.#take(charge)
        : this.#queue.take(charge, { waitMs, signal, attempt: () => this.#take(charge) });
    if (!(taken instanceof Promise)) return this.#decide(principal, operation, charge, taken);
    return taken.then((late) => {
      if (!signal.aborted) return this.#decide(principal, operation, charge, late);
      late.settle(0);
      return undefined;
    });
  }

  /** Admits a request about the principal itself: it is never charged. */
  admitUncounted(principal: Principal, operation: AccessOperation, address: string | undefined): AdmittedRequest {
    return AdmittedRequest.uncounted(this, principal, operation, chargeOf(principal, 0, address));
  }

  /** The rest of each bound over time, without a charge; `undefined`: it cannot be read. `address`: as of `admit`. */
  async standing(principal: Principal, address?: string): Promise<readonly PlanStanding[] | undefined> {
    const charge = chargeOf(principal, 0, address);
    if (charge === undefined) return [];
    const bounds = timedBoundsOf(charge.bounds, this.#todayOf(charge));
    if (bounds.length === 0) return [];
    const left = (await this.#shared?.standings(charge)) ?? this.#standingsHere(charge);
    if (left === undefined) return undefined;
    const standings: PlanStanding[] = [];
    for (const bound of bounds) {
      const found = left.find(({ name }) => name === bound.name);
      if (found !== undefined) standings.push({ ...bound, ...found });
    }
    return standings;
  }

  /** Counts an event stream as in flight in an account of its own; the result ends it. A refusal is 429 or 503. */
  openStream(principal: Principal): StreamDecision | Promise<StreamDecision> {
    const { streamBounds: bounds } = principal.plan;
    if (bounds === undefined) return undefined;
    const hasKey = principal.name !== undefined;
    const taken = this.#take({ subject: `${principal.account}:streams`, hasKey, bounds, cost: 0 });
    const decide = ({ count, settle }: Counted): StreamDecision => {
      if (count.isAdmitted) return () => settle(0);
      this.#metrics.streamRefused(principal);
      return refusalOf(count, []);
    };
    return taken instanceof Promise ? taken.then(decide) : decide(taken);
  }

  /** Charges an admitted request. `charge`, `counted`: of a plan with bounds. */
  settle(principal: Principal, settled: Settled, charge: Charge | undefined, counted: Counted | undefined): void {
    const cost = costOf(settled, this.#config.costs);
    if (charge !== undefined && counted !== undefined) {
      counted.settle(Math.max(0, cost - charge.cost));
      if (principal.plan.waitMs > 0) this.#queue.wake(charge.subject);
    }
    this.#metrics.answered(principal, settled.outcome, cost);
    this.usage.add(principal, settled, cost);
  }

  update(config: LimitsConfig): void {
    this.#config = config;
  }

  /** Refuses what waits, flushes usage and settlements to Redis within its timeouts, and frees everything. */
  async close(): Promise<void> {
    this.#queue.close();
    await Promise.all([this.#ofRedis?.close(), this.usage.close()]);
    this.#memory.quotas.close();
    this.#link?.close();
  }

  get #ofRedis(): RedisCounter | undefined {
    return this.#shared instanceof RedisCounter ? this.#shared : undefined;
  }

  /** Follows the state of Redis. */
  #follow({ server, trouble, isOn, reason }: StoreTrouble, journal: Journal): void {
    const { whenRedisIsDown } = this.#config;
    const place = { trouble, whenRedisIsDown, ...(server === '' ? {} : { server }) };
    if (isOn) {
      this.#away.add(server);
      const message = `limits are not counted in Redis: ${choices[whenRedisIsDown]}`;
      journal.record('limits alone', { reason, ...place }, message);
      return;
    }
    this.#away.delete(server);
    journal.record('limits shared', place, 'limits are counted in Redis again');
    this.#ofRedis?.quotas.reportAll();
  }

  #todayOf({ bounds }: Charge): CalendarDay | undefined {
    return bounds.quota === undefined ? undefined : this.#memory.quotas.today();
  }

  /** The rest by the counts of this process; `undefined` where it does not count requests at the moment. */
  #standingsHere(charge: Charge): readonly BoundStanding[] | undefined {
    if (this.#link !== undefined && this.#config.whenRedisIsDown !== 'local') return undefined;
    return this.#memory.standings(charge);
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

  #decide(principal: Principal, operation: AccessOperation, charge: Charge, taken: Counted): LimitDecision {
    const { count } = taken;
    const headers = limitHeaders(charge.bounds, count.standings, this.#todayOf(charge));
    if (count.isAdmitted) return new AdmittedRequest(this, principal, operation, charge, taken, headers);
    this.usage.addRefusal(principal, operation);
    this.#metrics.limited(principal, count.over);
    return refusalOf(count, headers);
  }
}

const choices: Readonly<Record<LimitsConfig['whenRedisIsDown'], string>> = {
  local: 'each replica counts for itself',
  refuse: 'requests with limits are refused',
  allow: 'requests are not counted',
};

/** Counts of a Redis that does not answer. */
const uncounted: Readonly<Record<'refuse' | 'allow', Counted>> = {
  refuse: { count: { isAdmitted: false, over: 'unavailable', freeInMs: 0, standings: [] }, settle: noSettlement },
  allow: { count: { isAdmitted: true, standings: [] }, settle: noSettlement },
};

/** The charge of a principal; `undefined`: its plan has no bounds. `address`: of a client with a key. */
function chargeOf({ name, tenant, account, plan }: Principal, cost: number, address?: string): Charge | undefined {
  const { bounds } = plan;
  if (bounds === undefined) return undefined;
  const counted = bounds.perAddress === undefined ? undefined : name === undefined ? tenant : address;
  return { subject: account, hasKey: name !== undefined, bounds, cost, address: counted };
}

/** 429, or 503 where nothing could count the request. */
function refusalOf({ over, freeInMs }: LimitCount & { isAdmitted: false }, flat: readonly string[]): GatewayError {
  const seconds = freeInMs === 0 ? unknownSeconds : Math.max(1, Math.ceil(freeInMs / 1_000));
  const headers = [...flat, 'Retry-After', String(seconds)];
  if (over === 'unavailable') {
    const message = 'requests cannot be counted at the moment; try again';
    return new GatewayError('unavailable', message, { headers, reason: 'not counted' });
  }
  return new GatewayError('rateLimited', refusals[over] ?? 'over the limits of the plan; try again', { headers });
}

const refusals: Readonly<Partial<Record<BoundName, string>>> = {
  address: 'over the limit of one address in the plan; try again',
  day: 'the quota of the day is used up; try again after it',
  month: 'the quota of the month is used up; try again after it',
};

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
  /** The client as it is now: the key of a stream may be of another plan since it began. */
  principal: Principal;
  readonly operation: AccessOperation;
  /** `RateLimit` and `RateLimit-Policy`, flat: every answer to it carries them. */
  readonly headers: readonly string[];
  /** Canonical name of the function of a view, once its body is read; `undefined`: it is not certain. */
  functionId: string | undefined = undefined;
  readonly #limits: PlanLimits;
  /** The principal at the admission. */
  readonly #payer: Principal;
  readonly #charge: Charge | undefined;
  readonly #counted: Counted | undefined;
  #isSettled = false;
  #isWorkedOn = false;
  /** Whether the head was sent at the end; undefined before the end. */
  #isAnswered: boolean | undefined;
  #result = nothingYet;
  #waitsSinceMs: number | undefined;

  /** `charge` to `headers`: of a plan with bounds. */
  constructor(
    limits: PlanLimits,
    principal: Principal,
    operation: AccessOperation,
    charge?: Charge,
    counted?: Counted,
    headers: readonly string[] = [],
  ) {
    this.principal = principal;
    this.operation = operation;
    this.headers = headers;
    this.#limits = limits;
    this.#payer = principal;
    this.#charge = charge;
    this.#counted = counted;
  }

  /** A request that neither plan nor usage counts. */
  static uncounted(...request: ConstructorParameters<typeof AdmittedRequest>): AdmittedRequest {
    const uncounted = new AdmittedRequest(...request);
    uncounted.#isSettled = true;
    return uncounted;
  }

  /** The client's network, where its plan bounds each. */
  get address(): string | undefined {
    return this.#charge?.address;
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

  follow(result: RequestResult): void {
    this.#result = result;
  }

  /**
   * Admits further work for the client of a stream; `undefined`: its plan refuses it, or the client hung up. Without the
   * plan's wait, which would hold up the work of other clients: its next turn asks again.
   */
  again(signal: CancelSignal): AdmittedRequest | undefined | Promise<AdmittedRequest | undefined> {
    const decision = this.#limits.admit(this.principal, this.operation, signal, this.address, 0);
    return decision instanceof Promise ? decision.then(admittedOf) : admittedOf(decision);
  }

  /** The rest of each bound, see `PlanLimits.standing`. */
  standing(address: string | undefined): ReturnType<PlanLimits['standing']> {
    return this.#limits.standing(this.principal, address);
  }

  /** Counts an event stream for the client, see `PlanLimits.openStream`. */
  openStream(): ReturnType<PlanLimits['openStream']> {
    return this.#limits.openStream(this.principal);
  }

  addBytes(bytes: number): void {
    this.#limits.usage.addBytes(this.principal, this.operation, bytes);
  }

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
    this.#limits.settle(this.#payer, settled, this.#charge, this.#counted);
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
