/**
 * Why memory lacks a read: a fixed amount of memory about reads that left, or were never let in. Newer records replace
 * older ones, so that only `first time` may stand for a forgotten reason.
 */

/**
 * Reasons for a miss in memory. `first time`: nothing is remembered of the read. `other version`: it was stored at
 * another version. `evicted`: it left to make room. `expired`: its lifetime ended. `purged`: a purge or a rollback dropped
 * it. `not final`: its last answer was not allowed to be stored. `too large`: its last answer was larger than memory takes.
 */
export const missReasons = [
  'first time',
  'other version',
  'evicted',
  'expired',
  'purged',
  'not final',
  'too large',
] as const;
/** Reason for a miss in memory. */
export type MissReason = (typeof missReasons)[number];

/** A reason that is recorded for one read at one version. */
export type RecordedReason = Exclude<MissReason, 'first time' | 'other version'>;

/** Two independent hashes of a read at its version, both unsigned 32-bit. */
export interface ReadName {
  readonly hash: number;
  readonly tag: number;
}

/** Records of reads at a version, 1 MiB in all. */
const exitSlots = 2 ** 18;
const exitMask = exitSlots - 1;
/** The last bits of an exit's word are its reason, the others its tag. */
const reasonBits = 3;
const reasonMask = 2 ** reasonBits - 1;

/** Records of reads without their version, 512 KiB in all. */
const storedSlots = 2 ** 17;
/** The last bits of a stored read's word name its version, the others the read; its slot names the rest of the read. */
const versionMask = storedSlots - 1;

/**
 * Two direct-mapped tables of 32-bit words; a word replaces the one before in its slot. A read that was never recorded
 * gets a recorded reason with a probability of 2^-29, and `other version` with at most 2^-15.
 */
export class MissHistory {
  readonly #exits = new Uint32Array(exitSlots);
  readonly #stored = new Uint32Array(storedSlots);

  /** Records the reason for the next miss of a read at its version. */
  record(hash: number, tag: number, reason: RecordedReason): void {
    this.#exits[hash & exitMask] = (tag & ~reasonMask) | missReasons.indexOf(reason);
  }

  /** Records that the read with the mark `read` (see `PurgeMarks`) was stored at the version of `hash`. */
  recordStored(read: number, hash: number): void {
    this.#stored[read & versionMask] = storedWord(read, hash);
  }

  /** The recorded reason for a miss of this read at its version. */
  find({ hash, tag }: ReadName): RecordedReason | undefined {
    const word = this.#exits[hash & exitMask] as number;
    const reason = word & reasonMask;
    // 0 is the code of `first time`, which is never recorded: the slot is empty.
    if (reason === 0 || ((word ^ tag) & ~reasonMask) !== 0) return undefined;
    return missReasons[reason] as RecordedReason;
  }

  /** Whether the read with the mark `read` was last stored at another version than that of `hash`. */
  isOfOtherVersion(read: number, hash: number): boolean {
    const word = this.#stored[read & versionMask] as number;
    const difference = (word ^ storedWord(read, hash)) >>> 0;
    return word !== 0 && difference !== 0 && difference <= versionMask;
  }
}

function storedWord(read: number, hash: number): number {
  return ((read & ~versionMask) | (hash & versionMask)) >>> 0;
}
