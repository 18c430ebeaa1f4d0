/**
 * Which nodes to ask, and in which order: a pure function of what is known.
 *
 * A pinned read goes to the shallowest node that surely holds its version, so that the archival tier keeps its capacity
 * for what only it can answer. Among nodes of about one depth, two are drawn at random and the cheaper is asked first
 * (power of two choices on peak-EWMA latency x requests in flight): unlike strict least-loaded it does not send every
 * gateway to the same node at once, and unlike round robin it leaves a slow node alone.
 */
import type { LedgerVersion } from '../ledger/version.ts';
import type { WindowView } from './retention-window.ts';
import type { Health, Tier } from './upstream.ts';

/** What a request needs of a node. */
export type Need =
  /** The state at one version. */
  | { readonly kind: 'version'; readonly version: LedgerVersion }
  /** The block of one height: held by the same nodes as its versions. Windows are told in blocks then. */
  | { readonly kind: 'block'; readonly height: bigint }
  /** The newest state, at or past `min`; submissions too go where the ledger is newest. */
  | { readonly kind: 'head'; readonly min?: LedgerVersion | undefined }
  /** A transaction that any node may hold, the deepest most surely; `first` names the node that took its submission. */
  | { readonly kind: 'transaction'; readonly first?: string | undefined };

/** One node as it looks at the moment of arrival. */
export interface Candidate {
  readonly name: string;
  readonly tier: Tier;
  readonly health: Health;
  /** Its head is not believed. */
  readonly isSuspect?: boolean;
  /** It does reads of this class worse than the others (see `Ejection`). */
  readonly isEjected?: boolean;
  /** It is so far behind the others that it serves only what it holds. */
  readonly isLagging?: boolean;
  readonly window: WindowView | undefined;
  /** Expected wait: latency in ms times the requests in flight and this one. */
  readonly cost: number;
  /** Versions that the head moves in `headToleranceMs`: nodes this close to each other are equally fresh. */
  readonly headTolerance: number;
}

/** Heads this close in time count as equally fresh: less than the noise of their last observation. */
export const headToleranceMs = 100;

/** Windows up to this much deeper than the shallowest holder's share its load. */
export const depthTolerance = 1.25;

const healthRank: Readonly<Record<Health, number>> = { usable: 0, unproven: 1, down: 3, foreign: 4 };
/** Of a node that answers and should not be asked: when all look bad, it is the least bad. */
const passedOver = 2;

/** A node whose head is not believed, or that does worse than the others, comes only before those that are down. */
export function trustRank({ health, isSuspect, isEjected }: Candidate): number {
  return isSuspect === true || isEjected === true ? Math.max(healthRank[health], passedOver) : healthRank[health];
}

/**
 * What two nodes are compared by. `health`: whether it answers and is believed. `holding`: how surely it holds the
 * version. `distance`: how far its head is from a version above it. `edge`: how far its edge is from a version below.
 * `lag`: versions behind the freshest. `submission`: whether it took the transaction. `depth`: how far back it goes.
 */
export type Criterion = 'health' | 'holding' | 'distance' | 'edge' | 'tier' | 'lag' | 'submission' | 'depth' | 'load';

/** What decides first, first; `of` gives a node's place in each, lower is better. */
export interface Ranking<C> {
  readonly criteria: readonly Criterion[];
  of(candidate: C): number[];
}

/** Nodes to ask, best first. Foreign nodes are never among them. */
export function selectUpstreams<C extends Candidate>(
  candidates: readonly C[],
  need: Need,
  random: () => number = Math.random,
): C[] {
  const askable = candidates.filter((candidate) => candidate.health !== 'foreign');
  switch (need.kind) {
    case 'version':
      return forPosition(askable, need.version, random);
    case 'block':
      return forPosition(askable, need.height, random);
    case 'head':
      return byRank(askable, freshness(askable), random);
    case 'transaction':
      return forTransaction(askable, need.first, random);
  }
}

/** Of nodes in order of preference, those that are as good for the request as the first, their tiers apart. */
export function alternatives<C extends Candidate>(ordered: readonly C[], need: Need): readonly C[] {
  const [best] = ordered;
  if (best === undefined || ordered.length === 1) return ordered;
  const ranking = rankingFor(ordered, need);
  const rank = ranking.of(best);
  const isAlike = (place: number, index: number): boolean =>
    ranking.criteria[index] === 'tier' || place === rank[index];
  return ordered.filter((other) => ranking.of(other).every(isAlike));
}

function rankingFor<C extends Candidate>(candidates: readonly C[], need: Need): Ranking<C> {
  switch (need.kind) {
    case 'version':
      return positionRanking(need.version);
    case 'block':
      return positionRanking(need.height);
    case 'head':
      return freshness(candidates);
    case 'transaction':
      return takerRanking(need.first);
  }
}

/** The node whose word on "no such version" or "no such transaction" is final: the one with the lowest edge. */
export function deepest<C extends Candidate>(candidates: readonly C[]): C | undefined {
  return candidates
    .filter((candidate) => candidate.health !== 'foreign')
    .reduce<C | undefined>(
      (found, candidate) => (found === undefined || isDeeper(candidate, found) ? candidate : found),
      undefined,
    );
}

/**
 * The deepest node, when it is deeper than all of `refusers`: while it has not been heard, what they call pruned may be
 * there.
 */
export function deeperThan<C extends Candidate>(candidates: readonly C[], refusers: (candidate: C) => boolean) {
  const final = deepest(candidates);
  if (final === undefined || refusers(final)) return undefined;
  return candidates.some((candidate) => refusers(candidate) && !isDeeper(final, candidate)) ? undefined : final;
}

/** The version or block height that a node's window must hold for this need. */
export function positionOf(need: Need): bigint | undefined {
  if (need.kind === 'version') return need.version;
  return need.kind === 'block' ? need.height : undefined;
}

/**
 * What a node's window says of a version or block. `edge`: held by its last word, but the edge may pass it before the request
 * arrives. `unknown`: no word yet, or above its head, where it may have got by now.
 */
export type Holding = 'held' | 'edge' | 'unknown' | 'pruned';

export function holdingOf(window: WindowView | undefined, position: bigint): Holding {
  if (window === undefined || position > window.head) return 'unknown';
  if (position >= window.safeOldest) return 'held';
  return position >= window.oldest ? 'edge' : 'pruned';
}

const holdingRank: Readonly<Record<Holding, number>> = { held: 0, edge: 1, unknown: 2, pruned: 3 };

/** `position`: a version, or a block's height where the windows are of heights. */
export function positionRanking<C extends Candidate>(position: bigint): Ranking<C> {
  return {
    criteria: ['health', 'holding', 'distance', 'edge', 'tier'],
    of: (candidate) => {
      const holding = holdingOf(candidate.window, position);
      // Above a node's head the nearest head is the best hope; below every edge the deepest node's word is the surest.
      const distance = holding === 'unknown' ? -Number(candidate.window?.head ?? 0n) : 0;
      const depth = holding === 'pruned' ? Number(candidate.window?.oldest ?? 0n) : 0;
      return [trustRank(candidate), holdingRank[holding], distance, depth, candidate.tier === 'full' ? 0 : 1];
    },
  };
}

function forPosition<C extends Candidate>(candidates: readonly C[], position: bigint, random: () => number): C[] {
  const ordered = byRank(candidates, positionRanking(position), random, (group) => shallowestFirst(group, random));
  const able = ordered.filter((candidate) => holdingOf(candidate.window, position) !== 'pruned');
  // Edges only rise, so "pruned" is the same in any node's words: those of one that answers rather than of the deepest.
  const last = ordered.find((candidate) => holdingOf(candidate.window, position) === 'pruned');
  return last === undefined ? able : [...able, last];
}

/** Within one tier: nodes of about the shallowest depth by load, then the next depth, and so on. */
function shallowestFirst<C extends Candidate>(group: readonly C[], random: () => number): C[] {
  const left = [...group].sort((a, b) => depthOf(a) - depthOf(b));
  const ordered: C[] = [];
  while (left.length > 0) {
    const shallowest = left[0] === undefined ? 0 : depthOf(left[0]);
    const alike = left.filter((candidate) => depthOf(candidate) <= shallowest * depthTolerance);
    ordered.push(...byLoad(alike, random));
    // The shallowest itself always leaves, whatever a window claims: this loop must end.
    left.splice(0, Math.max(1, alike.length));
  }
  return ordered;
}

export function freshness<C extends Candidate>(candidates: readonly C[]): Ranking<C> {
  const heads = candidates
    .filter((candidate) => candidate.health === 'usable' && candidate.isSuspect !== true)
    .map((candidate) => headOf(candidate));
  const freshest = Math.max(0, ...heads);
  return {
    criteria: ['health', 'lag', 'tier'],
    of: (candidate) => {
      const behind = Math.max(0, freshest - headOf(candidate));
      const lag = behind <= candidate.headTolerance ? 0 : behind;
      const trust = trustRank(candidate);
      return [
        candidate.isLagging === true ? Math.max(trust, passedOver) : trust,
        lag,
        candidate.tier === 'full' ? 0 : 1,
      ];
    },
  };
}

export function takerRanking<C extends Candidate>(first: string | undefined): Ranking<C> {
  return {
    criteria: ['submission', 'health', 'tier'],
    of: (candidate) => [
      candidate.name === first && candidate.isEjected !== true ? 0 : 1,
      trustRank(candidate),
      candidate.tier === 'full' ? 0 : 1,
    ],
  };
}

/** The node that took the submission, or else a full node; then the rest from the deepest up. */
function forTransaction<C extends Candidate>(
  candidates: readonly C[],
  first: string | undefined,
  random: () => number,
): C[] {
  const [cheapest, ...others] = byRank(candidates, takerRanking(first), random);
  if (cheapest === undefined) return [];
  const rest = others.sort((a, b) => trustRank(a) - trustRank(b) || (isDeeper(a, b) ? -1 : isDeeper(b, a) ? 1 : 0));
  return [cheapest, ...rest];
}

/** Sorts by rank, lowest first; equals are ordered by `settle`, by load unless told otherwise. */
function byRank<C extends Candidate>(
  candidates: readonly C[],
  ranking: Ranking<C>,
  random: () => number,
  settle: (group: readonly C[]) => C[] = (group) => byLoad(group, random),
): C[] {
  if (candidates.length < 2) return settle(candidates);
  const groups = new Map<string, { readonly rank: number[]; readonly members: C[] }>();
  for (const candidate of candidates) {
    const own = ranking.of(candidate);
    const key = own.join();
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { rank: own, members: [candidate] });
    else group.members.push(candidate);
  }
  return [...groups.values()].sort((a, b) => compareRanks(a.rank, b.rank)).flatMap((group) => settle(group.members));
}

function compareRanks(a: readonly number[], b: readonly number[]): number {
  const at = firstDifference(a, b);
  return at === -1 ? 0 : (a[at] ?? 0) - (b[at] ?? 0);
}

export function firstDifference(a: readonly number[], b: readonly number[]): number {
  return a.findIndex((value, index) => value !== b[index]);
}

/** Power of two choices for the first place; the others follow by cost, for when the first fails. */
function byLoad<C extends Candidate>(group: readonly C[], random: () => number): C[] {
  if (group.length < 2) return [...group];
  const one = Math.floor(random() * group.length);
  const other = (one + 1 + Math.floor(random() * (group.length - 1))) % group.length;
  const [first, second] = [group[one], group[other]];
  const winner = first !== undefined && second !== undefined && second.cost < first.cost ? second : first;
  const rest = group.filter((candidate) => candidate !== winner).sort((a, b) => a.cost - b.cost);
  return winner === undefined ? rest : [winner, ...rest];
}

function isDeeper(a: Candidate, b: Candidate): boolean {
  if (a.window === undefined || b.window === undefined) {
    return a.tier === 'archival' && b.tier === 'full';
  }
  return a.window.oldest === b.window.oldest
    ? a.tier === 'archival' && b.tier === 'full'
    : a.window.oldest < b.window.oldest;
}

export function depthOf(candidate: Candidate): number {
  const window = candidate.window;
  return window === undefined ? Number.MAX_VALUE : Math.max(0, Number(window.head - window.oldest));
}

function headOf(candidate: Candidate): number {
  return Number(candidate.window?.head ?? 0n);
}
