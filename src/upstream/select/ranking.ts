/** Order among nodes. Each kind of need has its ranking: a few numbers per node, of which the first that differs decides. */
import { positionOf, type Need } from './need.ts';
import type { WindowView } from '../node/retention-window.ts';

/** `archival`: asked only when no full node holds the version. */
export type Tier = 'full' | 'archival';

/**
 * `unproven`: has not answered yet. `usable`: answers. `down`: its last attempts failed, so it is asked last. `foreign`:
 * reports another chain id than the fleet, so it is never asked.
 */
export type Health = 'unproven' | 'usable' | 'down' | 'foreign';

/** One node as it looks at the moment of arrival. */
export interface Candidate {
  readonly name: string;
  readonly tier: Tier;
  readonly health: Health;
  /** Its head is not believed. */
  readonly isSuspect?: boolean;
  /** It does reads of this class worse than the others (see `Ejection`). */
  readonly isEjected?: boolean;
  /** It limits or sheds requests at present (see `Deferral`). */
  readonly isDeferred?: boolean;
  /** It is so far behind the others that it serves only the versions it holds. */
  readonly isLagging?: boolean;
  readonly window: WindowView | undefined;
  /** Expected wait: latency in ms times the requests in flight and this one. */
  readonly cost: number;
  /** Versions that the head moves in `headToleranceMs`: nodes this close to each other are equally fresh. */
  readonly headTolerance: number;
}

/** Heads this close in time count as equally fresh: less than the noise of their last observation. */
export const headToleranceMs = 100;

const healthRank: Readonly<Record<Health, number>> = { usable: 0, unproven: 1, down: 3, foreign: 4 };
/** `trustRank` of a node that answers and should not be asked: when all look bad, it is the least bad. */
export const passedOver = 2;

/** Trust in a node, lower is better. A suspect, ejected or deferred node comes only before those that are down. */
export function trustRank({ health, isSuspect, isEjected, isDeferred }: Candidate): number {
  const isPassedOver = isSuspect === true || isEjected === true || isDeferred === true;
  return isPassedOver ? Math.max(healthRank[health], passedOver) : healthRank[health];
}

/**
 * The criteria of a ranking. `health`: whether it answers and is believed. `holding`: how surely it holds the
 * version. `distance`: how far its head is from a version above it. `edge`: how far its edge is from a version below.
 * `lag`: versions behind the freshest. `submission`: whether it took the transaction. `depth`: how far back it goes.
 */
export type Criterion = 'health' | 'holding' | 'distance' | 'edge' | 'tier' | 'lag' | 'submission' | 'depth' | 'load';

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

/** The ranking for `need`. `isMissed`: a node has answered that it does not hold what is asked for. */
export function rankingFor(candidates: readonly Candidate[], need: Need, isMissed: boolean): Ranking {
  if (need.kind === 'head') return byFreshness(candidates, need.isExact === true);
  if (isMissed) return byReach(need);
  return need.kind === 'transaction'
    ? bySubmission(need.submittedTo)
    : byPosition(need.kind === 'block' ? need.height : need.version);
}

/**
 * A window's word on a version or block. `edge`: held by the last report, but the edge may pass it before the request
 * arrives. `unknown`: no report yet, or above its head, which may have got there by now.
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
    criteria: ['health', 'holding', 'distance', 'edge'],
    tier: 'full',
    of: (candidate) => {
      const holding = holdingOf(candidate.window, position);
      // Above a node's head the nearest head is the best hope; below every edge the deepest node's word is the surest.
      const distance = holding === 'unknown' ? -headOf(candidate) : 0;
      const edge = holding === 'pruned' ? Number(candidate.window?.oldest ?? 0n) : 0;
      return [trustRank(candidate), holdingRank[holding], distance, edge];
    },
  };
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
      // A node that looks bad must not use up an attempt: `byReach` asks it as soon as another has missed.
      return [candidate.name === submittedTo && trust < passedOver ? 0 : 1, trust];
    },
  };
}

/**
 * Once one node does not hold what is asked for, the deepest is the surest to: others of the first one's kind have
 * mostly pruned it as well, whatever they reported last. The node that took a transaction is asked in any case.
 */
function byReach(need: Need): Ranking {
  const position = positionOf(need);
  const submittedTo = need.kind === 'transaction' ? need.submittedTo : undefined;
  return {
    criteria: ['submission', 'health', 'holding', 'depth'],
    tier: 'archival',
    of: (candidate) => [
      candidate.name === submittedTo ? 0 : 1,
      trustRank(candidate),
      position === undefined ? 0 : holdingRank[holdingOf(candidate.window, position)],
      edgeOf(candidate),
    ],
  };
}

/** An archival node without a report counts as going back to the beginning. */
function edgeOf({ window, tier }: Candidate): number {
  if (window === undefined) return tier === 'archival' ? 0 : Number.MAX_VALUE;
  return Number(window.oldest);
}

function headOf({ window }: Candidate): number {
  return Number(window?.head ?? 0n);
}
