/**
 * The lowest version for an answer to a read of "latest": the newest that a client of this gateway has got and the newest
 * that a client of a peer has got (another worker or replica), as far as nodes here can be reached that hold it.
 */
import type { LedgerVersion } from '../ledger/index.ts';
import type { FleetState } from './fleet-state.ts';

type FloorLedger = Pick<FleetState, 'generation' | 'head'>;

/** Versions of peers are ignored for this long after no node here reached one. */
const ignorePeersMs = 10_000;
/** Farther ahead than nodes of one ledger are apart: a wrong version of a peer must not cost a wait. */
const believableVersions = 1_000_000n;

/** Versions that clients have got, here and at peers, in one generation of the fleet. */
export class MonotonicFloor {
  readonly #ledger: FloorLedger;
  #served: LedgerVersion | undefined;
  #peers: LedgerVersion | undefined;
  #ignorePeersUntilMs = -Infinity;
  /** The generation that both versions are of. */
  #generation = 0;

  constructor(ledger: FloorLedger) {
    this.#ledger = ledger;
  }

  /** The floor for a client that has seen `min`. */
  above(min: LedgerVersion | undefined): LedgerVersion | undefined {
    return newer(this.ownAbove(min), this.#peers);
  }

  /** The floor without the versions of peers. */
  ownAbove(min: LedgerVersion | undefined): LedgerVersion | undefined {
    this.#forgetOldLedger();
    return newer(min, this.#served);
  }

  /** Records that a client gets a state of this version. Returns whether it is newer than any before. */
  raise(version: LedgerVersion): boolean {
    this.#forgetOldLedger();
    if (this.#served !== undefined && version <= this.#served) return false;
    this.#served = version;
    return true;
  }

  /** Records that a client of a peer has got `version`. */
  onPeerVersion(version: LedgerVersion): void {
    this.#forgetOldLedger();
    const head = this.#ledger.head?.version;
    if (head === undefined || version > head + believableVersions) return;
    if (performance.now() >= this.#ignorePeersUntilMs) this.#peers = newer(this.#peers, version);
  }

  /** Forgets all versions, because the nodes that hold them are lost: peers report them for a while. */
  giveUp(): void {
    this.#served = undefined;
    this.ignorePeers();
  }

  /** Ignores versions of peers for a while, because no node here has reached one. */
  ignorePeers(): void {
    this.#peers = undefined;
    this.#ignorePeersUntilMs = performance.now() + ignorePeersMs;
  }

  /** Versions of a ledger that went back, or was false, must not hold up every client (see `FleetLedger`). */
  #forgetOldLedger(): void {
    const { generation } = this.#ledger;
    if (generation === this.#generation) return;
    this.#generation = generation;
    this.#served = undefined;
    this.#peers = undefined;
  }
}

/** The newer of two versions; `undefined`: neither is known. */
export function newer(one: LedgerVersion | undefined, other: LedgerVersion | undefined): LedgerVersion | undefined {
  return one === undefined || (other !== undefined && other > one) ? other : one;
}
