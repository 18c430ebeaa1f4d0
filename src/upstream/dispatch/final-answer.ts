/** The answer of a call in which no node gave a final one. */
import { GatewayError } from '../../ledger/errors.ts';
import type { CancelSignal } from '../../ledger/stop.ts';
import type { AttemptHistory } from './attempt-history.ts';
import { deepest, deepestUnasked, type NodeCandidate } from '../select/candidates.ts';
import { errorCodeOf } from './classify.ts';
import type { NodeAnswer } from './exchange.ts';
import type { Fleet } from '../fleet.ts';
import { positionOf, type Need } from '../select/need.ts';
import { QueueFullError } from './queue.ts';
import { holdingOf } from '../select/ranking.ts';
import type { Upstream } from '../node/upstream.ts';

/** A call that no node answered. */
export interface Unanswered {
  readonly fleet: Fleet;
  readonly need: Need;
  /** All nodes of the fleet's chain. */
  readonly nodes: readonly NodeCandidate<Upstream>[];
  readonly history: AttemptHistory;
}

/** The best answer, unless it would be a false claim about the ledger. Throws `GatewayError` 503 when there is none. */
export function chooseFinalAnswer(call: Unanswered, signal: CancelSignal): NodeAnswer {
  if (signal.aborted) throw new GatewayError('unavailable', 'the request was abandoned', { cause: signal.reason });
  const { bestAnswer } = call.history;
  // An answer from an older state does not count, nor does "not there yet" from a node behind the others.
  const isTooOld = bestAnswer?.kind === 'behind' && (call.need.kind === 'head' || isReached(call));
  if (bestAnswer !== undefined && !isTooOld && !mayStillBeHeld(call)) {
    if (bestAnswer.kind !== 'failed' || errorCodeOf(bestAnswer.answer) !== undefined) return bestAnswer.answer;
  }
  const { queueFullFor } = call.history;
  if (queueFullFor !== undefined) throw new QueueFullError(queueFullFor);
  const waitMs = withheldForMs(call, performance.now());
  const headers = waitMs === undefined ? [] : ['Retry-After', String(Math.ceil(waitMs / 1000))];
  throw new GatewayError('unavailable', explain(call), { headers });
}

/** Ms until one of the nodes that may answer takes requests again; `undefined`: one does now, or none is known. */
function withheldForMs({ nodes, need, history: { prunedAt } }: Unanswered, nowMs: number): number | undefined {
  const position = positionOf(need);
  let leastMs: number | undefined;
  for (const { upstream, health, window } of nodes) {
    const isFutile = position !== undefined && holdingOf(window, position) === 'pruned';
    if (health === 'down' || prunedAt.has(upstream) || isFutile) continue;
    const waitMs = upstream.withheldForMs(nowMs);
    if (waitMs === 0) return undefined;
    leastMs = Math.min(waitMs, leastMs ?? Infinity);
  }
  return leastMs;
}

/** Whether the ledger has reached the version or block that the request needs. */
function isReached({ fleet: { head }, need }: Unanswered): boolean {
  if (head === undefined) return false;
  return need.kind === 'block' ? need.height <= head.blockHeight : (positionOf(need) ?? head.version) <= head.version;
}

/** Whether a node without an answer may hold the data that the others have pruned: then a client must not get their 410. */
function mayStillBeHeld({ fleet, need, nodes, history: { prunedAt } }: Unanswered): boolean {
  if (prunedAt.size === 0) return false;
  // The history of an archival node is unknown while it reports another chain, and it may be the deepest.
  if (fleet.upstreams.some(({ health, tier }) => health === 'foreign' && tier === 'archival')) return true;
  if (need.kind === 'transaction') {
    // Only the node of the submission surely has the transaction in its mempool.
    const submittedTo = nodes.find(({ name }) => name === need.submittedTo)?.upstream;
    const last = deepest(nodes)?.upstream;
    return [submittedTo, last].some((upstream) => upstream !== undefined && !prunedAt.has(upstream));
  }
  const position = positionOf(need);
  if (position === undefined) return deepestUnasked(nodes, prunedAt) !== undefined;
  return nodes.some(({ upstream, window }) => !prunedAt.has(upstream) && holdingOf(window, position) !== 'pruned');
}

function explain({ fleet, need, history: { prunedAt, asked } }: Unanswered): string {
  if (fleet.upstreams.every(({ health }) => health === 'foreign')) return 'all nodes report another chain';
  const head = fleet.head?.version ?? 0n;
  if (need.kind === 'head' && need.min !== undefined && head < need.min) {
    return `the ledger is at version ${head} here, and version ${need.min} was asked for; try again`;
  }
  const position = positionOf(need);
  const subject =
    position === undefined ? 'this request' : `${need.kind === 'block' ? 'block' : 'ledger version'} ${position}`;
  if (prunedAt.size > 0) return `the nodes that may hold ${subject} cannot be reached now; try again`;
  return `no node answered ${subject} (${asked.size} asked); try again`;
}
