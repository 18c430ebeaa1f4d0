/** Counts in the primary, for all workers, so that several grant no more than one. */
import type { Journal } from '../../metrics/index.ts';
import { type BoundStanding, type Charge, type Counted, type LimitCount, noSettlement } from './counter.ts';
import { periods } from './calendar.ts';
import { rounded } from './cost.ts';
import { MemoryCounter } from './memory-counter.ts';
import { createQuotas } from './quota-file.ts';
import type { Quotas } from './quotas.ts';

/** A request of one worker. `id`: unique there. */
interface LimitRequest {
  readonly id: number;
  readonly charge: Charge;
}

/** The end of a request. `extraCost`: its cost beyond its charge. */
interface LimitEnd {
  readonly id: number;
  readonly extraCost: number;
}

/** Units of a quota that a worker counted while the primary did not answer. */
interface CountedAlone {
  readonly charge: Charge;
  readonly units: number;
}

/** The primary's `LimitService` over IPC. Messages arrive in the order in which they were sent. */
export interface LimitServiceClient {
  /** Rejects without an answer in time. */
  take(request: LimitRequest): Promise<LimitCount>;
  /** To be called also when `take` rejected: `id` may have been admitted. */
  settle(ended: LimitEnd): void;
  /** Adds to the account's quota. */
  countAlone(counted: CountedAlone): void;
  /** Reads the rest of each bound, without a charge. Rejects without an answer in time. */
  standings(charge: Charge): Promise<readonly BoundStanding[]>;
}

/** Pause after a missing answer. */
const pauseMs = 1_000;

/** A worker's end. */
export class PrimaryCounter {
  readonly #service: LimitServiceClient;
  /** Continue while the primary does not answer. */
  readonly #quotas: Quotas;
  #lastId = 0;
  #pausedUntilMs = -Infinity;

  constructor(service: LimitServiceClient, quotas: Quotas) {
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
  async standings(charge: Charge): Promise<readonly BoundStanding[] | undefined> {
    try {
      return await this.#service.standings(charge);
    } catch {
      return undefined;
    }
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

/** The `settle` of each request, by its id. */
type InFlight = Map<number, Counted['settle']>;

interface LimitServiceOptions {
  /** Keeps quotas over restarts; absent: they last as long as the primary. */
  readonly folder?: string | undefined;
  /** Records that the folder cannot be written. */
  readonly journal?: Journal | undefined;
  /** Called when an account is dropped within its month. */
  readonly onDropped?: (() => void) | undefined;
  /** Unix time in ms. Default: the system's. */
  readonly now?: (() => number) | undefined;
}

/** The primary's end. */
export class LimitService {
  readonly #quotas: ReturnType<typeof createQuotas>;
  readonly #counter: MemoryCounter;
  /** The requests in flight of each live worker. */
  readonly #inFlight = new Map<number, InFlight>();

  constructor({ folder, journal, onDropped = () => undefined, now }: LimitServiceOptions = {}) {
    this.#quotas = createQuotas(folder, { journal, now, onDropped });
    this.#counter = new MemoryCounter(1, this.#quotas.quotas);
  }

  /** The end of one worker's `LimitServiceClient`, until `release`. */
  handlersFor(worker: number) {
    const requests: InFlight = new Map();
    this.#inFlight.set(worker, requests);
    return {
      take: ({ id, charge }: LimitRequest): LimitCount => {
        const { count, settle } = this.#counter.take(charge);
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
        if (quota !== undefined) this.#counter.quotas.add(this.#counter.quotas.useOf(charge, quota.unit), units);
      },
      standings: (charge: Charge): readonly BoundStanding[] => this.#counter.standings(charge),
    };
  }

  /** The worker has exited: settles its requests. */
  release(worker: number): void {
    for (const settle of this.#inFlight.get(worker)?.values() ?? []) settle(0);
    this.#inFlight.delete(worker);
  }

  /** Writes the quotas. */
  close(): void {
    this.#quotas.close();
  }
}
