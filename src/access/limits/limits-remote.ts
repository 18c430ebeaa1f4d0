/** Counts in another process, which counts for several; where it does not answer in time, this one grants its share. */
import type { Charge, Count, Counter, Taken } from './counter.ts';
import type { MemoryCounter } from './limits-memory.ts';

/** The limit service of the primary, as a worker calls it. Messages arrive in the order they were sent. */
export interface LimitServiceClient {
  /** Rejects when there is no answer in time. `id`: of this process, never used twice. */
  take(request: { readonly id: number; readonly charge: Charge }): Promise<Count>;
  /** Also where it is not known whether `id` was admitted. */
  settle(request: { readonly id: number; readonly extraCost: number }): void;
}

/** So long nobody is asked who did not answer. */
const pauseMs = 1_000;

export class RemoteCounter implements Counter {
  readonly #limitService: LimitServiceClient;
  /** Grants one process's share. */
  readonly #memory: MemoryCounter;
  #lastId = 0;
  #pausedUntilMs = -Infinity;

  constructor(limitService: LimitServiceClient, memory: MemoryCounter) {
    this.#limitService = limitService;
    this.#memory = memory;
  }

  async take(charge: Charge): Promise<Taken> {
    if (performance.now() < this.#pausedUntilMs) return this.#memory.take(charge);
    const id = (this.#lastId += 1);
    try {
      const count = await this.#limitService.take({ id, charge });
      if (!count.isAdmitted) return { kind: 'counted', count, settle: () => undefined };
      const settleHere = this.#memory.note(charge);
      const settle = (extraCost: number): void => {
        settleHere(extraCost);
        this.#limitService.settle({ id, extraCost });
      };
      return { kind: 'counted', count, settle };
    } catch {
      this.#pausedUntilMs = performance.now() + pauseMs;
      this.#limitService.settle({ id, extraCost: 0 });
      return this.#memory.take(charge);
    }
  }

  close(): void {
    this.#memory.close();
  }
}
