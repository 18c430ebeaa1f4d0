/** Services of the primary for all workers: one reads a cold key for the others, and one counter counts requests. */
import type { ReadTurn } from '../cache/index.ts';
import type { PrimaryHandlers } from './protocol.ts';
import { MemoryCounter } from '../access/index.ts';

/** Workers that wait for the end of a read, and the worker that makes it. */
interface OpenFlight {
  readonly leader: number;
  readonly waiting: (() => void)[];
}

/** Reads in flight at most; further ones are made without a look at each other. */
const mostFlights = 100_000;

/** The primary's record of the reads that workers make, so that one worker reads a cold key for all. */
export class FlightDesk {
  readonly #open = new Map<string, OpenFlight>();

  /** The handlers of one worker, until `release`. */
  handlersFor(worker: number): Pick<PrimaryHandlers, 'enterFlight' | 'leaveFlight'> {
    return {
      enterFlight: (name) => this.#enter(name, worker),
      leaveFlight: (name) => {
        const flight = this.#open.get(name);
        if (flight?.leader === worker) this.#end(name, flight);
      },
    };
  }

  /** The worker has exited: its reads have ended. */
  release(worker: number): void {
    for (const [name, flight] of this.#open) if (flight.leader === worker) this.#end(name, flight);
  }

  #enter(name: string, worker: number): ReadTurn | Promise<ReadTurn> {
    const flight = this.#open.get(name);
    if (flight !== undefined && flight.leader !== worker) {
      return new Promise((resolve) => {
        flight.waiting.push(() => resolve('look'));
      });
    }
    if (this.#open.size < mostFlights) this.#open.set(name, flight ?? { leader: worker, waiting: [] });
    return 'lead';
  }

  #end(name: string, { waiting }: OpenFlight): void {
    this.#open.delete(name);
    for (const resolve of waiting) resolve();
  }
}

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
