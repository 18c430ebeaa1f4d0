import { MemoryCounter } from '../access/limits/limits-memory.ts';
import type { PrimaryHandlers } from './protocol.ts';

/** The `settle` of each request, by its id. */
type InFlight = Map<number, (extraCost: number) => void>;

/** The primary's counter of requests for all workers, so that several grant no more than one. */
export class LimitService {
  readonly #counter = new MemoryCounter({ now: () => performance.now() });
  /** The requests in flight of each live worker. */
  readonly #inFlight = new Map<number, InFlight>();

  /** The handlers of one worker, until `release`. */
  handlersFor(worker: number): Pick<PrimaryHandlers, 'take' | 'settle'> {
    const requests: InFlight = new Map();
    this.#inFlight.set(worker, requests);
    return {
      take: ({ id, charge }) => {
        const { count, settle } = this.#counter.take(charge);
        if (!count.isAdmitted) return count;
        // Read after the exit of its worker: settled at once.
        if (this.#inFlight.get(worker) === requests) requests.set(id, settle);
        else settle(0);
        return count;
      },
      settle: ({ id, extraCost }) => {
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
