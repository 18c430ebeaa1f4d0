/**
 * Rules that decide whether a head is believed. Pure. The freshest node gives no proof that it is ahead. A head that
 * the other nodes cannot have fallen so far behind is false, and reads pinned to it would stall every client. So a claim is
 * believed while more nodes agree with it than contradict it. When two nodes contradict each other, the lower head is safe,
 * because both hold it.
 */

/** The head of one node: its version, and the ledger time in microseconds since the epoch. */
export interface HeadReport {
  readonly version: bigint;
  readonly timestampUsec: bigint;
}

/** Heads of nodes at one moment differ by blocks in flight and by probes in between. */
const slackVersions = 10_000n;
/** A ledger commits no faster than this, in bursts: lag in time explains so much lag in versions. */
const versionsPerSecond = 20_000n;
/** A node that is behind by more than this is broken, and explains no more. */
const longestLagUsec = 900n * 1_000_000n;
/** A node whose ledger time is this close to our clock is in step with the ledger. */
const currentUsec = 60n * 1_000_000n;

/** Whether a node with head `other` proves that the ledger has not gone back from `head`. */
export function isConfirmed(head: bigint, other: bigint): boolean {
  return other + slackVersions >= head;
}

/**
 * Whether the claim of a new head is believed. `others`: the last reports of the other usable nodes. `nowUsec`: our
 * clock, microseconds since the epoch.
 */
export function isCredible(claim: HeadReport, others: readonly HeadReport[], nowUsec: bigint): boolean {
  const against = others.filter((other) => contradicts(other, claim, nowUsec)).length;
  return against === 0 || others.length + 1 - against > against;
}

function contradicts(other: HeadReport, claim: HeadReport, nowUsec: bigint): boolean {
  const ahead = claim.version - other.version;
  if (ahead <= slackVersions) return false;
  // A node that is behind by its own clock does not contradict one that is in step.
  if (isCurrent(claim, nowUsec) && !isCurrent(other, nowUsec)) return false;
  // A time in the future explains nothing.
  const claimedUsec = claim.timestampUsec < nowUsec ? claim.timestampUsec : nowUsec;
  const lag = claimedUsec - other.timestampUsec;
  const explaining = lag < 0n ? 0n : lag > longestLagUsec ? longestLagUsec : lag;
  return ahead > slackVersions + (explaining * versionsPerSecond) / 1_000_000n;
}

function isCurrent({ timestampUsec }: HeadReport, nowUsec: bigint): boolean {
  const apart = nowUsec - timestampUsec;
  return apart <= currentUsec && apart >= -currentUsec;
}

/** Whether the ledger time is ahead of our clock by more than clocks differ: no ledger has come so far. */
export function isOfFuture({ timestampUsec }: Pick<HeadReport, 'timestampUsec'>, nowUsec: bigint): boolean {
  return timestampUsec - nowUsec > currentUsec;
}
