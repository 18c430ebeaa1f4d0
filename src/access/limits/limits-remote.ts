import type { Charge, LimitCount, LimitCounter, CountResult } from './counter.ts';
import type { MemoryCounter } from './limits-memory.ts';

/** The primary's limit service over IPC. Messages arrive in the order in which they were sent. */
export interface LimitServiceClient {
  /** Rejects without an answer in time. `id`: unique in this process. */
  take(request: { readonly id: number; readonly charge: Charge }): Promise<LimitCount>;
  /** To be called also when `take` rejected: `id` may have been admitted. */
  settle(request: { readonly id: number; readonly extraCost: number }): void;
}

/** Pause after a missing answer. */
const pauseMs = 1_000;

/** Counts in the primary, for all workers; while it does not answer in time, this process grants its share. */
export class RemoteCounter implements LimitCounter {
  readonly #service: LimitServiceClient;
  /** Grants one process's share. */
  readonly #memory: MemoryCounter;
  #lastId = 0;
  #pausedUntilMs = -Infinity;

  constructor(limitService: LimitServiceClient, memory: MemoryCounter) {
    this.#service = limitService;
    this.#memory = memory;
  }

  async take(charge: Charge): Promise<CountResult> {
    if (performance.now() < this.#pausedUntilMs) return this.#memory.take(charge);
    const id = (this.#lastId += 1);
    try {
      const count = await this.#service.take({ id, charge });
      if (!count.isAdmitted) return { kind: 'counted', count, settle: () => undefined };
      const settleHere = this.#memory.note(charge);
      const settle = (extraCost: number): void => {
        settleHere(extraCost);
        this.#service.settle({ id, extraCost });
      };
      return { kind: 'counted', count, settle };
    } catch {
      this.#pausedUntilMs = performance.now() + pauseMs;
      this.#service.settle({ id, extraCost: 0 });
      return this.#memory.take(charge);
    }
  }

  close(): void {
    this.#memory.close();
  }
}
