import type { Charge, LimitCounter, CountResult } from './counter.ts';
import type { MemoryCounter } from './limits-memory.ts';

/** `local`: this process counts alone. `refuse`: no request is admitted. `allow`: all are, uncounted. */
export type WhenRedisIsDown = 'local' | 'refuse' | 'allow';

interface FallbackParts {
  /** Redis or the primary; `undefined` when it did not answer in time. */
  readonly shared: { take(charge: Charge): Promise<CountResult | undefined>; close?(): Promise<void> };
  /** Also counts the requests that the shared counter admits, so that windows continue when it is away. */
  readonly memory: MemoryCounter;
  /** The current choice: the config may change. Default `local`. */
  readonly choice?: () => WhenRedisIsDown;
  /** Called once per request that the shared counter did not count. */
  readonly onFallback?: (choice: WhenRedisIsDown) => void;
}

/** Counts in a shared counter while it answers, and follows `access.whenRedisIsDown` while it does not. */
export class FallbackCounter implements LimitCounter {
  readonly #parts: FallbackParts;

  constructor(parts: FallbackParts) {
    this.#parts = parts;
  }

  async take(charge: Charge): Promise<CountResult> {
    const { shared, memory, onFallback } = this.#parts;
    const choice = this.#parts.choice?.() ?? 'local';
    const taken = await shared.take(charge);
    if (taken === undefined) {
      onFallback?.(choice);
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
    void this.#parts.shared.close?.();
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
