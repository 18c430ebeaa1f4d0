/**
 * The version below which no answer to a read of "latest" may be: the newest that a client of this process got, and, as
 * far as nodes here have reached it, the newest that a client of another worker or replica got.
 */
import { GatewayError } from '../ledger/errors.ts';
import type { StopSignal } from '../ledger/stop.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { Fleet } from './fleet.ts';
import type { ShownAlone, Snapshot } from './shown.ts';

export interface FloorEvents {
  /** A client is about to get a newer version than any before, or reads are about to share `snapshot`. */
  onServed(version: LedgerVersion, snapshot?: Snapshot): void;
  /** No node here got to what another replica has shown, so clients are given what there is. */
  onUnreached(version: LedgerVersion): void;
}

/** What others say is not waited for again for this long after it was waited for in vain. */
const deafMs = 10_000;
/** Farther ahead than nodes of one ledger are apart, so that a wrong word cannot cost a wait. */
const believableVersions = 1_000_000n;

export class Floor {
  readonly #fleet: Fleet;
  readonly #events: FloorEvents;
  readonly #shown: ShownAlone;
  /** The newest that clients of other replicas have been given. */
  #heard: LedgerVersion | undefined;
  #deafUntilMs = -Infinity;
  /** The fleet's generation that it is of. */
  #generation = 0;

  constructor(fleet: Fleet, events: FloorEvents, shown: ShownAlone) {
    this.#fleet = fleet;
    this.#events = events;
    this.#shown = shown;
  }

  /** The floor for a client that has seen `min`. */
  above(min: LedgerVersion | undefined): LedgerVersion | undefined {
    return newer(this.#own(min), this.#heard);
  }

  /** A client is about to get a state of this version: no client gets an older one afterwards. */
  recordServed(version: LedgerVersion): void {
    // Above the head only an answer from before a rollback can be, or one of a node that is not believed.
    const head = this.#fleet.head?.version;
    if (head !== undefined && version > head) return;
    if (!this.#isNews(version)) return;
    this.#events.onServed(version);
    this.#shown.raise({ served: version });
  }

  /** As `recordServed`, for the state that reads of "latest" are to share. */
  recordSnapshot(snapshot: Snapshot): void {
    this.#events.onServed(snapshot.info.version, snapshot);
    this.#shown.raise({ snapshot });
  }

  #isNews(version: LedgerVersion): boolean {
    const { served } = this.#shown;
    return served === undefined || version > served;
  }

  /** A client of another worker or replica got `version`. */
  hear(version: LedgerVersion): void {
    this.#forgetOldLedger();
    const head = this.#fleet.head?.version;
    if (head === undefined || version > head + believableVersions || performance.now() < this.#deafUntilMs) return;
    this.#heard = newer(this.#heard, version);
  }

  /**
   * Runs `ask` with the floor for a client that has seen `min`, for as long as the client waits (`signal`). What other
   * replicas said is given up, and `ask` run again, when no node here gets there: the client's own version and this
   * gateway's never are.
   */
  async keep<T>(
    min: LedgerVersion | undefined,
    signal: StopSignal,
    ask: (floor: LedgerVersion | undefined) => Promise<T>,
  ): Promise<T> {
    const own = this.#own(min);
    const floor = this.above(min);
    if (floor === undefined || floor === own) return ask(own);
    try {
      return await ask(floor);
    } catch (error) {
      if (!(error instanceof GatewayError) || error.fault !== 'unavailable') throw error;
      // It failed for another reason: the client has gone, or the nodes are there and have no time.
      if (signal.aborted || (this.#fleet.head?.version ?? -1n) >= floor) throw error;
      this.#heard = undefined;
      this.#deafUntilMs = performance.now() + deafMs;
      this.#events.onUnreached(floor);
      return ask(own);
    }
  }

  #own(min: LedgerVersion | undefined): LedgerVersion | undefined {
    this.#forgetOldLedger();
    return newer(min, this.#shown.served);
  }

  /** What others said of a ledger that went back, or was a lie, must not hold up everybody (see `Fleet`). */
  #forgetOldLedger(): void {
    const { generation } = this.#fleet;
    if (generation === this.#generation) return;
    this.#generation = generation;
    this.#heard = undefined;
  }
}

function newer(one: LedgerVersion | undefined, other: LedgerVersion | undefined): LedgerVersion | undefined {
  return one === undefined || (other !== undefined && other > one) ? other : one;
}
