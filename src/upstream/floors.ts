/**
 * The versions that reads of "latest" must not be below: those that bind every client, and those that a client has got or
 * shown itself, on any of its connections, while the others keep the shared state (docs/consistency.md). A version of a
 * peer (another worker or replica) counts once it can be true here.
 */
import type { LedgerVersion } from '../ledger/index.ts';
import { newer } from './shared-states.ts';

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

/** Versions of peers are ignored for this long after no node here reached one. */
const ignorePeersMs = 10_000;
/** Farther ahead than nodes of one ledger are apart: a wrong version of a peer must not cost a wait. */
const believableVersions = 1_000_000n;

/** Holds the floors of one ledger. */
export class Floors {
  readonly #head: () => LedgerVersion | undefined;
  readonly #onServed: (version: LedgerVersion) => void;
  /** The floors that other processes know, and those beside them under several bounds, of this process alone. */
  readonly #published = new ClientFloors();
  readonly #own = new ClientFloors();
  #served: LedgerVersion | undefined;
  #peers: LedgerVersion | undefined;
  #ignorePeersUntilMs = -Infinity;

  /** `head`: the newest version that is believed. `onServed`: called before a version binds every client of this process. */
  constructor(head: () => LedgerVersion | undefined, onServed: (version: LedgerVersion) => void) {
    this.#head = head;
    this.#onServed = onServed;
  }

  get clients(): number {
    return this.#published.size + this.#own.size;
  }

  /** The newest version given here that binds every client of this process. */
  get served(): LedgerVersion | undefined {
    return this.#served;
  }

  /** A version that no floor is above. */
  get newest(): LedgerVersion | undefined {
    return newer(newer(this.#served, this.#peers), newer(this.#published.newest, this.#own.newest));
  }

  of(client: string): LedgerVersion | undefined {
    return newer(this.#published.of(client), this.#own.of(client));
  }

  /** The floor of every client, for one that has seen `min`. */
  above(min: LedgerVersion | undefined): LedgerVersion | undefined {
    return newer(newer(min, this.#served), this.#peers);
  }

  /** Binds every client. Returns whether the version is newer than any before. */
  raise(version: LedgerVersion): boolean {
    if (this.#served !== undefined && version <= this.#served) return false;
    this.#served = version;
    this.forgetUpTo(version);
    return true;
  }

  /**
   * Binds one client; beyond the bound on clients, one floor binds them all. `isPublished`: other processes are to know it.
   * Returns whether it is news for them.
   */
  raiseOf(client: string, version: LedgerVersion, isPublished: boolean): boolean {
    const floors = isPublished ? this.#published : this.#own;
    const raised = floors.raise(client, version);
    if (raised !== 'full') return raised;
    const all = newer(version, floors.clear()) ?? version;
    const head = this.#head();
    // Clients of peers have got it, and no node here may ever reach it.
    if (head !== undefined && all > head) this.#peers = newer(this.#peers, all);
    else if (this.raise(all)) this.#onServed(all);
    return false;
  }

  raiseByPeer(version: LedgerVersion): void {
    this.#peers = newer(this.#peers, version);
  }

  /** Whether a version of a peer can be true, and is not ignored. */
  isNewsOfPeer(version: LedgerVersion): boolean {
    const head = this.#head();
    if (head === undefined || version > head + believableVersions) return false;
    return performance.now() >= this.#ignorePeersUntilMs;
  }

  /** Ignores versions of peers for a while, because no node here has reached one in time. */
  ignorePeers(): void {
    this.#peers = undefined;
    const head = this.#head();
    if (head !== undefined) this.#lower(head);
    this.#ignorePeersUntilMs = performance.now() + ignorePeersMs;
  }

  /** Every read of this process is past this version. */
  forgetUpTo(version: LedgerVersion): void {
    this.#published.forgetUpTo(version);
    this.#own.forgetUpTo(version);
  }

  /**
   * Gives up the versions that the ledger has reached here and no node provides any more, those above `left`. Those
   * above the head are of peers whose nodes are ahead.
   */
  giveUpAbove(left: LedgerVersion): void {
    const head = this.#head();
    if (head === undefined || left >= head) return;
    const isLost = (version: LedgerVersion | undefined): boolean =>
      version !== undefined && version > left && version <= head;
    if (isLost(this.#served)) this.#served = undefined;
    if (isLost(this.#peers)) this.#peers = undefined;
    this.#lower(left, head);
  }

  clear(): void {
    this.#published.clear();
    this.#own.clear();
    this.#served = undefined;
    this.#peers = undefined;
  }

  #lower(version: LedgerVersion, upTo?: LedgerVersion): void {
    this.#published.lowerTo(version, upTo);
    this.#own.lowerTo(version, upTo);
  }
}
