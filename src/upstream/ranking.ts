/**
 * What nodes are compared by. Each kind of need has its ranking: a node's place in it is a few numbers, of which the
 * first that differs decides.
 */
import { positionOf, type Need } from './need.ts';
import type { WindowView } from './retention-window.ts';
import type { Health, Tier } from './upstream.ts';

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

const healthRank: Readonly<Record<Health, number>> = { usable: 0, unproven: 1, down: 3, foreign: 4 };
/** Of a node that answers and should not be asked: when all look bad, it is the least bad. */
export const passedOver = 2;

/** A node that is suspect, ejected or deferred comes only before those that are down. */
export function trustRank({ health, isSuspect, isEjected, isDeferred }: Candidate): number {
  const isPassedOver = isSuspect === true || isEjected === true || isDeferred === true;
  return isPassedOver ? Math.max(healthRank[health], passedOver) : healthRank[health];
}

/**
 * What two nodes are compared by. `health`: whether it answers and is believed. `holding`: how surely it holds the
 * version. `distance`: how far its head is from a version above it. `edge`: how far its edge is from a version below.
 * `lag`: versions behind the freshest. `submission`: whether it took the transaction. `depth`: how far back it goes.
 */
export type Criterion = 'health' | 'holding' | 'distance' | 'edge' | 'tier' | 'lag' | 'submission' | 'depth' | 'load';

/** What decides first, first, and the tier last; `of` gives a node's place in each, lower is better. */
export interface Ranking<C> {
  readonly criteria: readonly Criterion[];
  of(candidate: C): number[];
}

/** Orders two places: negative where the first is the better. `upTo`: by so many criteria. */
export function comparePlaces(a: readonly number[], b: readonly number[], upTo = a.length): number {
  for (let at = 0; at < upTo; at += 1) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** `isMissed`: a node has said that it does not hold what is asked for. */
export function rankingFor<C extends Candidate>(candidates: readonly C[], need: Need, isMissed: boolean): Ranking<C> {
  if (need.kind === 'head') return freshness(candidates, need.isExact);
  if (isMissed) return reach(need);
  if (need.kind === 'transaction') return takerRanking(need.first);
  return positionRanking(need.kind === 'block' ? need.height : need.version);
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

/** `isExact`: no node counts as equally fresh whose head is behind. */
export function freshness<C extends Candidate>(candidates: readonly C[], isExact = false): Ranking<C> {
  const heads = candidates
    .filter((candidate) => candidate.health === 'usable' && candidate.isSuspect !== true)
    .map((candidate) => headOf(candidate));
  const freshest = Math.max(0, ...heads);
  return {
    criteria: ['health', 'lag', 'tier'],
    of: (candidate) => {
      const behind = Math.max(0, freshest - headOf(candidate));
      const lag = behind <= (isExact ? 0 : candidate.headTolerance) ? 0 : behind;
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
      // A node that is known to be bad must not use up an attempt: `reach` asks it as soon as another has missed.
      candidate.name === first && trustRank(candidate) < passedOver ? 0 : 1,
      trustRank(candidate),
      candidate.tier === 'full' ? 0 : 1,
    ],
  };
}

/**
 * Once one node does not hold what is asked for, the deepest is the surest to: others of the first one's kind have
 * mostly pruned it as well, whatever they told last. Who took a transaction is asked in any case.
 */
export function reach<C extends Candidate>(need: Need): Ranking<C> {
  const position = positionOf(need);
  const taker = need.kind === 'transaction' ? need.first : undefined;
  return {
    criteria: ['submission', 'health', 'holding', 'depth', 'tier'],
    of: (candidate) => [
      taker !== undefined && candidate.name === taker ? 0 : 1,
      trustRank(candidate),
      position === undefined ? 0 : holdingRank[holdingOf(candidate.window, position)],
      edgeOf(candidate),
      candidate.tier === 'archival' ? 0 : 1,
    ],
  };
}

/** What is not known of an archival node goes back to the beginning. */
function edgeOf({ window, tier }: Candidate): number {
  if (window === undefined) return tier === 'archival' ? 0 : Number.MAX_VALUE;
  return Number(window.oldest);
}

export function depthOf(candidate: Candidate): number {
  const window = candidate.window;
  return window === undefined ? Number.MAX_VALUE : Math.max(0, Number(window.head - window.oldest));
}

function headOf(candidate: Candidate): number {
  return Number(candidate.window?.head ?? 0n);
}
