/** Why nodes are asked in the order in which they are: told by the very rankings that put them there. */
import type { Need } from './need.ts';
import {
  depthOf,
  freshness,
  positionRanking,
  takerRanking,
  trustRank,
  type Candidate,
  type Criterion,
  type Ranking,
} from './ranking.ts';
import { depthTolerance, selectUpstreams } from './select.ts';

/** A selection with its reasons. */
export interface Explained<C> {
  /** Best first. `behind`: what put it behind the one before it; of those alike but for their load, two are drawn. */
  readonly ordered: readonly { readonly candidate: C; readonly behind: Criterion | undefined }[];
  readonly leftOut: readonly { readonly candidate: C; readonly because: 'other chain' | 'pruned' }[];
}

/** What `selectUpstreams` does, and why; of nodes that only their load tells apart the cheaper is shown first. */
export function explainSelection<C extends Candidate>(candidates: readonly C[], need: Need): Explained<C> {
  const byCost = [...candidates].sort((a, b) => a.cost - b.cost);
  const ordered = selectUpstreams(byCost, need, () => 0);
  const leftOut = candidates.filter((candidate) => !ordered.includes(candidate));
  const decide = criterionFor(ordered, need);
  return {
    ordered: ordered.map((candidate, index) => {
      const before = ordered[index - 1];
      return { candidate, behind: before === undefined ? undefined : decide(before, candidate, index) };
    }),
    leftOut: leftOut.map((candidate) => ({
      candidate,
      because: candidate.health === 'foreign' ? 'other chain' : 'pruned',
    })),
  };
}

/** Tells what put a node behind the one before it. */
function criterionFor<C extends Candidate>(
  candidates: readonly C[],
  need: Need,
): (before: C, candidate: C, index: number) => Criterion {
  switch (need.kind) {
    case 'version':
    case 'block': {
      const ranking = positionRanking<C>(need.kind === 'block' ? need.height : need.version);
      return (before, candidate) =>
        difference(ranking, before, candidate) ??
        (depthOf(candidate) > depthOf(before) * depthTolerance ? 'depth' : 'load');
    }
    case 'head': {
      const ranking = freshness(candidates, need.isExact);
      return (before, candidate) => difference(ranking, before, candidate) ?? 'load';
    }
    case 'transaction': {
      const ranking = takerRanking<C>(need.first);
      return (before, candidate, index) => {
        if (index === 1) return difference(ranking, before, candidate) ?? 'load';
        return trustRank(before) === trustRank(candidate) ? 'depth' : 'health';
      };
    }
  }
}

function difference<C>(ranking: Ranking<C>, one: C, other: C): Criterion | undefined {
  const places = ranking.of(other);
  return ranking.criteria[ranking.of(one).findIndex((place, at) => place !== places[at])];
}
