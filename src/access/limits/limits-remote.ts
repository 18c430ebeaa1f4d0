import type { Charge, LimitCount, CountResult } from './counter.ts';

/** The primary's limit service over IPC. Messages arrive in the order in which they were sent. */
export interface LimitServiceClient {
  /** Rejects without an answer in time. `id`: unique in this process. */
  take(request: { readonly id: number; readonly charge: Charge }): Promise<LimitCount>;
  /** To be called also when `take` rejected: `id` may have been admitted. */
  settle(request: { readonly id: number; readonly extraCost: number }): void;
}

/** Pause after a missing answer. */
const pauseMs = 1_000;

/** Counts in the primary, for all workers. */
export class RemoteCounter {
  readonly #service: LimitServiceClient;
  #lastId = 0;
  #pausedUntilMs = -Infinity;

  constructor(limitService: LimitServiceClient) {
    this.#service = limitService;
  }

  /** Like `LimitCounter.take`; `undefined` when the primary did not answer in time. */
  async take(charge: Charge): Promise<CountResult | undefined> {
    if (performance.now() < this.#pausedUntilMs) return undefined;
    const id = (this.#lastId += 1);
    try {
      const count = await this.#service.take({ id, charge });
      return { kind: 'counted', count, settle: (extraCost) => this.#service.settle({ id, extraCost }) };
    } catch {
      this.#pausedUntilMs = performance.now() + pauseMs;
      this.#service.settle({ id, extraCost: 0 });
      return undefined;
    }
  }
}
