/** Counts clients' requests against their limits for all workers: several of them grant no more than one would. */
import { MemoryCounter } from '../access/limits/limits-memory.ts';
import type { PrimaryHandlers } from './protocol.ts';

/** Settles a request, by its id. */
type InFlight = Map<number, (extraCost: number) => void>;

export class LimitService {
  readonly #counter = new MemoryCounter({ now: () => performance.now() });
  /** The requests in flight of each live worker. */
  readonly #inFlight = new Map<number, InFlight>();

  /** The messages of one worker, which is alive until `release`. */
  handlersFor(worker: number): Pick<PrimaryHandlers, 'take' | 'settle'> {
    const requests: InFlight = new Map();
    this.#inFlight.set(worker, requests);
    return {
      take: ({ id, charge }) => {
        const { count, settle } = this.#counter.take(charge);
        if (!count.isAdmitted) return count;
        // A message that is read after the exit of its worker holds no place.
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

  /** The worker has exited, and its requests with it. */
  release(worker: number): void {
    for (const settle of this.#inFlight.get(worker)?.values() ?? []) settle(0);
    this.#inFlight.delete(worker);
  }
}
