/** Counts in Redis while it answers, and does what the config says while it does not. */
import type { Charge, LimitCounter, CountResult } from './counter.ts';
import type { MemoryCounter } from './limits-memory.ts';
import type { RedisCounter } from './limits-redis.ts';

/** `local`: this process counts for itself. `refuse`: nobody is let in. `allow`: everybody is, uncounted. */
export type WhenRedisIsDown = 'local' | 'refuse' | 'allow';

export interface FallbackParts {
  readonly redis: RedisCounter;
  /** Counts what this process admits all the time, so that a window that has begun goes on without Redis. */
  readonly memory: MemoryCounter;
  /** That of the moment: the config may change. */
  readonly choice: () => WhenRedisIsDown;
  /** Once per request that Redis did not count. */
  readonly onFallback: (choice: WhenRedisIsDown) => void;
}

export class FallbackCounter implements LimitCounter {
  readonly #parts: FallbackParts;

  constructor(parts: FallbackParts) {
    this.#parts = parts;
  }

  async take(charge: Charge): Promise<CountResult> {
    const { redis, memory, onFallback } = this.#parts;
    const choice = this.#parts.choice();
    const taken = await redis.take(charge);
    if (taken === undefined) {
      onFallback(choice);
      return takeAnyway(charge, choice, memory);
    }
    if (choice !== 'local' || taken.kind !== 'counted' || !taken.count.isAdmitted) return taken;
    const settleHere = memory.note(charge);
    return {
      ...taken,
      settle: (extraCost) => {
        settleHere(extraCost);
        taken.settle(extraCost);
      },
    };
  }

  close(): void {
    this.#parts.memory.close();
    void this.#parts.redis.close();
  }
}

function takeAnyway(charge: Charge, choice: WhenRedisIsDown, memory: MemoryCounter): CountResult {
  switch (choice) {
    case 'local':
      return memory.take(charge);
    case 'refuse':
      return { kind: 'unavailable' };
    case 'allow':
      return { kind: 'counted', count: { isAdmitted: true, standings: [] }, settle: () => undefined };
  }
}
