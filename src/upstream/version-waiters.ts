/** Requests that wait until a node of the fleet reaches a ledger version. */
import type { CancelSignal, LedgerVersion } from '../ledger/index.ts';
import { waitWithin } from './deadline.ts';
import type { Upstream } from './node/upstream.ts';

interface VersionWaiter {
  readonly version: LedgerVersion;
  readonly isReached: () => boolean;
  readonly wake: () => void;
}

/** Most requests that wait at once; the next one gets its answer without a wait. */
const maxWaiters = 10_000;

/** The waits for versions of one fleet. */
export class VersionWaiters {
  readonly #nodes: () => readonly Upstream[];
  readonly #onAwaited: () => void;
  readonly #waiters = new Set<VersionWaiter>();
  /** The lowest version that is waited for, or lower. */
  #nearest: LedgerVersion | undefined;

  /** `nodes`: the fleet's at each call; `onAwaited`: called when the first request begins to wait. */
  constructor(nodes: () => readonly Upstream[], onAwaited: () => void) {
    this.#nodes = nodes;
    this.#onAwaited = onAwaited;
  }

  get isAwaited(): boolean {
    return this.#waiters.size > 0;
  }

  /**
   * Resolves when a usable node has reached `version`, after `ms`, or on abort: true if one has. `isFit`: whether
   * a node counts. Default: each does.
   */
  async wait(
    version: LedgerVersion,
    ms: number,
    signal: CancelSignal,
    isFit: (upstream: Upstream) => boolean = () => true,
  ): Promise<boolean> {
    const isReached = (): boolean =>
      this.#nodes().some((upstream) => upstream.isTrusted && upstream.head >= version && isFit(upstream));
    if (isReached() || ms <= 0 || signal.aborted || this.#waiters.size >= maxWaiters) return isReached();
    if (!this.isAwaited) this.#onAwaited();
    await waitWithin<void>({ ms, signal, late: undefined }, (wake) => {
      const waiter = { version, isReached, wake };
      this.#waiters.add(waiter);
      if (this.#nearest === undefined || version < this.#nearest) this.#nearest = version;
      return () => this.#waiters.delete(waiter);
    });
    return isReached();
  }

  /** Wakes the waiters of versions that are reached. Far versions cost nothing: the nearest is compared first. */
  wake(reached: LedgerVersion): void {
    if (this.#nearest === undefined || reached < this.#nearest) return;
    let nearest: LedgerVersion | undefined;
    for (const waiter of this.#waiters) {
      if (waiter.version <= reached && waiter.isReached()) waiter.wake();
      else if (nearest === undefined || waiter.version < nearest) nearest = waiter.version;
    }
    this.#nearest = nearest;
  }
}
