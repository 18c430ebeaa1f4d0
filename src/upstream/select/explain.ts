/** Explains the choice of nodes for a request, in words and plain data: 64-bit numbers are text. */
import { explainSelection } from './candidates.ts';
import { type Candidate, type Criterion, holdingOf, type Need, positionOf } from './ranking.ts';

/** The nodes in the order in which they are asked while each fails, and those that are not asked, each with the reason. */
export function explainNodes(candidates: readonly Candidate[], need: Need) {
  const { ordered, leftOut } = explainSelection(candidates, need);
  return {
    asked: ordered.map(({ candidate, behind }) =>
      nodeOf(candidate, need, { behind: behind && criterionTexts[behind] }),
    ),
    leftOut: leftOut.map(({ candidate, because }) => nodeOf(candidate, need, { because: reasons[because] })),
  };
}

function nodeOf<Place extends object>(candidate: Candidate, need: Need, place: Place) {
  const { name, tier, health, window, weight, cost } = candidate;
  const position = positionOf(need);
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
    holding: position === undefined ? undefined : holdingOf(window, position),
    oldest: window?.oldest.toString(),
    safeOldest: window?.safeOldest.toString(),
    head: window?.head.toString(),
    weight,
    cost: Math.round(cost * 10) / 10,
    ...place,
  };
}

/** Reason for a node's place behind the one before it. */
const criterionTexts: Readonly<Record<Criterion, string>> = {
  health:
    'health: it answers worse, other nodes contradict its head, it is ejected from such reads, or it is far behind',
  holding: 'holding: it holds the version less surely',
  distance: 'distance: its head is farther from the version',
  tier: 'tier: archival nodes keep their capacity for what only they can answer',
  lag: 'lag: its head is older',
  submission: 'submission: the one before took the transaction',
  depth: 'depth: of state, the one before goes less far back and is enough; of transactions, the deeper is asked first',
  load: 'load: they are alike; of such nodes weights decide first, then two are drawn at random and the cheaper is asked first',
};

const reasons = {
  'other chain': 'it is of another chain',
  drained: 'an operator has drained it',
  pruned: 'it has pruned the version, and another one goes deeper',
} as const;
