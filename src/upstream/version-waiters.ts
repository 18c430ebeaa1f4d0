/** Requests that wait for a ledger version to be reached. */
import type { LedgerVersion } from '../ledger/version.ts';
import type { StopSignal } from '../ledger/stop.ts';

export interface Awaited {
  readonly version: LedgerVersion;
  /** Whether a node that counts has got there. */
  readonly isReached: () => boolean;
}

interface Waiter extends Awaited {
  readonly wake: () => void;
}

/** So many wait at once; one more is told straight away. */
const maxWaiters = 10_000;

export class VersionWaiters {
  readonly #waiters = new Set<Waiter>();
  /** The lowest version that is waited for, or lower. */
  #nearest: LedgerVersion | undefined;

  get isEmpty(): boolean {
    return this.#waiters.size === 0;
  }

  get isFull(): boolean {
    return this.#waiters.size >= maxWaiters;
  }

  /** Resolves when a report of `version` makes `isReached` true, after `timeoutMs`, or on abort. */
  wait(awaited: Awaited, timeoutMs: number, signal: StopSignal): Promise<void> {
    const { version } = awaited;
    return new Promise((resolve) => {
      const waiter: Waiter = { ...awaited, wake: finish };
      const timer = setTimeout(finish, timeoutMs);
      const waiters = this.#waiters;
      function finish(): void {
        clearTimeout(timer);
        signal.removeEventListener('abort', finish);
        waiters.delete(waiter);
        resolve();
      }
      signal.addEventListener('abort', finish);
      waiters.add(waiter);
      if (this.#nearest === undefined || version < this.#nearest) this.#nearest = version;
    });
  }

  /** Wakes who waits for what has been reached. Far versions cost nothing: only the nearest is looked at. */
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
