/** Counters that other processes share: the primary's over IPC, and the fallback while a shared one does not answer. */
import type { Charge, CountResult, LimitCount, LimitCounter } from './counter.ts';
import { MemoryCounter } from './limits-memory.ts';

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

/** A request of one worker. `id`: unique there. */
interface LimitRequest {
  readonly id: number;
  readonly charge: Charge;
}

/** The end of a request. `extraCost`: its cost beyond its charge. */
interface LimitEnd {
  readonly id: number;
  readonly extraCost: number;
}

/** The primary's `LimitService` over IPC. Messages arrive in the order in which they were sent. */
export interface LimitServiceClient {
  /** Rejects without an answer in time. */
  take(request: LimitRequest): Promise<LimitCount>;
  /** To be called also when `take` rejected: `id` may have been admitted. */
  settle(ended: LimitEnd): void;
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

/** The `settle` of each request, by its id. */
type InFlight = Map<number, (extraCost: number) => void>;

/** The primary's counter of requests for all workers, so that several grant no more than one. */
export class LimitService {
  readonly #counter = new MemoryCounter({ now: () => performance.now() });
  /** The requests in flight of each live worker. */
  readonly #inFlight = new Map<number, InFlight>();

  /** The end of one worker's `LimitServiceClient`, until `release`. */
  handlersFor(worker: number) {
    const requests: InFlight = new Map();
    this.#inFlight.set(worker, requests);
    return {
      take: ({ id, charge }: LimitRequest): LimitCount => {
        const { count, settle } = this.#counter.take(charge);
        if (!count.isAdmitted) return count;
        // Read after the exit of its worker: settled at once.
        if (this.#inFlight.get(worker) === requests) requests.set(id, settle);
        else settle(0);
        return count;
      },
      settle: ({ id, extraCost }: LimitEnd): void => {
        requests.get(id)?.(extraCost);
        requests.delete(id);
      },
    };
  }

  /** The worker has exited: settles its requests. */
  release(worker: number): void {
    for (const settle of this.#inFlight.get(worker)?.values() ?? []) settle(0);
    this.#inFlight.delete(worker);
  }
}
