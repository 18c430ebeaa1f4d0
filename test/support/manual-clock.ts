import { momentAt, type LedgerClock, type LedgerMoment } from '../../src/sample/ledger-clock.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';

/** A ledger that stands still until a test moves it. */
export class ManualClock implements LedgerClock {
  #head: LedgerVersion;
  #oldest: LedgerVersion;
  #fork: { readonly above: bigint; readonly name: string } | undefined;

  constructor(start: { readonly head: bigint; readonly oldest: bigint }) {
    this.#head = LedgerVersion.of(start.head);
    this.#oldest = LedgerVersion.of(start.oldest);
  }

  get head(): LedgerVersion {
    return this.#head;
  }

  set head(version: bigint) {
    this.#head = LedgerVersion.of(version);
  }

  get oldest(): LedgerVersion {
    return this.#oldest;
  }

  set oldest(version: bigint) {
    this.#oldest = LedgerVersion.of(version);
  }

  /** Versions above `above` are of another history from now on: other hashes, other state. */
  fork(above: bigint, name: string): void {
    this.#fork = { above, name };
  }

  historyOf(version: bigint): string {
    return this.#fork !== undefined && version > this.#fork.above ? this.#fork.name : '';
  }

  /** Moves the head on; the oldest version stays. */
  advance(versions: bigint): void {
    this.head = this.#head + versions;
  }

  read(lag = 0n): LedgerMoment {
    const head = this.#head > lag ? this.#head - lag : 0n;
    return momentAt(head, this.#oldest < head ? this.#oldest : head, timestampUsecOf);
  }

  timestampUsecOf(version: bigint): bigint {
    return timestampUsecOf(version);
  }
}

/** A fixed past, so that a manual ledger's answers are the same in every run. */
const startUsec = 1_700_000_000_000_000n;
const versionsPerSecond = 190n;

function timestampUsecOf(version: bigint): bigint {
  return startUsec + (version * 1_000_000n) / versionsPerSecond;
}
