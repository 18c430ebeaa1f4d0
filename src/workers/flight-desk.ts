import type { PrimaryHandlers, ReadTurn } from './protocol.ts';

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
