/** Counts in the primary, for all workers, so that several grant no more than one. */
import type { Registry } from 'prom-client';
import type { Journal } from '../../metrics/index.ts';
import { createLostCounts } from '../access-metrics.ts';
import type { KeptCounts } from '../kept-records.ts';
import { LocalUsage } from '../usage/usage-store.ts';
import type { PendingReport, UsageHolder, UsageQuery, UsageStore } from '../usage/usage-store.ts';
import { periods } from './calendar.ts';
import { rounded } from './cost.ts';
import { type BoundStanding, type Charge, type Counted, type LimitCount, noSettlement } from './counter.ts';
import { MemoryCounter } from './memory-counter.ts';
import { Quotas } from './quotas.ts';

/** A request of one worker. `id`: unique there. */
type LimitRequest = { readonly id: number; readonly charge: Charge };
/** The end of a request. `extraCost`: its cost beyond its charge. */
type LimitEnd = { readonly id: number; readonly extraCost: number };
/** Units of a quota that a worker counted while the primary did not answer. */
type CountedAlone = { readonly charge: Charge; readonly units: number };

/** The primary over IPC, for one worker. Messages arrive in the order in which they were sent; calls reject without an answer in time. */
export interface PrimaryPeers {
  readonly limitService: {
    take(request: LimitRequest): Promise<LimitCount>;
    /** To be called also when `take` rejected: `id` may have been admitted. */
    settle(ended: LimitEnd): void;
    /** Adds to the account's quota. */
    countAlone(counted: CountedAlone): void;
    standings(charge: Charge): Promise<readonly BoundStanding[]>;
  };
  readonly usageStore: UsageStore;
}

/** Pause after a missing answer. */
const pauseMs = 1_000;

/** A worker's end. */
export class PrimaryCounter {
  readonly #service: PrimaryPeers['limitService'];
  /** Continue while the primary does not answer. */
  readonly #quotas: Quotas;
  #lastId = 0;
  #pausedUntilMs = -Infinity;

  constructor(service: PrimaryPeers['limitService'], quotas: Quotas) {
    this.#service = service;
    this.#quotas = quotas;
  }

  /**
   * Counts the request if there is room. `unanswered`: the primary may have counted it; `unsent`: it was not asked, because
   * it did not answer shortly before.
   */
  async take(charge: Charge): Promise<Counted | 'unanswered' | 'unsent'> {
    if (performance.now() < this.#pausedUntilMs) return 'unsent';
    const id = (this.#lastId += 1);
    try {
      this.#report(charge);
      const count = await this.#service.take({ id, charge });
      this.#learn(charge, count.standings);
      if (!count.isAdmitted) return { count, settle: noSettlement };
      return { count, settle: (extraCost) => this.#service.settle({ id, extraCost }) };
    } catch {
      this.#pausedUntilMs = performance.now() + pauseMs;
      this.#service.settle({ id, extraCost: 0 });
      return 'unanswered';
    }
  }

  /** Reads the rest of each bound; `undefined` when the primary did not answer in time. */
  standings(charge: Charge): Promise<readonly BoundStanding[] | undefined> {
    return this.#service.standings(charge).catch(() => undefined);
  }

  /** Messages of one process arrive once and in order, so that nothing is repeated. */
  #report(charge: Charge): void {
    const { quota } = charge.bounds;
    if (quota === undefined) return;
    const { month, day } = this.#quotas.useOf(charge, quota.unit);
    const units = rounded(month.alone - month.reported);
    if (units <= 0) return;
    this.#service.countAlone({ charge, units });
    for (const period of [day, month]) period.learn(period.known + period.alone - period.reported, period.alone);
  }

  #learn(charge: Charge, standings: readonly BoundStanding[]): void {
    const { quota } = charge.bounds;
    if (quota === undefined) return;
    const use = this.#quotas.useOf(charge, quota.unit);
    for (const name of periods) {
      const remaining = standings.find((standing) => standing.name === name)?.remaining;
      const limit = quota[name];
      if (limit !== undefined && remaining !== undefined) use[name].learn(limit - remaining, use[name].reported);
    }
  }
}

/** Counts and usage of a gateway without Redis: in its single process, or in the primary, for all workers. */
export class GatewayCounts {
  readonly counter: MemoryCounter;
  readonly usage: LocalUsage;
  /** The `settle` of each request in flight, by its id, of each live worker. */
  readonly #inFlight = new Map<number, Map<number, Counted['settle']>>();

  /** `onLost`: for want of room, a quota's account is dropped within its month, or sums of usage are. */
  constructor(kept: KeptCounts = {}, onLost: (what: 'quota' | 'usage') => void = () => undefined) {
    this.counter = new MemoryCounter(1, new Quotas({ ...kept, onDropped: () => onLost('quota') }));
    this.usage = new LocalUsage(kept, () => onLost('usage'));
  }

  /** Counts of the primary, which registers what it loses. */
  static ofPrimary(folder: string | undefined, journal: Journal, registry: Registry): GatewayCounts {
    return new GatewayCounts({ folder, journal }, createLostCounts(registry));
  }

  /** The primary's end of one worker's `PrimaryPeers`, until `release`. */
  handlersFor(worker: number) {
    const requests = new Map<number, Counted['settle']>();
    this.#inFlight.set(worker, requests);
    const { quotas } = this.counter;
    return {
      take: ({ id, charge }: LimitRequest): LimitCount => {
        const { count, settle } = this.counter.take(charge);
        if (!count.isAdmitted) return count;
        // Read after the exit of its worker: settled at once.
        if (this.#inFlight.get(worker) === requests) requests.set(id, settle);
        else settle(0);
        return count;
      },
      settle: ({ id, extraCost }: LimitEnd): void => {
        requests.get(id)?.(extraCost);
        requests.delete(id);
      },
      countAlone: ({ charge, units }: CountedAlone): void => {
        const { quota } = charge.bounds;
        if (quota !== undefined) quotas.add(quotas.useOf(charge, quota.unit), units);
      },
      standings: (charge: Charge): readonly BoundStanding[] => this.counter.standings(charge),
      addUsage: (report: PendingReport) => this.usage.add(report),
      readUsage: (query: UsageQuery) => this.usage.read(query),
      readUsageDays: ({ holder, month }: { readonly holder: UsageHolder; readonly month: string }) =>
        this.usage.readDays(holder, month),
    };
  }

  /** The worker has exited: settles its requests. */
  release(worker: number): void {
    for (const settle of this.#inFlight.get(worker)?.values() ?? []) settle(0);
    this.#inFlight.delete(worker);
  }

  /** Writes both to the folder. */
  close(): void {
    this.counter.quotas.close();
    this.usage.close();
  }
}
