/**
 * Nodes still worth asking, best first, given the answers so far: pure functions of the nodes' reports.
 *
 * A pinned read goes to the shallowest node that surely holds its version, so that the archival tier keeps its capacity
 * for the versions that only it holds. Among nodes of about one depth, two are drawn at random and the cheaper is asked
 * first (power of two choices on peak-EWMA latency x requests in flight). Strict least-loaded would send every gateway to
 * the same node at once; round robin would go on asking a slow node. Between nodes of different weights, chance alone
 * decides: by load, an idle node of small weight would be the cheapest.
 */
import {
  positionOf,
  type Need,
  type ReadClass,
  criterionBetween,
  depthOf,
  holdingOf,
  prunedScore,
  roundOf,
  score,
  type Candidate,
  type Criterion,
  type Round,
  type Tier,
} from './ranking.ts';
import type { RetentionWindow, Unit } from '../node/retention-window.ts';

/** Nodes with windows up to this factor deeper than the shallowest holder's share its load. */
const depthTolerance = 1.25;

/** A node of the fleet. `N`: type of the fleet's node object. */
export type NodeCandidate<N> = Candidate & { readonly upstream: N };

/** The answers of one call so far; `AttemptHistory` is one. */
export interface AnswersSoFar<N> {
  readonly asked: ReadonlySet<N>;
  /** Nodes that answered that they do not hold the version, block or transaction. */
  readonly prunedAt: ReadonlySet<N>;
  readonly anyPruned: boolean;
  /** The best answer so far. */
  readonly bestAnswer: unknown;
}

/**
 * The nodes to ask next, equally good, best first; empty when none has anything to add. `isLast`: no attempt is left
 * after this one, so the deepest node that holds the data gets it.
 */
export function nextNodes<N>(
  nodes: readonly NodeCandidate<N>[],
  need: Need,
  answers: AnswersSoFar<N>,
  isLast: boolean,
): readonly NodeCandidate<N>[] {
  const { asked, prunedAt, anyPruned, bestAnswer } = answers;
  if (anyPruned && need.kind === 'head') {
    // Without a version to compare windows by, only the deepest node has more to add.
    const last = deepestUnasked(nodes, prunedAt);
    return last === undefined || asked.has(last.upstream) ? [] : [last];
  }
  const left = asked.size === 0 ? nodes : nodes.filter(({ upstream }) => !asked.has(upstream));
  const next = nextUpstreams(left, need, { isMissed: anyPruned || prunedAt.size > 0 || isLast });
  const best = next[0];
  // After a 410, only a node that may hold the version has more to add.
  const position = positionOf(need);
  const isFutile = anyPruned && position !== undefined && holdingOf(best?.window, position) === 'pruned';
  // A node whose head is not believed has nothing to add to the answers of believed ones, but data that they lack.
  const isDoubtful = best?.isSuspect === true && bestAnswer !== undefined && prunedAt.size === 0;
  return isFutile || isDoubtful ? [] : next;
}

/** Circumstances of a choice. */
export interface Choice {
  /** A node has answered that it does not hold the data. */
  readonly isMissed?: boolean;
  /** A number in [0, 1). */
  readonly random?: () => number;
}

/** The equally good nodes to ask next, best first, of both tiers. */
export function nextUpstreams<C extends Candidate>(
  candidates: readonly C[],
  need: Need,
  { isMissed = false, random = Math.random }: Choice = {},
): readonly C[] {
  const round = roundOf(candidates, need, isMissed);
  let best = Infinity;
  let alike: C[] = [];
  for (const node of candidates) {
    const ofNode = score(node, round);
    if (ofNode > best || ofNode === Infinity) continue;
    if (ofNode < best) alike = [];
    best = ofNode;
    alike.push(node);
  }
  if (alike.length < 2) return alike;
  const settle = positionOf(need) === undefined || isMissed ? byLoad : shallowestFirst;
  const ordered = byTier(alike, firstTierOf(round), (tier) => settle(tier, random));
  // Edges only rise: when all nodes have pruned the version, one node's 410 is as good as any other's.
  return best >= prunedScore ? ordered.slice(0, 1) : ordered;
}

/** The tier that is asked first among nodes with equal scores. */
function firstTierOf({ need, isMissed }: Round): Tier {
  return isMissed && need.kind !== 'head' ? 'archival' : 'full';
}

/** All nodes worth asking, in their order while each fails; never foreign or drained ones. */
export function selectUpstreams<C extends Candidate>(
  candidates: readonly C[],
  need: Need,
  random: () => number = Math.random,
): readonly C[] {
  const position = positionOf(need);
  const ordered: C[] = [];
  for (let left = candidates; left.length > 0;) {
    const isMissed = need.kind === 'transaction' && ordered.length > 0;
    const alike = nextUpstreams(left, need, { isMissed, random });
    // Only the first node asked for a transaction is chosen by load: a miss there makes depth decide.
    const next = need.kind === 'transaction' ? alike.slice(0, 1) : alike;
    ordered.push(...next);
    if (next[0] === undefined) break;
    if (position !== undefined && holdingOf(next[0].window, position) === 'pruned') break;
    left = left.filter((candidate) => !next.includes(candidate));
  }
  return ordered;
}

/** A selection with its reasons. */
export interface ExplainedSelection<C> {
  /** Best first. `behind`: the criterion by which a node follows the one before it. */
  readonly ordered: readonly { readonly candidate: C; readonly behind: Criterion | undefined }[];
  readonly leftOut: readonly { readonly candidate: C; readonly because: 'other chain' | 'drained' | 'pruned' }[];
}

/** The selection of `selectUpstreams` with its reasons; nodes that differ by load alone are in order of cost. */
export function explainSelection<C extends Candidate>(candidates: readonly C[], need: Need): ExplainedSelection<C> {
  const byCost = [...candidates].sort((a, b) => a.cost - b.cost);
  const ordered = selectUpstreams(byCost, need, () => 0);
  const leftOut = candidates.filter((candidate) => !ordered.includes(candidate));
  return {
    ordered: ordered.map((candidate, index) => {
      const before = ordered[index - 1];
      if (before === undefined) return { candidate, behind: undefined };
      const round = roundOf(candidates, need, need.kind === 'transaction' && index > 1);
      return { candidate, behind: criterionOf(before, candidate, round) };
    }),
    leftOut: leftOut.map((candidate) => ({
      candidate,
      because: candidate.health === 'foreign' ? 'other chain' : candidate.isDrained === true ? 'drained' : 'pruned',
    })),
  };
}

function criterionOf(before: Candidate, after: Candidate, round: Round): Criterion {
  const criterion = criterionBetween(score(before, round), score(after, round), round);
  if (criterion !== undefined) return criterion;
  if (before.tier !== after.tier) return 'tier';
  const isByDepth = positionOf(round.need) !== undefined;
  return isByDepth && depthOf(after) > depthOf(before) * depthTolerance ? 'depth' : 'load';
}

/** The node with the lowest edge, whose "no such version" or "no such transaction" is final. */
export function deepest<C extends Candidate>(candidates: readonly C[]): C | undefined {
  return candidates.reduce<C | undefined>((found, candidate) => {
    if (candidate.health === 'foreign') return found;
    return found === undefined || isDeeper(candidate, found) ? candidate : found;
  }, undefined);
}

/** The deepest node, when it is deeper than all of `prunedAt`: it may hold the data that they have pruned. */
export function deepestUnasked<N, C extends NodeCandidate<N>>(
  nodes: readonly C[],
  prunedAt: ReadonlySet<N>,
): C | undefined {
  const last = deepest(nodes);
  if (last === undefined) return undefined;
  return nodes.some((node) => prunedAt.has(node.upstream) && !isDeeper(last, node)) ? undefined : last;
}

/** The properties of a node that decide the class of a read. */
interface Depth {
  readonly tier: Tier;
  readonly window: Pick<RetentionWindow, 'around'>;
  latencyMs(nowMs: number): number;
}

/** The unit in which windows are compared for `need`. */
export function unitOf(need: Need): Unit {
  return need.kind === 'block' ? 'blocks' : 'versions';
}

/** The class of a read, by the nodes' reports at `nowMs`. */
export function readClassOf(need: Need, isView: boolean, nodes: readonly Depth[], nowMs: number): ReadClass {
  if (isView) return 'view';
  const position = positionOf(need);
  if (position === undefined) return 'head';
  const isPruned = nodes.some((node) => {
    if (node.tier !== 'full') return false;
    const holding = holdingOf(node.window.around(nowMs + node.latencyMs(nowMs), unitOf(need)), position);
    return holding === 'pruned' || holding === 'edge';
  });
  return isPruned ? 'archive' : 'head';
}

function isDeeper(a: Candidate, b: Candidate): boolean {
  if (a.window === undefined || b.window === undefined || a.window.oldest === b.window.oldest) {
    return a.tier === 'archival' && b.tier === 'full';
  }
  return a.window.oldest < b.window.oldest;
}

/** The nodes of tier `first`, then the others, each tier in the order that `settle` gives it. */
function byTier<C extends Candidate>(
  nodes: readonly C[],
  first: Tier,
  settle: (nodes: readonly C[]) => readonly C[],
): readonly C[] {
  const ahead = nodes.filter(({ tier }) => tier === first);
  if (ahead.length === nodes.length) return settle(nodes);
  return [...settle(ahead), ...settle(nodes.filter(({ tier }) => tier !== first))];
}

/** Nodes of about the shallowest depth by load, then the next depth, and so on. */
function shallowestFirst<C extends Candidate>(nodes: readonly C[], random: () => number): readonly C[] {
  if (nodes.length < 2) return nodes;
  const depths = nodes.map(depthOf);
  raiseLight(nodes, depths);
  let farthest = Math.min(...depths) * depthTolerance;
  if (depths.every((depth) => depth <= farthest)) return byLoad(nodes, random);
  const ordered: C[] = [];
  for (let reached = -1; reached < Infinity; reached = farthest) {
    farthest = Math.min(...depths.filter((depth) => depth > reached)) * depthTolerance;
    const alike = nodes.filter((_, at) => (depths[at] ?? 0) > reached && (depths[at] ?? 0) <= farthest);
    ordered.push(...byLoad(alike, random));
  }
  return ordered;
}

/** A new node, which has little weight and history at first, must not get more than its share: it counts as deeper. */
function raiseLight(nodes: readonly Candidate[], depths: number[]): void {
  const [first] = nodes;
  if (first === undefined || nodes.every((node) => weightOf(node) === weightOf(first))) return;
  const heaviest = Math.max(...nodes.map(weightOf));
  const least = Math.min(...depths.filter((_, at) => weightOf(nodes[at] ?? first) === heaviest));
  for (const [at, node] of nodes.entries())
    if (weightOf(node) < heaviest) depths[at] = Math.max(least, depths[at] ?? 0);
}

/**
 * The nodes among which load decides the first place: all of one weight, drawn by the sum of their weights. So each
 * node's share of first places is in proportion to its weight.
 */
function drawByWeight<C extends Candidate>(nodes: readonly C[], random: () => number): readonly C[] {
  const [first] = nodes;
  if (first === undefined || nodes.every((node) => weightOf(node) === weightOf(first))) return nodes;
  let left = random() * nodes.reduce((sum, node) => sum + weightOf(node), 0);
  const drawn = nodes.find((node) => (left -= weightOf(node)) < 0) ?? first;
  return nodes.filter((node) => weightOf(node) === weightOf(drawn));
}

function weightOf({ weight = 1 }: Candidate): number {
  return weight;
}

/** Weights, then power of two choices for the first place; the others follow by cost, for when the first fails. */
function byLoad<C extends Candidate>(nodes: readonly C[], random: () => number): readonly C[] {
  if (nodes.length < 2) return nodes;
  const drawn = drawByWeight(nodes, random);
  const one = Math.floor(random() * drawn.length);
  const other = (one + 1 + Math.floor(random() * (drawn.length - 1))) % drawn.length;
  const [first, second] = [drawn[one], drawn[other]];
  const winner = first !== undefined && second !== undefined && second.cost < first.cost ? second : first;
  const ordered = nodes.filter((candidate) => candidate !== winner).sort((a, b) => a.cost - b.cost);
  if (winner !== undefined) ordered.unshift(winner);
  return ordered;
}
