/** Counts in the primary, for all workers, so that several grant no more than one. */
import { type Charge, type Counted, type LimitCount, noSettlement } from './counter.ts';
import { MemoryCounter } from './memory-counter.ts';

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

/** The primary's `LimitService` over IPC. Messages arrive in the order in which they were sent. */
export interface LimitServiceClient {
  /** Rejects without an answer in time. */
  take(request: LimitRequest): Promise<LimitCount>;
  /** To be called also when `take` rejected: `id` may have been admitted. */
  settle(ended: LimitEnd): void;
}

/** Pause after a missing answer. */
const pauseMs = 1_000;

/** A worker's end. */
export class PrimaryCounter {
  readonly #service: LimitServiceClient;
  #lastId = 0;
  #pausedUntilMs = -Infinity;

  constructor(service: LimitServiceClient) {
    this.#service = service;
  }

  /** Counts the request if there is room; `undefined` when the primary did not answer in time. */
  async take(charge: Charge): Promise<Counted | undefined> {
    if (performance.now() < this.#pausedUntilMs) return undefined;
    const id = (this.#lastId += 1);
    try {
      const count = await this.#service.take({ id, charge });
      if (!count.isAdmitted) return { count, settle: noSettlement };
      return { count, settle: (extraCost) => this.#service.settle({ id, extraCost }) };
    } catch {
      this.#pausedUntilMs = performance.now() + pauseMs;
      this.#service.settle({ id, extraCost: 0 });
      return undefined;
    }
  }
}

/** The `settle` of each request, by its id. */
type InFlight = Map<number, Counted['settle']>;

/** The primary's end. */
export class LimitService {
  readonly #counter = new MemoryCounter();
  /** The requests in flight of each live worker. */
  readonly #inFlight = new Map<number, InFlight>();

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
    };
  }

  /** The worker has exited: settles its requests. */
  release(worker: number): void {
    for (const settle of this.#inFlight.get(worker)?.values() ?? []) settle(0);
    this.#inFlight.delete(worker);
  }
}
