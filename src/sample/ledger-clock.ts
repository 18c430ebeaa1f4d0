/**
 * The ledger a sample node pretends to follow: where its head and its oldest version stand at a moment. Everything else
 * (timestamp, epoch, block heights) is a pure function of a version, so that all nodes of one ledger agree on it.
 */
import { type LedgerInfo, LedgerVersion } from '../ledger/index.ts';

/** A node's ledger without the chain id, which belongs to the node. */
export type LedgerMoment = Omit<LedgerInfo, 'chainId'>;

/** Source of the ledger's state at each moment. */
export interface LedgerClock {
  /** The ledger now, as a node sees it that is `lag` versions behind. */
  read(lag?: bigint): LedgerMoment;
  timestampUsecOf(version: bigint): bigint;
  /** The name of the history that the version is of; absent or '': the one that every ledger begins with. */
  historyOf?(version: bigint): string;
}

/** Versions of each block of a sample ledger. */
export const versionsPerBlock = 20n;
/** Two hours at the usual 190 versions a second. */
const versionsPerEpoch = 1_368_000n;
const usualVersionsPerSecond = 190;

/** Height of the block that holds a version. */
export function blockHeightOf(version: bigint): bigint {
  return version / versionsPerBlock;
}

/** Start, pace and window of an advancing clock. */
export interface AdvancingClockOptions {
  /** Head at `startMs`. Default 0. */
  readonly startHead?: bigint;
  /** Default: now. A fixed moment in the past keeps the head from going back when the process restarts. */
  readonly startMs?: number;
  /** A whole number. Default 190. */
  readonly versionsPerSecond?: number;
  /** How many versions the node keeps. Absent: archival, everything from version 0. */
  readonly window?: bigint;
  /** The oldest version moves in steps of so many versions, as pruners work in batches. Default: one block. */
  readonly pruneStep?: bigint;
  /** Versions behind the other nodes of the ledger. Default 0. */
  readonly lag?: bigint;
  readonly now?: () => number;
}

/** A ledger that moves by itself. Its head is always the last version of a block: nodes commit whole blocks. */
export function advancingClock(options: AdvancingClockOptions = {}): LedgerClock {
  const { now = Date.now, startHead = 0n, versionsPerSecond = usualVersionsPerSecond, window } = options;
  const { startMs = now(), pruneStep = versionsPerBlock } = options;
  const rate = BigInt(versionsPerSecond);
  const timestampUsecOf = (version: bigint): bigint =>
    BigInt(startMs) * 1000n + ((version - startHead) * 1_000_000n) / rate;
  return {
    timestampUsecOf,
    read(lag = 0n) {
      const elapsed = BigInt(Math.max(0, Math.floor(now() - startMs)));
      const reached = startHead + (elapsed * rate) / 1000n - lag - (options.lag ?? 0n);
      const head = lastOfBlock(reached < 0n ? 0n : reached);
      const kept = window === undefined || head < window ? 0n : head - window;
      return momentAt(head, kept - (kept % pruneStep), timestampUsecOf);
    },
  };
}

/** The state of a ledger whose blocks have times by `timestampUsecOf`. */
export function momentAt(head: bigint, oldest: bigint, timestampUsecOf: (version: bigint) => bigint): LedgerMoment {
  return {
    version: LedgerVersion.of(head),
    oldestVersion: LedgerVersion.of(oldest),
    timestampUsec: timestampUsecOf(head),
    epoch: head / versionsPerEpoch,
    blockHeight: blockHeightOf(head),
    oldestBlockHeight: blockHeightOf(oldest),
  };
}

/** The end of the last block that is complete at `version`. */
function lastOfBlock(version: bigint): bigint {
  const over = (version + 1n) % versionsPerBlock;
  return version < over ? 0n : version - over;
}
