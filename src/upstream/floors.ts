/**
 * The versions that reads of "latest" must not be below: those that bind every client, and those that a client has got or
 * shown itself (`ClientFloors`). A version of a peer (another worker or replica) counts once it can be true here.
 */
import type { LedgerVersion } from '../ledger/index.ts';
import { ClientFloors } from './client-floors.ts';
import { newer } from './shared-states.ts';

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

  /** Clients that have a floor of their own. */
  get clients(): number {
    return this.#published.size + this.#own.size;
  }

  /** The newest version that binds every client of this process, given here. */
  get served(): LedgerVersion | undefined {
    return this.#served;
  }

  /** A version that no floor is above. */
  get newest(): LedgerVersion | undefined {
    return newer(newer(this.#served, this.#peers), newer(this.#published.newest, this.#own.newest));
  }

  /** The floor of this client alone. */
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

  /** Binds every client to a version of a peer. */
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
   * Gives up the versions that the ledger has reached here and no node provides any more: `left` is the newest that one
   * does. Those above the head are of peers whose nodes are ahead.
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
