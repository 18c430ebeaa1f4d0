/** The one ledger of a chaos run, and how each node follows it: behind, pruned, both as faults will have it. */
import {
  advancingClock,
  blockHeightOf,
  type LedgerClock,
  type LedgerMoment,
} from '../../../src/sample/ledger-clock.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';

/** Fast enough that the edges move by thousands of versions in a run, and no faster than a ledger is believed to. */
export const versionsPerSecond = 1_000;
export const startHead = 1_000_000n;
/** Window of full nodes: 20 s. */
export const usualWindow = 20_000n;
const pruneStep = 500n;

/** Begins at `startHead` when it is made. */
export function sharedLedger(): LedgerClock {
  return advancingClock({ startHead, versionsPerSecond });
}

/** One node's view. Pruned versions stay pruned after changes of head or window. */
export class FollowingClock implements LedgerClock {
  /** Versions behind the ledger. */
  lag = 0n;
  /** Absent: everything is kept. */
  window: bigint | undefined;
  readonly #ledger: LedgerClock;
  #oldest = 0n;

  constructor(ledger: LedgerClock, window: bigint | undefined) {
    this.#ledger = ledger;
    this.window = window;
  }

  read(lag = 0n): LedgerMoment {
    const moment = this.#ledger.read(this.lag + lag);
    const { version } = moment;
    if (this.window === undefined) return moment;
    const edge = version > this.window ? version - this.window : 0n;
    const stepped = edge - (edge % pruneStep);
    if (stepped > this.#oldest) this.#oldest = stepped;
    const oldest = this.#oldest < version ? this.#oldest : version;
    return { ...moment, oldestVersion: LedgerVersion.of(oldest), oldestBlockHeight: blockHeightOf(oldest) };
  }

  timestampUsecOf(version: bigint): bigint {
    return this.#ledger.timestampUsecOf(version);
  }
}
