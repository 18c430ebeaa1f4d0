/** Rules for nodes that contradict each other: about their chains, heads and histories. Pure. */

/**
 * The value that most nodes report (`reported`, in the order of the config). A tie goes to `standing`, the value so far, so
 * that one node that changes its chain does not change the fleet's; without `standing`, to the first node.
 */
export function elect<T>(reported: readonly (T | undefined)[], standing?: T): T | undefined {
  const votes = new Map<T, number>();
  for (const value of reported) {
    if (value !== undefined) votes.set(value, (votes.get(value) ?? 0) + 1);
  }
  let elected = standing;
  for (const [value, count] of votes) {
    if (elected === undefined || count > (votes.get(elected) ?? 0)) elected = value;
  }
  return elected;
}

/** Version and ledger time, in microseconds since the epoch, of one node's head. */
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
/** A ledger that stops has its last blocks at some nodes only. */
const standingVersions = 1_000n;
/** A node whose ledger time is this close to our clock is in step with the ledger. */
const currentUsec = 60n * 1_000_000n;

/** Whether a node with head `other` proves that the ledger has not gone back from `head`. */
export function isConfirmed(head: bigint, other: bigint): boolean {
  return other + slackVersions >= head;
}

/**
 * Whether a node with head `other` is still catching up with `head`, by its own clock: it proves nothing about the
 * newest versions.
 */
export function isLeftBehind(head: HeadReport, other: HeadReport, nowUsec: bigint, maxLagUsec: bigint): boolean {
  return !isConfirmed(head.version, other.version) && nowUsec - other.timestampUsec > maxLagUsec;
}

/** Versions that blocks in flight put between nodes in step: half a second of the ledger, and never less than this. */
const inFlight = { least: 500, ms: 500 };

/**
 * The newest version that nodes in step with the second node may have reached by now, `ageMs` after its report.
 * `headSpeed`: its own, in versions per ms.
 */
export function nearest(second: bigint, headSpeed: number, ageMs: number): bigint {
  return second + BigInt(Math.ceil(headSpeed * ageMs + Math.max(inFlight.least, headSpeed * inFlight.ms)));
}

/**
 * Whether a new head is believed: while more nodes agree with it than contradict it, since reads pinned to a false head
 * would stall every client. When two nodes contradict each other, the lower head is safe, because both hold it.
 * `others`: the last reports of the other usable nodes. `isProven`: the claim goes on from a head that was believed
 * beside other nodes.
 */
export function isCredible(
  claim: HeadReport,
  others: readonly HeadReport[],
  nowUsec: bigint,
  isProven = false,
): boolean {
  const isFollowed = isProven || others.some(({ version }) => isConfirmed(claim.version, version));
  const isAgainst = (other: HeadReport): boolean =>
    (!isFollowed && stands(other, others, nowUsec)) || contradicts(other, claim, nowUsec);
  const against = others.filter(isAgainst).length;
  return others.length + 1 - against > against;
}

/**
 * Whether the ledger stands where `node` is: a ledger that stops has its nodes at one version, nodes that are only behind
 * are each at its own. Then a time nearer to our clock proves nothing, until a second node follows.
 */
function stands(node: HeadReport, others: readonly HeadReport[], nowUsec: bigint): boolean {
  if (isCurrent(node, nowUsec)) return false;
  return others.some((other) => other !== node && isNear(other.version, node.version));
}

function isNear(one: bigint, other: bigint): boolean {
  return one - other <= standingVersions && other - one <= standingVersions;
}

function contradicts(other: HeadReport, claim: HeadReport, nowUsec: bigint): boolean {
  // A node that is behind by its own clock does not contradict one that is in step.
  if (isCurrent(claim, nowUsec) && !isCurrent(other, nowUsec)) return false;
  // A time in the future explains nothing.
  const claimedUsec = claim.timestampUsec < nowUsec ? claim.timestampUsec : nowUsec;
  const lag = claimedUsec - other.timestampUsec;
  const explaining = lag < 0n ? 0n : lag > longestLagUsec ? longestLagUsec : lag;
  return claim.version - other.version > slackVersions + (explaining * versionsPerSecond) / 1_000_000n;
}

function isCurrent({ timestampUsec }: HeadReport, nowUsec: bigint): boolean {
  const apart = nowUsec - timestampUsec;
  return apart <= currentUsec && apart >= -currentUsec;
}

/** Whether the ledger time is ahead of our clock by more than clocks differ: no ledger has come so far. */
export function isOfFuture({ timestampUsec }: Pick<HeadReport, 'timestampUsec'>, nowUsec: bigint): boolean {
  return timestampUsec - nowUsec > currentUsec;
}

/** The accumulator root that a node reports at one version, as the node writes it. */
export interface NodeRoot<N> {
  readonly node: N;
  readonly root: string;
}

/**
 * `believed`: the nodes with the most frequent root. `doubted`: all that contradict it; when no root is the most
 * frequent one, all.
 */
interface RootVote<N> {
  readonly believed: readonly N[];
  readonly doubted: readonly N[];
}

/** The vote of these reports. `absent`: doubted nodes without a report, which may have any root. */
export function voteOnRoots<N>(reports: readonly NodeRoot<N>[], absent: number): RootVote<N> {
  const groups = [...Map.groupBy(reports, ({ root }) => root).values()].sort((a, b) => b.length - a.length);
  const [most = [], next = []] = groups;
  const isMost = most.length > Math.max(next.length, absent);
  const nodesOf = (group: readonly NodeRoot<N>[]): readonly N[] => group.map(({ node }) => node);
  if (groups.length < 2) return { believed: isMost ? nodesOf(most) : [], doubted: [] };
  return isMost
    ? { believed: nodesOf(most), doubted: nodesOf(groups.slice(1).flat()) }
    : { believed: [], doubted: nodesOf(reports) };
}

/**
 * The agreement of nodes on a root. `same`: a node reports it, and none reports another. `other`: every node reports
 * another. `pruned`: no node reports one, and one holds nothing that old.
 */
export type Agreement = 'same' | 'other' | 'mixed' | 'pruned' | 'unknown';

interface RootReport {
  /** At the version of `known`; `undefined`: the node reports none. */
  readonly root: string | undefined;
  readonly head: bigint;
  readonly oldest: bigint;
}

/** The agreement on `known` after these reports. */
export function agreementOf(
  known: { readonly version: bigint; readonly root: string },
  reports: readonly RootReport[],
): Agreement {
  const isConfirmed = reports.some(({ root }) => root === known.root);
  const isDenied = reports.some(({ root }) => root !== undefined && root !== known.root);
  if (isConfirmed) return isDenied ? 'mixed' : 'same';
  const silent = reports.filter(({ root }) => root === undefined);
  // A silent node may confirm the root yet; a node that is behind, or has pruned the version, cannot.
  const isOpen = silent.some(({ head, oldest }) => head >= known.version && oldest <= known.version);
  if (isDenied) return isOpen ? 'unknown' : 'other';
  return silent.some(({ oldest }) => oldest > known.version) ? 'pruned' : 'unknown';
}

/** Versions among which the first difference of two nodes is: it is `from` at the earliest, and `differsAt` differs. */
export interface ForkRange {
  readonly from: bigint;
  readonly differsAt: bigint;
}

/** The version to compare next; `undefined`: the first difference is found. `hint`: a version of likely agreement. */
export function nextComparison({ from, differsAt }: ForkRange, hint?: bigint): bigint | undefined {
  if (from >= differsAt) return undefined;
  return hint !== undefined && hint >= from && hint < differsAt ? hint : (from + differsAt) / 2n;
}

/** The range after a comparison at `version`. `pruned`: a node no longer holds it, so the search goes on above. */
export function narrowed(range: ForkRange, version: bigint, found: 'same' | 'other' | 'pruned'): ForkRange {
  return found === 'other' ? { ...range, differsAt: version } : { ...range, from: version + 1n };
}
