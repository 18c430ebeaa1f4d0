/** The ledger state that clients of this process got, below which none of them gets anything afterwards. */
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';

/** A ledger state: what a node said of its ledger, in one answer. */
export interface Snapshot {
  readonly info: LedgerInfo;
  /** The node's ledger info answer, JSON as it came. */
  readonly body: Buffer;
  /** The state was current at this moment or later: when the question was sent. */
  readonly asOfMs: number;
  /** Name of the node. */
  readonly upstream: string;
}

/** What is about to be shown. */
export interface News {
  /** The version of a state that a read of "latest" is about to be given. */
  readonly served?: LedgerVersion;
  /** The state that reads of "latest" are to share; `served` goes up with it. */
  readonly snapshot?: Snapshot;
}

/** The newest state that any client of this process got, or is about to get. */
export class ShownAlone {
  readonly #fleet: { readonly generation: number };
  #served: LedgerVersion | undefined;
  #snapshot: Snapshot | undefined;
  /** The fleet's generation that both are of. */
  #generation = 0;

  constructor(fleet: { readonly generation: number }) {
    this.#fleet = fleet;
  }

  get served(): LedgerVersion | undefined {
    this.#forgetOldLedger();
    return this.#served;
  }

  get snapshot(): Snapshot | undefined {
    this.#forgetOldLedger();
    return this.#snapshot;
  }

  raise({ served, snapshot }: News): void {
    this.#forgetOldLedger();
    if (snapshot !== undefined) this.#snapshot = snapshot;
    const version = snapshot?.info.version ?? served;
    if (version !== undefined && version > (this.#served ?? -1n)) this.#served = version;
  }

  /** What was shown of a ledger that went back, or was a lie, must not hold up everybody (see `Fleet`). */
  #forgetOldLedger(): void {
    const { generation } = this.#fleet;
    if (generation === this.#generation) return;
    this.#generation = generation;
    this.#served = undefined;
    this.#snapshot = undefined;
  }
}
