/**
 * The choice of the node that is asked next: a pure function of the nodes' reports and of the answers so far.
 *
 * A pinned read goes to the shallowest node that surely holds its version, so that the archival tier keeps its capacity
 * for the versions that only it holds. Among nodes of about one depth, two are drawn at random and the cheaper is asked
 * (power of two choices on peak-EWMA latency x requests in flight). Strict least-loaded would send every gateway to the
 * same node at once; round robin would go on asking a slow node. Between nodes of different weights, chance alone
 * decides: by load, an idle node of small weight would be the cheapest.
 */
import {
  type Candidate,
  depthOf,
  holdingOf,
  type Need,
  positionOf,
  prunedScore,
  roundOf,
  type Rule,
  ruleAgainst,
  rules,
  score,
  type Tier,
} from './ranking.ts';

/** Nodes with windows up to this factor deeper than the shallowest holder's share its load. */
const depthTolerance = 1.25;

/** The answers of one call so far; `CallHistory` is one. */
export interface AnswersSoFar<N> {
  readonly asked: ReadonlySet<N>;
  /** Nodes that answered that they do not hold the version, block or transaction. */
  readonly prunedAt: ReadonlySet<N>;
  readonly anyPruned: boolean;
  readonly bestAnswer: unknown;
}

/** The answers before the first attempt. */
export const noAnswers = {
  asked: new Set<never>(),
  prunedAt: new Set<never>(),
  anyPruned: false,
  bestAnswer: undefined,
} as const;

/** Circumstances of a choice. */
export interface Circumstances {
  /** No attempt is left after this one, so the deepest node that holds the data gets it. */
  readonly isLast?: boolean;
  /** A number in [0, 1). */
  readonly random?: () => number;
  /** Is given each node that is not chosen, with the rule that decided. */
  readonly reasons?: Map<Candidate, Rule>;
}

/** The node to ask next. */
export interface Choice<N> {
  readonly node: Candidate<N>;
  /** A place is free there; otherwise the request waits for one at any of `alike`. */
  readonly isFree: boolean;
  readonly alike: readonly Candidate<N>[];
  /** The tier whose nodes give all of their places to the request; others keep half for the requests of their own. */
  readonly tier: Tier;
}

/** Chooses the node to ask next; `undefined` when none has anything to add. */
export function pick<N>(
  nodes: readonly Candidate<N>[],
  need: Need,
  answers: AnswersSoFar<N>,
  { isLast = false, random = Math.random, reasons }: Circumstances = {},
): Choice<N> | undefined {
  const { asked, prunedAt, anyPruned, bestAnswer } = answers;
  const isMissed = anyPruned || prunedAt.size > 0 || isLast;
  // After a 410 to a read without a version to compare windows by, only the deepest node has more to add.
  const last = anyPruned && need.kind === 'head' ? deepestUnasked(nodes, prunedAt) : undefined;
  const left = asked.size === 0 ? nodes : nodes.filter(({ upstream }) => !asked.has(upstream));
  const round = roundOf(left, need, isMissed);
  let best = Infinity;
  let alike: Candidate<N>[] = [];
  for (const node of left) {
    const ofNode = anyPruned && need.kind === 'head' && node !== last ? Infinity : score(node, round);
    if (ofNode > best || ofNode === Infinity) continue;
    if (ofNode < best) alike = [];
    best = ofNode;
    alike.push(node);
  }
  // A node whose head is not believed has nothing to add to the answers of believed ones, but data that they lack.
  if (bestAnswer !== undefined && prunedAt.size === 0 && !anyPruned)
    alike = alike.filter(({ isSuspect }) => isSuspect !== true);
  const [first] = alike;
  const position = positionOf(need);
  // After a 410, only a node that may hold the version has more to add.
  const isFutile = anyPruned && position !== undefined && holdingOf(first?.window, position) === 'pruned';
  if (reasons !== undefined)
    for (const node of left)
      if (isFutile) reasons.set(node, 'pruned');
      else if (!alike.includes(node)) reasons.set(node, ruleAgainst(node, best, round));
  if (first === undefined || isFutile) return undefined;
  const preferred = isMissed && need.kind !== 'head' ? 'archival' : 'full';
  const tier = alike.some((node) => node.tier === preferred) ? preferred : first.tier;
  const hasPlace = (node: Candidate): boolean => (node.tier === tier ? node.isFull : node.isHalfFull) !== true;
  let equal = narrow(alike, hasPlace, 'place', reasons);
  equal = narrow(equal, (node) => node.tier === tier, 'tier', reasons);
  if (position !== undefined && !isMissed) equal = shallowest(equal, reasons);
  const node = byLoad(drawByWeight(equal, random, reasons), random, reasons);
  // Edges only rise: when all nodes have pruned the version, one node's 410 is as good as any other's.
  return { node, isFree: hasPlace(node), alike: best >= prunedScore ? [node] : alike, tier };
}

/** The nodes of which a rule is true; all of them where it is true of none. */
function narrow<C extends Candidate>(
  nodes: readonly C[],
  isBetter: (node: C) => boolean,
  rule: Rule,
  reasons: Map<Candidate, Rule> | undefined,
): readonly C[] {
  if (nodes.length < 2 || nodes.every(isBetter)) return nodes;
  const better = nodes.filter(isBetter);
  if (better.length === 0) return nodes;
  if (reasons !== undefined) for (const node of nodes) if (!better.includes(node)) reasons.set(node, rule);
  return better;
}

/**
 * The nodes of about the shallowest depth, of those of most weight: a new node, which has little weight and history at
 * first, must not get more than its share.
 */
export function shallowest<C extends Candidate>(nodes: readonly C[], reasons?: Map<Candidate, Rule>): readonly C[] {
  if (nodes.length < 2) return nodes;
  let heaviest = 0;
  let least = Infinity;
  let most = 0;
  for (const node of nodes) {
    const weight = weightOf(node);
    const depth = depthOf(node);
    most = Math.max(most, depth);
    if (weight < heaviest) continue;
    least = weight > heaviest ? depth : Math.min(least, depth);
    heaviest = weight;
  }
  if (most <= least * depthTolerance) return nodes;
  return narrow(nodes, (node) => depthOf(node) <= least * depthTolerance, 'depth', reasons);
}

/**
 * The nodes among which load decides: all of one weight, drawn by the sum of their weights, so that each node's share
 * of the choices is in proportion to its weight.
 */
function drawByWeight<C extends Candidate>(
  nodes: readonly C[],
  random: () => number,
  reasons: Map<Candidate, Rule> | undefined,
): readonly C[] {
  const [first] = nodes;
  if (first === undefined || nodes.every((node) => weightOf(node) === weightOf(first))) return nodes;
  let left = random() * nodes.reduce((sum, node) => sum + weightOf(node), 0);
  const drawn = nodes.find((node) => (left -= weightOf(node)) < 0) ?? first;
  return narrow(nodes, (node) => weightOf(node) === weightOf(drawn), 'weight', reasons);
}

function weightOf({ weight = 1 }: Candidate): number {
  return weight;
}

/** Places of two nodes of so many that are drawn at random; of one, its place twice. */
export function twoOf(count: number, random: () => number): readonly [number, number] {
  if (count < 2) return [0, 0];
  const one = Math.floor(random() * count);
  return [one, (one + 1 + Math.floor(random() * (count - 1))) % count];
}

/** Power of two choices: the cheaper of two nodes that are drawn at random. */
function byLoad<C extends Candidate>(nodes: readonly C[], random: () => number, reasons?: Map<Candidate, Rule>): C {
  const [one, other] = twoOf(nodes.length, random);
  const [first, second] = [nodes[one], nodes[other]] as [C, C];
  const winner = second.cost < first.cost ? second : first;
  if (reasons !== undefined) for (const node of nodes) if (node !== winner) reasons.set(node, 'load');
  return winner;
}

/** The node with the lowest edge, whose "no such version" or "no such transaction" is final. */
export function deepest<C extends Candidate>(candidates: readonly C[]): C | undefined {
  return candidates.reduce<C | undefined>((found, candidate) => {
    if (candidate.health === 'foreign') return found;
    return found === undefined || isDeeper(candidate, found) ? candidate : found;
  }, undefined);
}

/** The deepest node, when it is deeper than all of `prunedAt`: it may hold the data that they have pruned. */
export function deepestUnasked<N>(nodes: readonly Candidate<N>[], prunedAt: ReadonlySet<N>): Candidate<N> | undefined {
  const last = deepest(nodes);
  if (last === undefined) return undefined;
  return nodes.some((node) => prunedAt.has(node.upstream) && !isDeeper(last, node)) ? undefined : last;
}

function isDeeper(a: Candidate, b: Candidate): boolean {
  if (a.window === undefined || b.window === undefined || a.window.oldest === b.window.oldest) {
    return a.tier === 'archival' && b.tier === 'full';
  }
  return a.window.oldest < b.window.oldest;
}

/**
 * The nodes in the order in which `pick` chooses them while each fails, and those that it never chooses, each with the
 * rule that put it behind the one before it. Plain data: 64-bit numbers are text. Load decides here without chance.
 */
export function explainNodes(candidates: readonly Candidate[], need: Need) {
  const nodes = candidates.toSorted((one, other) => one.cost - other.cost);
  const [asked, prunedAt] = [new Set<unknown>(), new Set<unknown>()];
  const reasons = new Map<Candidate, Rule>();
  const inOrder: ReturnType<typeof explainNode>[] = [];
  for (;;) {
    const anyPruned = prunedAt.size > 0 && need.kind !== 'transaction';
    const answers = { asked, prunedAt, anyPruned, bestAnswer: undefined };
    const before = new Map(reasons);
    const chosen = pick(nodes, need, answers, { random: () => 0, reasons })?.node;
    if (chosen === undefined) break;
    inOrder.push(explainNode(chosen, need, { behind: before.get(chosen) }));
    reasons.delete(chosen);
    asked.add(chosen.upstream);
    const position = positionOf(need);
    const isMissed =
      position === undefined ? need.kind === 'transaction' : holdingOf(chosen.window, position) === 'pruned';
    if (isMissed) prunedAt.add(chosen.upstream);
  }
  return {
    asked: inOrder,
    leftOut: [...reasons].map(([node, because]) => explainNode(node, need, { because })),
  };
}

function explainNode(
  candidate: Candidate,
  need: Need,
  place: { readonly behind?: Rule | undefined; readonly because?: Rule },
) {
  const { name, tier, health, window, weight, cost } = candidate;
  const position = positionOf(need);
  const { behind, because } = place;
  return {
    name,
    tier,
    health,
    isDrained: candidate.isDrained === true,
    isSuspect: candidate.isSuspect === true,
    isEjected: candidate.isEjected === true,
    isDeferred: candidate.isDeferred === true,
    isWithheld: candidate.isWithheld === true,
    isLagging: candidate.isLagging === true,
    isFull: candidate.isFull === true,
    holding: position === undefined ? undefined : holdingOf(window, position),
    oldest: window?.oldest.toString(),
    safeOldest: window?.safeOldest.toString(),
    head: window?.head.toString(),
    weight,
    cost: Math.round(cost * 10) / 10,
    behind: behind === undefined ? undefined : `${behind}: ${rules[behind]}`,
    because: because === undefined ? undefined : `${because}: ${rules[because]}`,
  };
}
