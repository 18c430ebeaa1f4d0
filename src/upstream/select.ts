/**
 * Which nodes to ask, and in which order: a pure function of what is known.
 *
 * A pinned read goes to the shallowest node that surely holds its version, so that the archival tier keeps its capacity
 * for what only it can answer. Among nodes of about one depth, two are drawn at random and the cheaper is asked first
 * (power of two choices on peak-EWMA latency x requests in flight): unlike strict least-loaded it does not send every
 * gateway to the same node at once, and unlike round robin it leaves a slow node alone.
 */
import { positionOf, type Need } from './need.ts';
import {
  comparePlaces,
  depthOf,
  holdingOf,
  positionRanking,
  freshness,
  rankingFor,
  reach,
  takerRanking,
  type Candidate,
  type Ranking,
} from './ranking.ts';

/** Windows up to this much deeper than the shallowest holder's share its load. */
export const depthTolerance = 1.25;

/** Orders nodes of one rank. */
type Settle<C> = (group: readonly C[]) => readonly C[];

/** What is chosen by beside the nodes and the need. */
export interface Choice {
  /** A node has said that it does not hold what is asked for. */
  readonly isMissed?: boolean;
  /** From 0 to below 1. */
  readonly random?: () => number;
}

/**
 * The nodes that are as good as each other to be asked next, their tiers apart, best first: of those that
 * `selectUpstreams` puts in order the first few, without looking at the others more than once.
 */
export function nextUpstreams<C extends Candidate>(
  candidates: readonly C[],
  need: Need,
  { isMissed = false, random = Math.random }: Choice = {},
): readonly C[] {
  const askable = candidates.filter(isAskable);
  const position = positionOf(need);
  const able = position === undefined ? askable : askable.filter(mayHold(position));
  const left = able.length === 0 ? askable : able;
  if (left.length < 2) return left;
  const ranking = rankingFor(left, need, isMissed);
  const alike = bestOf(left, ranking);
  const settle = settleFor<C>(isMissed ? undefined : position, random);
  const isOfOneTier = alike.every(({ tier }) => tier === alike[0]?.tier);
  const best = isOfOneTier ? settle(alike) : byRank(alike, ranking, settle);
  return able.length === 0 ? best.slice(0, 1) : best;
}

/**
 * All nodes worth asking, best first: in what order they are asked while each fails, or does not answer in time. Foreign
 * nodes are never among them.
 */
export function selectUpstreams<C extends Candidate>(
  candidates: readonly C[],
  need: Need,
  random: () => number = Math.random,
): readonly C[] {
  const askable = candidates.filter(isAskable);
  const position = positionOf(need);
  const settle = settleFor<C>(position, random);
  if (position !== undefined) return forPosition(askable, position, settle);
  if (need.kind === 'transaction') return forTransaction(askable, need, settle);
  return byRank(askable, freshness(askable, need.kind === 'head' && need.isExact === true), settle);
}

function isAskable({ health }: Candidate): boolean {
  return health !== 'foreign';
}

/** Tells nodes that do not say that they have pruned it. */
function mayHold(position: bigint): (candidate: Candidate) => boolean {
  return ({ window }) => holdingOf(window, position) !== 'pruned';
}

/** Those of the best rank, their tiers apart, which are what decides last. */
function bestOf<C>(candidates: readonly C[], ranking: Ranking<C>): readonly C[] {
  const compared = ranking.criteria.length - 1;
  let best: readonly number[] = [];
  let alike: C[] = [];
  for (const candidate of candidates) {
    const rank = ranking.of(candidate);
    const difference = alike.length === 0 ? -1 : comparePlaces(rank, best, compared);
    if (difference < 0) {
      best = rank;
      alike = [candidate];
    } else if (difference === 0) alike.push(candidate);
  }
  return alike;
}

/** Edges only rise, so "pruned" is the same in any node's words: those of one that answers, rather than of the deepest. */
function forPosition<C extends Candidate>(candidates: readonly C[], position: bigint, settle: Settle<C>): readonly C[] {
  const ordered = byRank(candidates, positionRanking(position), settle);
  const able = ordered.filter(mayHold(position));
  const last = ordered.find(({ window }) => holdingOf(window, position) === 'pruned');
  return last === undefined ? able : [...able, last];
}

/** The node that took the submission, or else a full node; then the rest from the deepest up. */
function forTransaction<C extends Candidate>(
  candidates: readonly C[],
  need: Extract<Need, { kind: 'transaction' }>,
  settle: Settle<C>,
): readonly C[] {
  const [cheapest, ...others] = byRank(candidates, takerRanking(need.first), settle);
  return cheapest === undefined ? [] : [cheapest, ...byRank(others, reach(need), settle)];
}

/** Sorts by rank, lowest first; equals are ordered by `settle`. */
function byRank<C extends Candidate>(candidates: readonly C[], ranking: Ranking<C>, settle: Settle<C>): readonly C[] {
  if (candidates.length < 2) return candidates;
  const ranked = candidates.map((candidate) => ({ candidate, rank: ranking.of(candidate) }));
  ranked.sort((a, b) => comparePlaces(a.rank, b.rank));
  return groupedBy(ranked, (one, other) => comparePlaces(one.rank, other.rank) === 0).flatMap((group) =>
    settle(group.map(({ candidate }) => candidate)),
  );
}

/** `position`: of which the shallowest holders are asked first. */
function settleFor<C extends Candidate>(position: bigint | undefined, random: () => number): Settle<C> {
  const settle: Settle<C> = (group) => byLoad(group, random);
  return position === undefined ? settle : (group) => shallowestFirst(group, settle);
}

/** Within one tier: nodes of about the shallowest depth by load, then the next depth, and so on. */
function shallowestFirst<C extends Candidate>(group: readonly C[], settle: Settle<C>): readonly C[] {
  if (group.length < 2) return group;
  const measured = group.map((candidate) => ({ candidate, depth: depthOf(candidate) }));
  measured.sort((a, b) => a.depth - b.depth);
  return groupedBy(measured, (shallowest, { depth }) => depth <= shallowest.depth * depthTolerance).flatMap((alike) =>
    settle(alike.map(({ candidate }) => candidate)),
  );
}

/** Cuts what is in order into groups: each goes on for as long as what comes `belongs` to its first. */
function groupedBy<T>(ordered: readonly T[], belongs: (first: T, next: T) => boolean): readonly (readonly T[])[] {
  const groups: T[][] = [];
  for (const next of ordered) {
    const group = groups.at(-1);
    const first = group?.[0];
    if (group !== undefined && first !== undefined && belongs(first, next)) group.push(next);
    else groups.push([next]);
  }
  return groups;
}

/** Power of two choices for the first place; the others follow by cost, for when the first fails. */
function byLoad<C extends Candidate>(group: readonly C[], random: () => number): readonly C[] {
  if (group.length < 2) return group;
  const one = Math.floor(random() * group.length);
  const other = (one + 1 + Math.floor(random() * (group.length - 1))) % group.length;
  const [first, second] = [group[one], group[other]];
  const winner = first !== undefined && second !== undefined && second.cost < first.cost ? second : first;
  const rest = group.filter((candidate) => candidate !== winner).sort((a, b) => a.cost - b.cost);
  return winner === undefined ? rest : [winner, ...rest];
}
