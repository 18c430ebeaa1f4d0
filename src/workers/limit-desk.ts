/** Counts clients' requests against their limits for all workers: several of them grant no more than one would. */
import type { Charge, Count } from '../access/counter.ts';
import { MemoryCounter } from '../access/limits-memory.ts';
import type { Services } from './forked.ts';

/** A worker's requests under way, by id. */
type UnderWay = Map<number, (extraCost: number) => void>;

export class LimitDesk {
  readonly #counter = new MemoryCounter({ now: () => performance.now() });
  /** Of the workers that are there. */
  readonly #underWay = new Map<number, UnderWay>();

  /** What a process is answered: before it is a worker, and when it is gone, no request of its holds a place. */
  servicesFor(worker: number): Pick<Services, 'take' | 'settle'> {
    return {
      take: ({ id, charge }) => this.#take(id, charge, this.#underWay.get(worker)),
      settle: ({ id, extraCost }) => {
        const requests = this.#underWay.get(worker);
        requests?.get(id)?.(extraCost);
        requests?.delete(id);
      },
    };
  }

  /** The process is a worker from now on. */
  join(worker: number): void {
    this.#underWay.set(worker, new Map());
  }

  /** A worker is gone, and with it all that it served. */
  leave(worker: number): void {
    for (const settle of this.#underWay.get(worker)?.values() ?? []) settle(0);
    this.#underWay.delete(worker);
  }

  /** `requests`: absent where there is no such worker, and nobody would give back the place. */
  #take(id: number, charge: Charge, requests: UnderWay | undefined): Count {
    const { count, settle } = this.#counter.take(charge);
    if (!count.isAdmitted) return count;
    if (requests === undefined) settle(0);
    else requests.set(id, settle);
    return count;
  }
}
