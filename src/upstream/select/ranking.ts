/** Needs of requests, and the score of a node for each: one number, of which the smaller is the better. */
import type { LedgerVersion } from '../../ledger/index.ts';
import type { RetentionWindow, Unit, WindowView } from '../node/retention-window.ts';

/**
 * The state that a node must hold to answer a request. `isChosen`: the gateway chose the version (`min`), and chooses
 * another when the nodes that hold it fail, without a wait.
 */
export type Need =
  | { readonly kind: 'version'; readonly version: LedgerVersion; readonly isChosen?: boolean }
  /** The block of one height: held by the same nodes as its versions, so windows are compared in blocks. */
  | { readonly kind: 'block'; readonly height: bigint }
  /**
   * The newest state, at or past `min`; submissions need it too. `isExact`: only the freshest node serves, and a look at
   * every head precedes the choice.
   */
  | {
      readonly kind: 'head';
      readonly min?: LedgerVersion | undefined;
      readonly isExact?: boolean;
      readonly isChosen?: boolean;
    }
  /** A transaction that any node may hold, the deepest most surely; `submittedTo`: name of the node that its submission went to. */
  | { readonly kind: 'transaction'; readonly submittedTo?: string | undefined };

/** A need that names the version or block height. */
export type PositionedNeed = Extract<Need, { readonly kind: 'version' | 'block' }>;

/** Whether the need names a version or block height. */
export function isPositioned(need: Need): need is PositionedNeed {
  return need.kind === 'version' || need.kind === 'block';
}

/** The version or block height that a node's window must hold for this need. */
export function positionOf(need: Need): bigint | undefined {
  if (need.kind === 'version') return need.version;
  return need.kind === 'block' ? need.height : undefined;
}

/** The version that the answer must reach; `undefined`: any, or a block or transaction decides. */
export function versionOf(need: Need): LedgerVersion | undefined {
  if (need.kind === 'version') return need.version;
  return need.kind === 'head' ? need.min : undefined;
}

/**
 * Kinds of reads with very different costs, so that each has statistics of its own. `head`: of recent state. `archive`:
 * of state that some full node has pruned. `view`: runs code that a client chose.
 */
export type ReadClass = (typeof readClasses)[number];

/** Every `ReadClass`. */
export const readClasses = ['head', 'archive', 'view'] as const;

/** Tier of a node. `archival`: asked only when no full node holds the version. */
export type Tier = 'full' | 'archival';

/**
 * Health of a node. `unproven`: no answer yet. `down`: its last attempts failed, so it is asked last. `foreign`: it
 * reports another chain id than the fleet, so it is never asked.
 */
export type Health = 'unproven' | 'usable' | 'down' | 'foreign';

/** The state of one node at the moment of a choice. `N`: the fleet's node objects. */
export interface Candidate<N = unknown> {
  readonly upstream: N;
  readonly name: string;
  readonly tier: Tier;
  readonly health: Health;
  readonly isDrained?: boolean;
  /** Other nodes contradict its head. */
  readonly isSuspect?: boolean;
  /** It serves reads of this class worse than the others (see `Ejection`). */
  readonly isEjected?: boolean;
  /** It limits or sheds requests at present (see `Deferral`). */
  readonly isDeferred?: boolean;
  /** Its `Retry-After` has not passed, or its allowance is used up: asked only when no other node can answer. */
  readonly isWithheld?: boolean;
  /** It is too far behind the others for reads of the newest state. */
  readonly isLagging?: boolean;
  readonly isFull?: boolean;
  /** Half of its places are taken: it has none for requests that another tier is for. */
  readonly isHalfFull?: boolean;
  readonly window: WindowView | undefined;
  /** Its share of first places among nodes that are alike, in relation to their weights. Default 1. */
  readonly weight?: number;
  /** Expected wait: latency in ms times the requests in flight and this one. */
  readonly cost: number;
  /** Versions that the head moves in `headToleranceMs`: nodes this close to each other are equally fresh. */
  readonly headTolerance: number;
}

/** Heads this close in time count as equally fresh: the reports have more noise. */
export const headToleranceMs = 100;

const healthRank: Readonly<Record<Health, number>> = { usable: 0, unproven: 1, down: 4, foreign: 5 };
/** `trustRank` of a node that answers and is passed over: better than a node that is down. */
export const passedOver = 2;
/** `trustRank` of a node that answers and must not be asked while another can answer. */
const withheld = 3;

/** Trust in a node, lower is better. A suspect, ejected, deferred or withheld node comes only before those that are down. */
export function trustRank({ health, isSuspect, isEjected, isDeferred, isWithheld }: Candidate): number {
  if (isWithheld === true) return Math.max(healthRank[health], withheld);
  const isPassedOver = isSuspect === true || isEjected === true || isDeferred === true;
  return isPassedOver ? Math.max(healthRank[health], passedOver) : healthRank[health];
}

/**
 * The rules by which one node is chosen ahead of another, in the order in which they decide, as `explain` and
 * docs/resilience.md name them.
 */
export const rules = {
  chain: 'it is of another chain',
  drained: 'an operator has drained it',
  pruned: 'it has pruned the version, and another one goes deeper',
  submission: 'the one before took the transaction',
  trust: 'it answers worse, other nodes contradict its head, it is ejected from such reads, or it is far behind',
  holding: 'it holds the version less surely',
  distance: 'its head is farther from the version',
  lag: 'its head is older',
  deepest: 'others have missed, and the one before goes deeper',
  place: 'it has no place for the request now',
  tier: 'archival nodes keep their capacity for what only they can answer',
  depth: 'the one before goes less far back, and is enough',
  weight: 'weights decide the share of each',
  load: 'of two that are drawn at random the cheaper is asked first',
} as const;

/** See `rules`. */
export type Rule = keyof typeof rules;

/** Circumstances of a score that concern all nodes. */
interface Round {
  readonly need: Need;
  /** A node has answered that it does not hold the data. */
  readonly isMissed: boolean;
  /** The newest head of a believed node; 0 for needs other than `head`. */
  readonly freshest: number;
}

/** The round of a choice among `candidates`. */
export function roundOf(candidates: readonly Candidate[], need: Need, isMissed: boolean): Round {
  let freshest = 0;
  if (need.kind === 'head')
    for (const node of candidates)
      if (node.health === 'usable' && node.isSuspect !== true && node.isDrained !== true)
        freshest = Math.max(freshest, headOf(node));
  return { need, isMissed, freshest };
}

/** Range of the last part of a score: versions, of which ledgers have had billions. Farther ones are equal. */
const span = 2 ** 44;
/** Parts of a score ahead of the last one, the first with the most weight. */
const weights = { pruned: 64 * span, submission: 32 * span, trust: 4 * span, holding: span } as const;

/** From this score on a node has surely pruned the position: only where all have, it is worth asking. */
export const prunedScore = weights.pruned;

/**
 * The score of a node: smaller is better, `Infinity` is never. One number holds the criteria in the order in which they
 * decide. For a position: trust, holding, and the distance to the nearer end of the window, since above all heads the
 * nearest node may reach the version first, and below all edges the deepest node's 410 is final. For the newest state:
 * trust, and the lag behind the freshest. After a miss: the node of a submission, trust, holding, depth, because others
 * of the first one's kind have mostly pruned the data as well.
 */
export function score(node: Candidate, { need, isMissed, freshest }: Round): number {
  if (!isAskable(node)) return Infinity;
  const trust = trustRank(node);
  if (need.kind === 'head') {
    const behind = Math.max(0, freshest - headOf(node));
    const lag = behind <= (need.isExact === true ? 0 : node.headTolerance) ? 0 : behind;
    return (node.isLagging === true ? Math.max(trust, passedOver) : trust) * weights.trust + bounded(lag);
  }
  if (need.kind === 'transaction') {
    // A node that is passed over or down must not use up an attempt: it is asked once another has missed.
    const isFit = isMissed ? node.isWithheld !== true : trust < passedOver;
    const submission = node.name === need.submittedTo && isFit ? 0 : weights.submission;
    return submission + trust * weights.trust + (isMissed ? bounded(edgeOf(node)) : 0);
  }
  const holding = holdingOf(node.window, need.kind === 'block' ? need.height : need.version);
  const place = trust * weights.trust + holdingRank[holding] * weights.holding;
  if (isMissed) return (holding === 'pruned' ? prunedScore : 0) + place + bounded(edgeOf(node));
  if (holding === 'pruned') return prunedScore + place + bounded(edgeOf(node));
  return holding === 'unknown' ? place + span - 1 - bounded(headOf(node)) : place;
}

/** Whether the node may be asked at all. */
export function isAskable({ health, isDrained }: Pick<Candidate, 'health' | 'isDrained'>): boolean {
  return health !== 'foreign' && isDrained !== true;
}

/** The rule by which the score of `node` is worse than `best`. */
export function ruleAgainst(node: Candidate, best: number, round: Round): Rule {
  const after = score(node, round);
  if (after === Infinity) return node.health === 'foreign' ? 'chain' : 'drained';
  const differs = (weight: number): boolean => Math.floor(best / weight) !== Math.floor(after / weight);
  if (differs(weights.pruned)) return 'holding';
  if (differs(weights.submission)) return 'submission';
  if (differs(weights.trust)) return 'trust';
  if (differs(weights.holding)) return 'holding';
  if (round.need.kind === 'head') return 'lag';
  return round.isMissed ? 'deepest' : 'distance';
}

function bounded(versions: number): number {
  return Math.min(versions, span - 1);
}

/**
 * How surely a window holds a version or block. `edge`: held by the last report, but the edge may pass it before the
 * request arrives. `unknown`: no report yet, or above the head, which may have reached it by now.
 */
type Holding = 'held' | 'edge' | 'unknown' | 'pruned';

/** Whether a node with this window holds `position`, a version, or a block's height where the window is of heights. */
export function holdingOf(window: WindowView | undefined, position: bigint): Holding {
  if (window === undefined || position > window.head) return 'unknown';
  if (position >= window.safeOldest) return 'held';
  return position >= window.oldest ? 'edge' : 'pruned';
}

/** Versions that the window spans; an unknown window counts as the deepest. */
export function depthOf({ window }: Candidate): number {
  return window === undefined ? Number.MAX_VALUE : Math.max(0, Number(window.head - window.oldest));
}

const holdingRank: Readonly<Record<Holding, number>> = { held: 0, edge: 1, unknown: 2, pruned: 3 };

/** The lower edge; an archival node without a report counts as holding everything. */
function edgeOf({ window, tier }: Candidate): number {
  if (window === undefined) return tier === 'archival' ? 0 : Number.MAX_VALUE;
  return Number(window.oldest);
}

function headOf({ window }: Candidate): number {
  return Number(window?.head ?? 0n);
}

/** Whether a node is trusted, and surely holds the version that is asked for. */
export function isSureOf(node: Candidate, need: Need): boolean {
  const position = positionOf(need);
  return trustRank(node) === 0 && (position === undefined || holdingOf(node.window, position) === 'held');
}

/** The unit in which windows are compared for `need`. */
export function unitOf(need: Need): Unit {
  return need.kind === 'block' ? 'blocks' : 'versions';
}

/** The properties of a node that decide the class of a read. */
interface Depth {
  readonly tier: Tier;
  readonly window: Pick<RetentionWindow, 'around'>;
  latencyMs(nowMs: number): number;
}

/** The class of a read. `edge`: `prunedBelow` of the fleet, in the unit of the need. */
export function readClassOf(need: Need, isView: boolean, edge: bigint): ReadClass {
  if (isView) return 'view';
  const position = positionOf(need);
  return position !== undefined && position < edge ? 'archive' : 'head';
}

/** The position below which some full node has pruned, or may have when a request arrives, by its report at `nowMs`. */
export function prunedBelow(nodes: readonly Depth[], unit: Unit, nowMs: number): bigint {
  let edge = 0n;
  for (const node of nodes) {
    if (node.tier !== 'full') continue;
    const { head = 0n, safeOldest = 0n } = node.window.around(nowMs + node.latencyMs(nowMs), unit) ?? {};
    // The edge of a node that is away is expected far above its last head, and it has pruned nothing above that head.
    const below = safeOldest > head ? head + 1n : safeOldest;
    if (below > edge) edge = below;
  }
  return edge;
}
