/** Counts in Redis, for all replicas: windows, requests in flight and quotas. */
import { randomBytes } from 'node:crypto';
import { runScript, type Store } from '../redis.ts';
import { onceATurn, piecesOf, Rounds } from '../rounds.ts';
import { type CalendarDay, periods } from './calendar.ts';
import {
  boundNames,
  type BoundStanding,
  type Charge,
  type Counted,
  type LimitCount,
  noSettlement,
  type Quota,
} from './counter.ts';
import { rounded } from './cost.ts';
import { admission, quotaReport, renewal, settlement } from './limits-script.ts';
import type { PeriodUse, Quotas, QuotaUse } from './quotas.ts';
import { partMsOf } from './window.ts';

const usualLeaseMs = 30_000;

/** Counts in Redis, for all replicas: one script per request, its settlement later in the background. */
export class RedisCounter {
  readonly quotas: RedisQuotas;
  readonly #store: Store;
  readonly #prefix: string;
  readonly #leaseMs: number;
  readonly #settlements: Settlements;
  /** Distinguishes the leases of this process. */
  readonly #process = randomBytes(9).toString('base64url');
  #leases = 0;

  /**
   * `prefix`: of names in Redis. `quotas`: as this process knows them. `onLost`: called when a settlement is lost, or an
   * account of a quota. `leaseMs`: lifetime of a lease without renewal.
   */
  constructor(
    store: Store,
    prefix: string,
    quotas: Quotas,
    onLost: (what: 'settlement' | 'quota') => void,
    leaseMs = usualLeaseMs,
  ) {
    this.#store = store;
    this.#prefix = prefix;
    this.#leaseMs = leaseMs;
    this.#settlements = new Settlements(store, () => onLost('settlement'), leaseMs);
    this.quotas = new RedisQuotas(store, prefix, this.#process, quotas, () => onLost('quota'));
  }

  /**
   * Counts the request if there is room. `unanswered`: Redis did not answer in time, and may have counted it; `unsent`: it
   * has not.
   */
  async take(charge: Charge): Promise<Counted | 'unanswered' | 'unsent'> {
    const { cost, concurrency, quota } = charge.bounds;
    const account = this.#accountOf(charge);
    const lease = concurrency === undefined ? undefined : `${this.#process}${(this.#leases += 1).toString(36)}`;
    const count = await this.#run(charge, account, lease);
    if (typeof count === 'string') return count;
    if (!count.isAdmitted) return { count, settle: noSettlement };
    if (lease !== undefined) this.#settlements.begin(account, lease);
    return {
      count,
      settle: (extraCost) => {
        this.#settlements.end(account, cost === undefined ? 0 : extraCost, lease);
        if (quota !== undefined) this.quotas.settle(charge, quota, extraCost);
      },
    };
  }

  /** Reads the rest of each bound, without a charge; `undefined` when Redis did not answer in time. */
  async standings(charge: Charge): Promise<readonly BoundStanding[] | undefined> {
    const count = await this.#run(charge, this.#accountOf(charge), undefined, true);
    return typeof count === 'string' ? undefined : count.standings;
  }

  /** Resolves when every settlement is written, or lost. */
  async close(): Promise<void> {
    await Promise.all([this.#settlements.close(), this.quotas.close()]);
  }

  /** `lease`: absent where concurrency is not bounded; `isRead`: counts nothing. */
  async #run(
    charge: Charge,
    { windows, leases, partMs }: AccountNames,
    lease = '',
    isRead = false,
  ): Promise<LimitCount | 'unanswered' | 'unsent'> {
    const { requests, cost, burst, concurrency, windowMs, perAddress, quota } = charge.bounds;
    const limits = [requests, cost, burst, concurrency].map((limit) => String(limit ?? -1));
    const args = [String(partMs), ...limits, String(charge.cost), lease, String(this.#leaseMs)];
    const names = [windows, leases];
    const claim = quota && this.quotas.claim(charge, quota);
    const bound = charge.address === undefined ? undefined : perAddress;
    if (claim !== undefined || bound !== undefined || isRead) {
      const ofAddress = `${windows.slice(0, -String(windowMs).length)}address:${charge.address}:${bound?.windowMs}`;
      names.push(claim?.name ?? windows, bound === undefined ? windows : ofAddress);
      args.push(isRead ? '1' : '0', String(bound?.requests ?? -1), String(partMsOf(bound?.windowMs ?? windowMs)));
      args.push(...(claim?.args ?? []));
    }
    let isSent = false;
    const outcome = await this.#store.write(windows, (client) => {
      isSent = client.status === 'ready';
      return runScript(client, admission, names, args);
    });
    // Redis may have admitted the request all the same: its lease ends without a renewal.
    if ('failure' in outcome) return isSent && outcome.failure !== 'refused' ? 'unanswered' : 'unsent';
    return parseCount(outcome.value, charge, claim) ?? 'unanswered';
  }

  #accountOf({ subject, bounds: { windowMs } }: Charge): AccountNames {
    const windows = `${this.#prefix}:limits:{${subject}}:${windowMs}`;
    return { windows, leases: `${windows}:leases`, partMs: partMsOf(windowMs) };
  }
}

/** Bounds over time, in the order of the reply, which begins with `headLength` other parts. */
const windowNames = ['requests', 'cost', 'burst', 'address'] as const;
const headLength = 3;
/** Parts of a reply without a quota; the totals of one follow. */
const countLength = headLength + 2 * windowNames.length;

/** `undefined` for a malformed reply. */
function parseCount(
  reply: unknown,
  { bounds }: Charge,
  claim: ReturnType<RedisQuotas['claim']> | undefined,
): LimitCount | undefined {
  if (!Array.isArray(reply) || reply.length < countLength) return undefined;
  const [isAdmitted, over, freeInMs] = reply as [number, string, number];
  const standings: BoundStanding[] = [];
  let at = headLength;
  for (const name of windowNames) {
    const limit = name === 'address' ? bounds.perAddress?.requests : bounds[name];
    const inUse = reply[at] as number;
    const freeMs = reply[at + 1] as number;
    at += 2;
    if (limit === undefined || inUse < 0) continue;
    standings.push({ name, remaining: Math.max(0, limit - inUse), freeInMs: freeMs < 0 ? undefined : freeMs });
  }
  if (claim !== undefined) {
    if (!claim.learn(reply, countLength)) return undefined;
    claim.addStandings(standings);
  }
  if (isAdmitted === 1) return { isAdmitted: true, standings };
  return { isAdmitted: false, over: boundNames.find((name) => name === over) ?? 'requests', freeInMs, standings };
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

/** Accounts with a waiting settlement at most, and scripts in flight. */
const maxWaiting = 8_192;
const maxRunning = 256;
/** Leases of one script at most: more would block the server. */
const maxLeases = 256;

/**
 * Final costs and ended leases of the requests of one process, written in the background: grouped by account, bounded in
 * number. Leases of requests in flight are renewed. A superfluous lease (after an admission or settlement without an
 * answer) ends without a renewal.
 */
class Settlements {
  readonly #store: Store;
  readonly #onLost: () => void;
  readonly #leaseMs: number;
  readonly #waiting = new Map<string, Settlement>();
  readonly #inFlight = new Map<string, { readonly leases: string; renewAtMs: number }>();
  readonly #renewals: NodeJS.Timeout;
  readonly #running = new Set<Promise<void>>();
  /** A client's next request finds its lease free. */
  readonly #plan = onceATurn(() => this.#flush());

  constructor(store: Store, onLost: () => void, leaseMs: number) {
    this.#store = store;
    this.#onLost = onLost;
    this.#leaseMs = leaseMs;
    this.#renewals = setInterval(() => this.#renew(), leaseMs / 6).unref();
  }

  /** Renews the lease of an admitted request until `end`. */
  begin({ leases }: AccountNames, lease: string): void {
    this.#inFlight.set(lease, { leases, renewAtMs: performance.now() + this.#leaseMs / 3 });
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
    let cost = String(rounded(extraCost));
    for (const some of leases.length === 0 ? [leases] : piecesOf(leases, maxLeases)) {
      const args = [String(account.partMs), cost, ...some];
      cost = '0';
      const outcome = await this.#store.write(account.windows, (client) =>
        runScript(client, settlement, [account.windows, account.leases], args),
      );
      if ('failure' in outcome) return this.#onLost();
    }
  }

  #renew(): void {
    const nowMs = performance.now();
    const due = [...this.#inFlight].filter(([, { renewAtMs }]) => renewAtMs <= nowMs);
    for (const [, request] of due) request.renewAtMs = nowMs + this.#leaseMs / 3;
    for (const [key, requests] of Map.groupBy(due, ([, { leases }]) => leases)) {
      const leases = requests.map(([lease]) => lease);
      void this.#renewSome(key, leases);
    }
  }

  /** After a failed renewal the lease ends: its request no longer counts as in flight. */
  async #renewSome(key: string, leases: readonly string[]): Promise<void> {
    for (const some of piecesOf(leases, maxLeases)) {
      await this.#store.write(key, (client) => runScript(client, renewal, [key], [String(this.#leaseMs), ...some]));
    }
  }
}

/** Totals stay this long after their month. */
const keptAfterMs = 5 * 86_400_000;
/** Interval of reports for accounts whose requests do not report. */
const everyMs = 2_000;
/** One loss concerns many accounts: they are reported once within this time. */
const calmMs = 60_000;
/** Accounts that wait for a report at most: those that `Quotas` has, about. */
const mostWaiting = 262_144;

/** The totals of quotas in Redis that one process has read, and its reports to Redis. */
class RedisQuotas {
  readonly #store: Store;
  readonly #prefix: string;
  readonly #process: string;
  readonly #quotas: Quotas;
  readonly #onLost: () => void;
  readonly #waiting = new Set<QuotaUse>();
  readonly #rounds = new Rounds(
    everyMs,
    () => [...this.#waiting],
    (use) => this.#report(use),
  );
  #reportedAllAtMs = -Infinity;

  /** `process`: a unique name. `onLost`: called for an account that cannot be reported for want of room. */
  constructor(store: Store, prefix: string, process: string, quotas: Quotas, onLost: () => void) {
    this.#store = store;
    this.#prefix = prefix;
    this.#process = process;
    this.#quotas = quotas;
    this.#onLost = onLost;
    // Reported with the account's next request, or soon.
    quotas.onCounted = (use) => this.#note(use);
  }

  /** A request's part in the script of its admission. */
  claim(charge: Charge, quota: Quota) {
    const claimed = this.#quotas.charge(charge, quota);
    const { use, units, today, nowMs } = claimed;
    const { name, process, keptMs, learn } = this.#account(use, today, nowMs);
    const args = [process, String(units), keptMs];
    for (const period of periods) args.push(argumentOf(use[period], quota[period], today.toMs[period] - nowMs));
    const addStandings = (standings: BoundStanding[]): void => this.#quotas.addStandings(claimed, standings);
    return { name, args, learn, addStandings };
  }

  /** Settles a request's cost beyond its charge, reported before the next reads from sockets. */
  settle(charge: Charge, quota: Quota, extraCost: number): void {
    if (quota.unit !== 'cost' || extraCost <= 0) return;
    this.#quotas.settle(charge, quota, extraCost);
    this.#rounds.plan();
  }

  /** Redis was away, and may have lost its data: reports every account. */
  reportAll(): void {
    this.#reportedAllAtMs = performance.now();
    for (const use of this.#quotas.all()) if (use.month.known > 0) this.#note(use);
    void this.#rounds.run();
  }

  /** Resolves when all accounts are reported, or Redis does not answer. */
  close(): Promise<void> {
    return this.#rounds.close();
  }

  #note(use: QuotaUse): void {
    if (this.#waiting.has(use)) return;
    if (this.#waiting.size >= mostWaiting) this.#onLost();
    else this.#waiting.add(use);
  }

  async #report(use: QuotaUse): Promise<boolean> {
    const today = this.#quotas.today();
    use.turn(today);
    const { name, process, keptMs, learn } = this.#account(use, today, this.#quotas.now());
    const args = [process, keptMs, ...periods.map((period) => argumentOf(use[period], undefined, 0))];
    const outcome = await this.#store.write(name, (client) => runScript(client, quotaReport, [name], args));
    if ('failure' in outcome || !Array.isArray(outcome.value) || !learn(outcome.value)) return false;
    // More may have come meanwhile.
    if (!use.isUnreported) this.#waiting.delete(use);
    return true;
  }

  #account(use: QuotaUse, { month, toMs }: CalendarDay, nowMs: number) {
    const asked = periods.map((period): [PeriodUse, number] => [use[period], use[period].alone]);
    return {
      name: `${this.#prefix}:limits:{${use.subject}}:${month}:${use.unit}`,
      // An account that was dropped and came again counts `alone` from 0.
      process: `${this.#process}.${use.number}`,
      keptMs: String(Math.ceil(toMs.month - nowMs + keptAfterMs)),
      /** Takes over the totals that the script replied, from `first` on; false for a malformed reply. */
      learn: (reply: readonly unknown[], first = 0): boolean => {
        const amounts = periods.map((_, index) => Number(reply[first + index]));
        const epoch = reply[first + periods.length];
        if (typeof epoch !== 'string' || !amounts.every(Number.isFinite)) return false;
        const isLost = asked.some(([period]) => period.known > 0 && period.epoch !== epoch);
        for (const [index, [period, reported]] of asked.entries()) period.learn(amounts[index] ?? 0, reported, epoch);
        // Without an outage: emptied, or evicted. Other accounts may be lost, too, and send nothing.
        if (isLost && performance.now() - this.#reportedAllAtMs > calmMs) this.reportAll();
        return true;
      },
    };
  }
}

/** In the form of the scripts: one text costs less than seven arguments. */
function argumentOf(
  { name, known, reported, alone, epoch }: PeriodUse,
  limit: number | undefined,
  leftMs: number,
): string {
  return `${name} ${limit ?? -1} ${known} ${reported} ${alone} ${epoch} ${Math.ceil(leftMs)}`;
}
