/** Which nodes still have something to say to a request, best first, after what others have said to it. */
import type { Course } from './course.ts';
import type { Fleet } from './fleet.ts';
import type { ReadClass } from './read-class.ts';
import type { Unit } from './retention-window.ts';
import { deeperThan } from './deepest.ts';
import { positionOf, type Need } from './need.ts';
import { holdingOf, type Candidate } from './ranking.ts';
import { nextUpstreams } from './select.ts';
import type { Upstream } from './upstream.ts';

export type Known = Candidate & { readonly upstream: Upstream };

/** The nodes of the fleet's chain. `readClass`: what they may be passed over for; absent: for nothing. */
export function knownNodes(fleet: Fleet, need: Need, nowMs: number, readClass?: ReadClass): Known[] {
  const unit: Unit = need.kind === 'block' ? 'blocks' : 'versions';
  return fleet.candidates(nowMs, unit, readClass).filter(({ health }) => health !== 'foreign');
}

/**
 * The nodes that are worth asking next, all as good as each other, best first; empty when none has anything to add.
 * `isLast`: no attempt is left after this one, which thus belongs to the deepest node that holds what is asked for.
 */
export function usefulNodes(known: readonly Known[], need: Need, course: Course, isLast: boolean): readonly Known[] {
  if (course.sawPruned && need.kind === 'head') return deeper(known, course);
  const left = course.asked.size === 0 ? known : known.filter(({ upstream }) => !course.asked.has(upstream));
  const next = nextUpstreams(left, need, { isMissed: course.isMissed || isLast });
  const best = next[0];
  // Once one node has said "pruned", only a node that may hold the version has more to say.
  const position = positionOf(need);
  const isFutile = course.sawPruned && position !== undefined && holdingOf(best?.window, position) === 'pruned';
  // A node whose head is not believed has nothing to add to what believed ones said.
  const isDoubtful = best?.isSuspect === true && course.kept !== undefined;
  return isFutile || isDoubtful ? [] : next;
}

/** What was called pruned without a version that others could be told by: only the deepest node has more to say. */
function deeper(known: readonly Known[], { asked, refusers }: Course): readonly Known[] {
  const final = deeperThan(known, ({ upstream }) => refusers.has(upstream));
  return final === undefined || asked.has(final.upstream) ? [] : [final];
}

/** Whether a node that was not asked yet has told of the block; nobody waits for one, as is done for versions. */
export function isKnownToHold(known: readonly Known[], height: bigint, asked: ReadonlySet<Upstream>): boolean {
  return known.some(({ upstream, window }) => {
    return !asked.has(upstream) && window !== undefined && holdingOf(window, height) !== 'unknown';
  });
}
