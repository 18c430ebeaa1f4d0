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

/**
 * Every read of a client must be at or past everything that client saw before the read began: states (monotonic
 * reads) and commits (read your writes). One violation is reported per read and promise. `groupOf`: observations of one
 * group count as those of one client; default: each client's.
 */
export function findViolations<Of extends Observation>(
  history: readonly Of[],
  groupOf: (observation: Of) => string = ({ client }) => client,
): Violation[] {
  const byClient = new Map<string, Observation[]>();
  for (const observation of history) {
    const group = groupOf(observation);
    const own = byClient.get(group);
    if (own === undefined) byClient.set(group, [observation]);
    else own.push(observation);
  }
  return [...byClient.values()].flatMap((own) =>
    violationsOf(own, 'read', 'monotonic reads').concat(violationsOf(own, 'commit', 'read your writes')),
  );
}

/** Sweeps reads by their start over what had ended by then, keeping the newest: n log n. */
function violationsOf(
  own: readonly Observation[],
  seen: Observation['kind'],
  promise: Violation['promise'],
): Violation[] {
  const ended = own.filter(({ kind }) => kind === seen).sort((a, b) => a.endMs - b.endMs);
  const reads = own.filter(({ kind }) => kind === 'read').sort((a, b) => a.startMs - b.startMs);
  const found: Violation[] = [];
  let next = 0;
  let newest: Observation | undefined;
  for (const later of reads) {
    for (; next < ended.length && (ended[next]?.endMs ?? Infinity) <= later.startMs; next += 1) {
      const candidate = ended[next];
      if (candidate !== undefined && (newest === undefined || candidate.version > newest.version)) newest = candidate;
    }
    if (newest !== undefined && later.version < newest.version) found.push({ promise, earlier: newest, later });
  }
  return found;
}
