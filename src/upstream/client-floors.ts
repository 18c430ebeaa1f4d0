/**
 * Floors of clients above the shared states: a client that was given a newer version, or has shown one, reads no older
 * state, on any connection, while the others keep the shared one (docs/consistency.md).
 */
import type { LedgerVersion } from '../ledger/index.ts';

/** Most clients with a floor of their own; 100 bytes each. */
const mostClients = 100_000;

/** The newest version of each client that is ahead of the shared states, bounded in number. */
export class ClientFloors {
  readonly #floors = new Map<string, LedgerVersion>();
  readonly #most: number;

  constructor(most = mostClients) {
    this.#most = most;
  }

  get size(): number {
    return this.#floors.size;
  }

  /** The client's floor. */
  of(client: string): LedgerVersion | undefined {
    return this.#floors.get(client);
  }

  /** Returns whether the client's floor was lower, and `full` where there is no room for another client. */
  raise(client: string, version: LedgerVersion): boolean | 'full' {
    const before = this.#floors.get(client);
    if (before !== undefined && before >= version) return false;
    if (before === undefined && this.#floors.size >= this.#most) return 'full';
    this.#floors.set(client, version);
    return true;
  }

  /** Forgets the floors that every shared state has passed: the client's next state is not older without them. */
  forgetUpTo(version: LedgerVersion): void {
    for (const [client, floor] of this.#floors) if (floor <= version) this.#floors.delete(client);
  }

  /** Forgets the floors that no node reaches any more. */
  forgetAbove(version: LedgerVersion): void {
    for (const [client, floor] of this.#floors) if (floor > version) this.#floors.delete(client);
  }

  /** Forgets all, and returns the newest. */
  clear(): LedgerVersion | undefined {
    let newest: LedgerVersion | undefined;
    for (const floor of this.#floors.values()) if (newest === undefined || floor > newest) newest = floor;
    this.#floors.clear();
    return newest;
  }
}
