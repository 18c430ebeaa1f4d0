/**
 * A checker of histories: what clients saw, and whether it is allowed. Small on purpose, and knowing nothing of
 * gateways: times, clients and versions in, violations out.
 */

/** One finished operation. Times are of one clock; operations that overlap have no order. */
export interface Observation {
  readonly client: string;
  readonly startMs: number;
  readonly endMs: number;
  /** `read`: the state that was shown. `commit`: a transaction was shown as committed at this version. */
  readonly kind: 'read' | 'commit';
  readonly version: bigint;
}

export interface Violation {
  readonly promise: 'monotonic reads' | 'read your writes';
  readonly earlier: Observation;
  readonly later: Observation;
}

/** From this time on, `version` is the newest that can be read anywhere. */
export interface Moment {
  readonly atMs: number;
  readonly version: bigint;
}

/** Observations that count as those of one client, and the processes that make them. */
export interface Grouping<Of> {
  /** Default: each client's. */
  readonly groupOf?: (observation: Of) => string;
  /** The process that answered. Default: one for all. */
  readonly placeOf?: (observation: Of) => string;
  /** Processes learn from each other in this time: an operation at another place that ended later binds no read. */
  readonly newsMs?: number;
}

/**
 * Every read of a client must be at or past everything that client saw before the read began: states (monotonic
 * reads) and commits (read your writes). One violation is reported per read and promise.
 */
export function findViolations<Of extends Observation>(
  history: readonly Of[],
  { groupOf = ({ client }) => client, placeOf = () => '', newsMs = 0 }: Grouping<Of> = {},
): Violation[] {
  const groups = Map.groupBy(history, groupOf);
  const found: Violation[] = [];
  for (const own of groups.values()) {
    found.push(...violationsOf(own, 'read', 'monotonic reads', { placeOf, newsMs }));
    found.push(...violationsOf(own, 'commit', 'read your writes', { placeOf, newsMs }));
  }
  return found;
}

/** Sweeps reads by their start over what had ended by then, keeping the newest of each place and of all: n log n. */
function violationsOf<Of extends Observation>(
  own: readonly Of[],
  seen: Observation['kind'],
  promise: Violation['promise'],
  { placeOf, newsMs }: Required<Pick<Grouping<Of>, 'placeOf' | 'newsMs'>>,
): Violation[] {
  const ended = own.filter(({ kind }) => kind === seen).sort((a, b) => a.endMs - b.endMs);
  const reads = own.filter(({ kind }) => kind === 'read').sort((a, b) => a.startMs - b.startMs);
  const found: Violation[] = [];
  const ofPlace = new Map<string, Of>();
  let here = 0;
  let anywhere = 0;
  let newest: Of | undefined;
  for (const later of reads) {
    for (let next = ended[here]; next !== undefined && next.endMs <= later.startMs; next = ended[(here += 1)]) {
      ofPlace.set(placeOf(next), newerOf(next, ofPlace.get(placeOf(next))));
    }
    for (
      let next = ended[anywhere];
      next !== undefined && next.endMs <= later.startMs - newsMs;
      next = ended[(anywhere += 1)]
    )
      newest = newerOf(next, newest);
    const nearest = ofPlace.get(placeOf(later));
    const earlier = nearest === undefined ? newest : newerOf(nearest, newest);
    if (earlier !== undefined && later.version < earlier.version) found.push({ promise, earlier, later });
  }
  return found;
}

function newerOf<Of extends Observation>(one: Of, other: Of | undefined): Of {
  return other === undefined || one.version > other.version ? one : other;
}

/** The reads that show a state that had been replaced for longer than `boundOf` when they began, in ms. */
export function findStale<Of extends Observation>(
  history: readonly Of[],
  moments: readonly Moment[],
  boundOf: (read: Of) => number,
): Of[] {
  return history.filter(
    (read) => read.kind === 'read' && read.version < leastBetween(moments, read.startMs - boundOf(read), read.endMs),
  );
}

/** The lowest version that was the newest at a time of the interval: a node that fails takes its versions with it. */
export function leastBetween(moments: readonly Moment[], fromMs: number, toMs: number): bigint {
  let low = 0;
  let high = moments.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((moments[middle]?.atMs ?? Infinity) <= fromMs) low = middle + 1;
    else high = middle;
  }
  let least = moments[Math.max(0, low - 1)]?.version ?? 0n;
  for (let next = moments[low]; next !== undefined && next.atMs <= toMs; next = moments[(low += 1)]) {
    if (next.version < least) least = next.version;
  }
  return least;
}
