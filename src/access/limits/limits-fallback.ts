import type { Charge, LimitCounter, CountResult } from './counter.ts';
import type { MemoryCounter } from './limits-memory.ts';
import type { RedisCounter } from './limits-redis.ts';

/** `local`: this process counts alone. `refuse`: no request is admitted. `allow`: all are, uncounted. */
export type WhenRedisIsDown = 'local' | 'refuse' | 'allow';

interface FallbackParts {
  readonly redis: RedisCounter;
  /** Also counts the requests that Redis admits, so that windows continue when Redis is away. */
  readonly memory: MemoryCounter;
  /** The current choice: the config may change. */
  readonly choice: () => WhenRedisIsDown;
  /** Called once per request that Redis did not count. */
  readonly onFallback: (choice: WhenRedisIsDown) => void;
}

/** Counts in Redis while it answers, and follows `access.whenRedisIsDown` while it does not. */
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
