/**
 * What clients have been shown of the ledger, below which nobody may be shown anything afterwards. One process keeps it
 * by itself; several that serve one port agree on it (`workers/agreed.ts`).
 */
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

export interface Shown {
  /** What answers tell of the ledger in their headers; never goes backward within a generation of the fleet. */
  readonly head: LedgerInfo | undefined;
  /** The newest state that any client has been given, or is about to be. */
  readonly served: LedgerVersion | undefined;
  readonly snapshot: Snapshot | undefined;
  /** Before a new snapshot can be used, this long passes; in milliseconds. */
  readonly costMs: number;
  /**
   * To be called before anything new is shown, and to be waited for: then nobody is shown less any more. `undefined`:
   * done. Rejects with `GatewayError` 503 when others do not agree in time.
   */
  raise(news: News): Promise<void> | undefined;
  /** As `raise`, for what the fleet knows of the ledger by now. Never rejects: headers then stay behind. */
  raiseHead(): Promise<void> | undefined;
  /**
   * One look at the freshest node at a time: whether it is our turn, and otherwise, once that is over, that somebody
   * else has looked.
   */
  takeTurn(): Promise<boolean>;
  endTurn(): void;
}

/** Of a process that serves alone. */
export class ShownAlone implements Shown {
  readonly #fleet: { readonly head: LedgerInfo | undefined; readonly generation: number };
  #served: LedgerVersion | undefined;
  #snapshot: Snapshot | undefined;
  /** The fleet's generation that both are of. */
  #generation = 0;
  readonly costMs = 0;

  constructor(fleet: { readonly head: LedgerInfo | undefined; readonly generation: number }) {
    this.#fleet = fleet;
  }

  get head(): LedgerInfo | undefined {
    return this.#fleet.head;
  }

  get served(): LedgerVersion | undefined {
    this.#forgetOldLedger();
    return this.#served;
  }

  get snapshot(): Snapshot | undefined {
    this.#forgetOldLedger();
    return this.#snapshot;
  }

  raise({ served, snapshot }: News): undefined {
    this.#forgetOldLedger();
    if (snapshot !== undefined) this.#snapshot = snapshot;
    const version = snapshot?.info.version ?? served;
    if (version !== undefined && version > (this.#served ?? -1n)) this.#served = version;
    return undefined;
  }

  raiseHead(): undefined {
    return undefined;
  }

  takeTurn(): Promise<boolean> {
    return Promise.resolve(true);
  }

  endTurn(): void {
    // Nobody else waits for it.
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
