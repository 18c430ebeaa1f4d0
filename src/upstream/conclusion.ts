/** What a client is told when no node gave a final answer. */
import { GatewayError } from '../ledger/errors.ts';
import type { StopSignal } from '../ledger/stop.ts';
import type { Course } from './course.ts';
import { CrowdedError } from './crowded-error.ts';
import type { NodeAnswer } from './exchange.ts';
import type { Fleet } from './fleet.ts';
import { deepest, deeperThan } from './deepest.ts';
import { positionOf, type Need } from './need.ts';
import { holdingOf } from './ranking.ts';
import type { Upstream } from './upstream.ts';
import { knownNodes } from './useful.ts';
import { errorCodeOf } from './verdict.ts';

/**
 * The most telling answer of those that came, unless it would be a false claim about the ledger. Throws `GatewayError`
 * 503 when there is none.
 */
export function conclude(fleet: Fleet, need: Need, course: Course, signal: StopSignal): NodeAnswer {
  if (signal.aborted) throw new GatewayError('unavailable', 'the request was abandoned', { cause: signal.reason });
  const kept = course.kept;
  // An answer from an older state than asked for is no answer, whatever it says; nor is "not there yet" from a node that
  // is behind the others.
  const isTooOld = kept?.verdict === 'behind' && (need.kind === 'head' || isReached(fleet, need));
  if (kept !== undefined && !isTooOld && !mayStillBeHeld(fleet, need, course.refusers)) {
    if (kept.verdict !== 'failed' || errorCodeOf(kept.answer) !== undefined) return kept.answer;
  }
  if (course.crowded !== undefined) throw new CrowdedError(course.crowded);
  throw new GatewayError('unavailable', explain(fleet, need, course));
}

/** Whether the ledger has got to what is asked for. */
function isReached({ head }: Fleet, need: Need): boolean {
  if (head === undefined) return false;
  return need.kind === 'block' ? need.height <= head.blockHeight : (positionOf(need) ?? head.version) <= head.version;
}

/** Whether a node that gave no answer could hold what others say is gone: then "gone" must not be said. */
function mayStillBeHeld(fleet: Fleet, need: Need, refusers: ReadonlySet<Upstream>): boolean {
  if (refusers.size === 0) return false;
  // It tells another chain now: what it holds of this one is not known, and nobody else may go so deep.
  if (fleet.upstreams.some(({ health, tier }) => health === 'foreign' && tier === 'archival')) return true;
  const known = knownNodes(fleet, need, performance.now());
  if (need.kind === 'transaction') {
    // Only the node that took it surely has it in its mempool.
    const taker = known.find(({ name }) => name === need.first);
    if (taker !== undefined && !refusers.has(taker.upstream)) return true;
    const final = deepest(known)?.upstream;
    return final !== undefined && !refusers.has(final);
  }
  const position = positionOf(need);
  if (position === undefined) return deeperThan(known, ({ upstream }) => refusers.has(upstream)) !== undefined;
  return known.some(({ upstream, window }) => !refusers.has(upstream) && holdingOf(window, position) !== 'pruned');
}

function explain(fleet: Fleet, need: Need, course: Course): string {
  if (fleet.upstreams.every((upstream) => upstream.health === 'foreign')) return 'no node of this chain is known';
  const head = fleet.head?.version ?? 0n;
  if (need.kind === 'head' && need.min !== undefined && head < need.min) {
    return `the ledger is at version ${head} here, and version ${need.min} was asked for; try again`;
  }
  const position = positionOf(need);
  const what =
    position === undefined ? 'this request' : `${need.kind === 'block' ? 'block' : 'ledger version'} ${position}`;
  if (course.refusers.size > 0) return `the nodes that may hold ${what} cannot be reached now; try again`;
  return `no node answered ${what} (${course.asked.size} asked); try again`;
}
