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
  /** No floor is below the first or above the second: a walk over 100,000 holds up the event loop for milliseconds. */
  #least: LedgerVersion | undefined;
  #newest: LedgerVersion | undefined;

  constructor(most = mostClients) {
    this.#most = most;
  }

  get size(): number {
    return this.#floors.size;
  }

  /** A version that none is above; `undefined`: there is none. */
  get newest(): LedgerVersion | undefined {
    return this.#newest;
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
    if (this.#least === undefined || version < this.#least) this.#least = version;
    if (this.#newest === undefined || version > this.#newest) this.#newest = version;
    return true;
  }

  /** Forgets the floors that every shared state has passed: the client's next state is not older without them. */
  forgetUpTo(version: LedgerVersion): void {
    if (this.#least === undefined || this.#newest === undefined || version < this.#least) return;
    if (version >= this.#newest) {
      this.clear();
      return;
    }
    // `forEach` takes less than half the time of a loop, which makes a pair of each entry.
    this.#floors.forEach((floor, client) => {
      if (floor <= version) this.#floors.delete(client);
    });
    this.#least = (version + 1n) as LedgerVersion;
  }

  /** Lowers the floors above `version` to it, of those up to `upTo`. */
  lowerTo(version: LedgerVersion, upTo = this.#newest): void {
    if (this.#newest === undefined || upTo === undefined || version >= this.#newest) return;
    // All are above: those of clients of a peer whose nodes are ahead.
    if (this.#least !== undefined && upTo < this.#least) return;
    this.#floors.forEach((floor, client) => {
      if (floor > version && floor <= upTo) this.#floors.set(client, version);
    });
    if (this.#newest <= upTo) this.#newest = version;
    if (this.#least !== undefined && version < this.#least) this.#least = version;
  }

  /** Forgets all, and returns a version that none was above. */
  clear(): LedgerVersion | undefined {
    const newest = this.#newest;
    this.#floors.clear();
    this.#least = undefined;
    this.#newest = undefined;
    return newest;
  }
}
