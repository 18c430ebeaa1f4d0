/** Requests that wait for a ledger version to be reached. */
import type { LedgerVersion } from '../ledger/version.ts';
import type { CancelSignal } from '../ledger/stop.ts';

interface VersionWaiter {
  readonly version: LedgerVersion;
  readonly isReached: () => boolean;
  readonly wake: () => void;
}

/** So many wait at once; the next one is refused straight away. */
const maxWaiters = 10_000;

export class VersionWaiters {
  readonly #waiters = new Set<VersionWaiter>();
  /** The lowest version that is waited for, or lower. */
  #nearest: LedgerVersion | undefined;

  get isEmpty(): boolean {
    return this.#waiters.size === 0;
  }

  get isFull(): boolean {
    return this.#waiters.size >= maxWaiters;
  }

  /** Resolves when a report of `version` makes `isReached` true, after `timeoutMs`, or on abort. */
  wait(version: LedgerVersion, isReached: () => boolean, timeoutMs: number, signal: CancelSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', wake);
        this.#waiters.delete(waiter);
        resolve();
      };
      const waiter = { version, isReached, wake };
      const timer = setTimeout(wake, timeoutMs);
      signal.addEventListener('abort', wake);
      this.#waiters.add(waiter);
      if (this.#nearest === undefined || version < this.#nearest) this.#nearest = version;
    });
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
