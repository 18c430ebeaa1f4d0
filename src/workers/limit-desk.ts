/** Counts clients' requests against their limits for all workers: several of them grant no more than one would. */
import type { Charge, Count } from '../access/counter.ts';
import { MemoryCounter } from '../access/limits-memory.ts';
import type { Services } from './forked.ts';

type Settle = (extraCost: number) => void;

export class LimitDesk {
  readonly #counter = new MemoryCounter({ now: () => performance.now() });
  /** Requests under way, by worker. */
  readonly #underWay = new Map<number, Map<number, Settle>>();

  servicesFor(worker: number): Pick<Services, 'take' | 'settle'> {
    return {
      take: ({ id, charge }) => this.#take(worker, id, charge),
      settle: ({ id, extraCost }) => {
        const requests = this.#underWay.get(worker);
        requests?.get(id)?.(extraCost);
        requests?.delete(id);
      },
    };
  }

  /** A worker is gone, and with it all that it served. */
  leave(worker: number): void {
    for (const settle of this.#underWay.get(worker)?.values() ?? []) settle(0);
    this.#underWay.delete(worker);
  }

  #take(worker: number, id: number, charge: Charge): Count {
    const { count, settle } = this.#counter.take(charge);
    if (count.isAdmitted) {
      const requests = this.#underWay.get(worker) ?? new Map<number, Settle>();
      this.#underWay.set(worker, requests.set(id, settle));
    }
    return count;
  }
}
