/** Counters that other processes share: the primary's over IPC, and the fallback while a shared one does not answer. */
import type { Charge, CountResult, LimitCount, LimitCounter } from './counter.ts';
import type { MemoryCounter } from './limits-memory.ts';

/** `local`: this process counts alone. `refuse`: no request is admitted. `allow`: all are, uncounted. */
export type WhenRedisIsDown = 'local' | 'refuse' | 'allow';

interface SharedCounter {
  /** Like `LimitCounter.take`; `undefined` when the counter did not answer in time. */
  take(charge: Charge): Promise<CountResult | undefined>;
}

interface FallbackParts {
  /** Redis or the primary. */
  readonly shared: SharedCounter;
  /** Also counts the requests that the shared counter admits, so that windows continue when it is away. */
  readonly memory: MemoryCounter;
  /** The current choice: the config may change. Default `local`. */
  readonly choice?: () => WhenRedisIsDown;
  /** Called once per request that the shared counter did not count. */
  readonly onFallback?: (choice: WhenRedisIsDown) => void;
}

/** Counts in a shared counter while it answers, and follows `access.whenRedisIsDown` while it does not. */
export function counterWithFallback({ shared, memory, choice, onFallback }: FallbackParts): LimitCounter {
  return {
    async take(charge) {
      const inForce = choice?.() ?? 'local';
      const taken = await shared.take(charge);
      if (taken === undefined) {
        onFallback?.(inForce);
        return takeAnyway(charge, inForce, memory);
      }
      if (inForce !== 'local' || taken.kind !== 'counted' || !taken.count.isAdmitted) return taken;
      const settleHere = memory.note(charge);
      return {
        ...taken,
        settle: (extraCost) => {
          settleHere(extraCost);
          taken.settle(extraCost);
        },
      };
    },
  };
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
export function counterInPrimary(service: LimitServiceClient): SharedCounter {
  let lastId = 0;
  let pausedUntilMs = -Infinity;
  return {
    async take(charge) {
      if (performance.now() < pausedUntilMs) return undefined;
      const id = (lastId += 1);
      try {
        const count = await service.take({ id, charge });
        return { kind: 'counted', count, settle: (extraCost) => service.settle({ id, extraCost }) };
      } catch {
        pausedUntilMs = performance.now() + pauseMs;
        service.settle({ id, extraCost: 0 });
        return undefined;
      }
    },
  };
}
