/**
 * Needs of requests, and the order of nodes for each: every kind of need has its ranking, a few numbers per node, of which
 * the first that differs decides.
 */
import type { LedgerVersion } from '../../ledger/index.ts';
import type { WindowView } from '../node/retention-window.ts';

/**
 * The state that a node must hold to answer a request. `isChosen`: the gateway chose the version (`min`), and chooses
 * another when the nodes that hold it fail: the call waits for no other node.
 */
export type Need =
  /** The state at one version. */
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
 * Health of a node. `unproven`: no answer yet. `usable`: answers. `down`: its last attempts failed, so it is asked last.
 * `foreign`: reports another chain id than the fleet, so it is never asked.
 */
export type Health = 'unproven' | 'usable' | 'down' | 'foreign';

/** The state of one node at the moment of a request's arrival. */
export interface Candidate {
  readonly name: string;
  readonly tier: Tier;
  readonly health: Health;
  /** An operator has drained it: never asked. */
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
 * The criteria of a ranking. `health`: whether the node answers and is believed. `holding`: how surely it holds the
 * version. `distance`: from the nearer end of its window to the version. `lag`: versions behind the freshest. `submission`:
 * whether it is the node of the submission. `depth`: the oldest version of its window.
 */
export type Criterion = 'health' | 'holding' | 'distance' | 'tier' | 'lag' | 'submission' | 'depth' | 'load';

/** The first criterion decides first; the tier decides among nodes that are equal in all. */
export interface Ranking {
  readonly criteria: readonly Criterion[];
  /** The tier that is asked first. */
  readonly tier: Tier;
  /** A node's place by each criterion, lower is better. */
  readonly of: (candidate: Candidate) => readonly number[];
}

/** Orders two places: negative where the first is the better, 0 where neither is. */
export function comparePlaces(a: readonly number[], b: readonly number[]): number {
  for (let at = 0; at < a.length; at += 1) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** The ranking for `need`. `isMissed`: a node has answered that it does not hold the data. */
export function rankingFor(candidates: readonly Candidate[], need: Need, isMissed: boolean): Ranking {
  if (need.kind === 'head') return byFreshness(candidates, need.isExact === true);
  if (isMissed) return byReach(need);
  return need.kind === 'transaction'
    ? bySubmission(need.submittedTo)
    : byPosition(need.kind === 'block' ? need.height : need.version);
}

/**
 * How surely a window holds a version or block. `edge`: held by the last report, but the edge may pass it before the
 * request arrives. `unknown`: no report yet, or above the head, which may have reached it by now.
 */
export type Holding = 'held' | 'edge' | 'unknown' | 'pruned';

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

function byPosition(position: bigint): Ranking {
  return {
    criteria: ['health', 'holding', 'distance'],
    tier: 'full',
    of: (candidate) => {
      const holding = holdingOf(candidate.window, position);
      return [trustRank(candidate), holdingRank[holding], distanceOf(candidate, holding)];
    },
  };
}

/** Above all heads, the nearest node may reach the version first; below all edges, the deepest node's 410 is final. */
function distanceOf(candidate: Candidate, holding: Holding): number {
  if (holding === 'unknown') return -headOf(candidate);
  return holding === 'pruned' ? edgeOf(candidate) : 0;
}

/** `isExact`: a node whose head is behind never counts as equally fresh. */
function byFreshness(candidates: readonly Candidate[], isExact: boolean): Ranking {
  const believed = candidates.filter(({ health, isSuspect }) => health === 'usable' && isSuspect !== true);
  const freshest = Math.max(0, ...believed.map(headOf));
  return {
    criteria: ['health', 'lag'],
    tier: 'full',
    of: (candidate) => {
      const behind = Math.max(0, freshest - headOf(candidate));
      const trust = trustRank(candidate);
      return [
        candidate.isLagging === true ? Math.max(trust, passedOver) : trust,
        behind <= (isExact ? 0 : candidate.headTolerance) ? 0 : behind,
      ];
    },
  };
}

function bySubmission(submittedTo: string | undefined): Ranking {
  return {
    criteria: ['submission', 'health'],
    tier: 'full',
    of: (candidate) => {
      const trust = trustRank(candidate);
      // A node that is passed over or down must not use up an attempt: `byReach` asks it once another has missed.
      return [candidate.name === submittedTo && trust < passedOver ? 0 : 1, trust];
    },
  };
}

/**
 * After a 410 or 404, ask the deepest node next: others of the first one's kind have mostly pruned the data as well,
 * despite their last reports. The node of a submission is asked in any case.
 */
function byReach(need: Need): Ranking {
  const position = positionOf(need);
  const submittedTo = need.kind === 'transaction' ? need.submittedTo : undefined;
  return {
    criteria: ['submission', 'health', 'holding', 'depth'],
    tier: 'archival',
    of: (candidate) => [
      candidate.name === submittedTo && candidate.isWithheld !== true ? 0 : 1,
      trustRank(candidate),
      position === undefined ? 0 : holdingRank[holdingOf(candidate.window, position)],
      edgeOf(candidate),
    ],
  };
}

/** The lower edge; an archival node without a report counts as holding everything. */
function edgeOf({ window, tier }: Candidate): number {
  if (window === undefined) return tier === 'archival' ? 0 : Number.MAX_VALUE;
  return Number(window.oldest);
}

function headOf({ window }: Candidate): number {
  return Number(window?.head ?? 0n);
}
