/**
 * Whether a node's claim of a new head is believed: a pure function of what all nodes say.
 *
 * The freshest node is not asked for proof that it is ahead, but a head that the others could not have fallen behind
 * by is a lie or a fault, and pinning reads to it would stall every client. So a claim is believed while more nodes
 * can live with it than contradict it; of two nodes that contradict each other the lower head is safe, because both
 * hold it.
 */

export interface HeadReport {
  readonly version: bigint;
  readonly timestampUsec: bigint;
}

/** Heads of nodes at one moment differ by blocks in flight and by probes in between. */
const slackVersions = 10_000n;
/** A ledger commits no faster than this for long; what a node is behind in time it may be behind in versions. */
const versionsPerSecond = 1_000n;
/** A node that is behind by more than this is broken, and explains no more. */
const longestLagUsec = 900n * 1_000_000n;
/** A node whose ledger time is this close to our clock is in step with the ledger. */
const currentUsec = 60n * 1_000_000n;

/** `others`: the last reports of the other usable nodes. `nowUsec`: our clock, microseconds since the epoch. */
export function isCredible(claim: HeadReport, others: readonly HeadReport[], nowUsec: bigint): boolean {
  const against = others.filter((other) => contradicts(other, claim, nowUsec)).length;
  return against === 0 || others.length + 1 - against > against;
}

function contradicts(other: HeadReport, claim: HeadReport, nowUsec: bigint): boolean {
  const ahead = claim.version - other.version;
  if (ahead <= slackVersions) return false;
  // A node that is behind by its own clock says nothing against one that is in step.
  if (isCurrent(claim, nowUsec) && !isCurrent(other, nowUsec)) return false;
  const lag = claim.timestampUsec - other.timestampUsec;
  const explaining = lag < 0n ? 0n : lag > longestLagUsec ? longestLagUsec : lag;
  return ahead > slackVersions + (explaining * versionsPerSecond) / 1_000_000n;
}

function isCurrent({ timestampUsec }: HeadReport, nowUsec: bigint): boolean {
  const apart = nowUsec - timestampUsec;
  return apart <= currentUsec && apart >= -currentUsec;
}
