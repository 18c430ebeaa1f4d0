/** Rules about nodes whose histories differ: which ones are believed, and where to look for the fork. Pure. */

/** The root of one node at a version that all reports are of. */
export interface NodeRoot<N> {
  readonly node: N;
  readonly root: string;
}

/**
 * Nodes by their roots at one version. `doubted`: all that contradict the most frequent root; when no root is the most
 * frequent one, all. `believed`: nodes with the most frequent root.
 */
export interface RootVote<N> {
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
