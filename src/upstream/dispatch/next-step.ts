/** Decides after an attempt without a final answer: whether the call goes on, or waits, and its answer in the end. */
import { type CancelSignal, GatewayError, type LedgerVersion } from '../../ledger/index.ts';
import type { FleetState } from '../fleet-state.ts';
import { candidatesOf } from '../fleet-view.ts';
import type { Upstream } from '../node/upstream.ts';
import { type NodeCandidate, deepest, deepestUnasked } from '../select/candidates.ts';
import { type Need, positionOf, passedOver, trustRank, holdingOf, versionOf } from '../select/ranking.ts';
import type { AttemptHistory, NonFinalOutcome } from './attempt-history.ts';
import { QueueFullError, UnreachedError, type SendLimits } from './fleet-request.ts';
import { errorCodeOf } from './classify.ts';
import type { NodeAnswer } from './exchange.ts';

/** Heads do not come this much nearer within a wait. */
const reachableVersions = 1_000_000n;

/** A call between two attempts. */
export interface CallState {
  readonly fleet: FleetState;
  readonly limits: SendLimits;
  readonly need: Need;
  readonly history: AttemptHistory;
  readonly nodes: () => readonly NodeCandidate<Upstream>[];
  /** End of the call, in ms of `performance.now()`. */
  readonly deadlineAtMs: number;
  readonly signal: CancelSignal;
}

/** Whether another attempt makes sense after an outcome of `kind` at `upstream`. Waits when a node is about to arrive. */
export async function mayGoOn(call: CallState, upstream: Upstream, kind: NonFinalOutcome['kind']): Promise<boolean> {
  const { fleet, limits, need, history, nodes } = call;
  if (kind !== 'behind' && kind !== 'failed') return true;
  // No call waits for a block: after a node without it, only a node that has reported the block is asked.
  if (need.kind === 'block')
    return (
      kind === 'failed' || nodes().some((node) => node.window !== undefined && mayReach(node, need.height, history))
    );
  const version = versionOf(need);
  const head = fleet.head?.version;
  if (version === undefined || head === undefined) return true;
  if (version > head + reachableVersions) return kind === 'failed';
  const mayWait = !isChosen(need) && performance.now() < (history.waitUntilMs ?? Infinity);
  const mayRepeat = history.attempts < limits.maxAttempts - 1;
  const step = stepAfter(nodes(), upstream, { version, history, mayWait, mayRepeat });
  // While a repeat at its only holder is under way, another node may reach the version.
  history.isLost = isChosen(need) && step !== 'ask';
  if (step === 'again') {
    history.hasRepeated = true;
    history.repeat(upstream);
  } else if (step === 'wait') await waitFor(version, call);
  return step !== 'end';
}

/** Whether the gateway chose the version that the request needs. */
export function isChosen(need: Need): boolean {
  return (need.kind === 'version' || need.kind === 'head') && need.isChosen === true;
}

/**
 * Waits until a node that can answer has reached the version, and lets the call repeat nodes that it asked too early.
 * After a wait in vain it asks the node with the highest head, which may have moved since its last report.
 */
async function waitFor(
  version: LedgerVersion,
  { fleet, limits, history, nodes, deadlineAtMs, signal }: CallState,
): Promise<void> {
  const nowMs = performance.now();
  history.waitUntilMs ??= nowMs + limits.waitForVersionMs;
  const waitMs = Math.min(history.waitUntilMs, deadlineAtMs) - nowMs;
  const arrived = (upstream: Upstream): boolean => hasArrived(upstream, version, history);
  const isReached = await fleet.waitFor(version, waitMs, signal, arrived);
  const early = [...history.asked].filter(arrived);
  const last = isReached ? undefined : nearest(nodes());
  for (const upstream of last === undefined ? early : [last]) history.repeat(upstream);
  // The node that arrived may be one that was not asked.
  history.isRepeating = true;
  if (!isReached) history.waitUntilMs = -Infinity;
}

/**
 * `ask`: a node that was not asked may answer. `again`: the node that failed is the only one that has reached the
 * version. `wait`: a trusted node is about to have it. `end`: no node has more to add.
 */
export type NextStep = 'ask' | 'again' | 'wait' | 'end';

/** The state that the next step depends on. */
export interface StepContext {
  readonly version: bigint;
  readonly history: AttemptHistory;
  /** The waits have not used up their time. */
  readonly mayWait: boolean;
  /** An attempt is left after the next one. */
  readonly mayRepeat: boolean;
}

/**
 * The step after `last`, the node asked last, has failed or has not reached the version. Lagging nodes are not asked for
 * versions that they surely lack; a node that is about to have the version is waited for.
 */
export function stepAfter(nodes: readonly NodeCandidate<Upstream>[], last: Upstream, context: StepContext): NextStep {
  const { version, history, mayWait, mayRepeat } = context;
  const trusted = nodes.filter((node) => trustRank(node) < passedOver);
  if (trusted.some((node) => mayReach(node, version, history))) return 'ask';
  const isAwaited = trusted.some(({ upstream, health }) => health === 'usable' && !history.failed.has(upstream));
  // Without a trusted node to wait for, the answer of a node that is passed over is better than none.
  const isLeft = nodes.some((node) => mayReach(node, version, history));
  const otherwise = isAwaited && !isLeft ? 'end' : 'ask';
  if (!isAwaited) return otherwise;
  // A node that has just failed mostly answers a repeat at once; the others would have to be waited for. A node that is
  // passed over is asked ahead of a repeat: it may be the only one that answers.
  const hasErred = history.last?.kind === 'failed' && history.last.sign === 'error';
  if (hasErred && last.head >= version && mayRepeat && !history.hasRepeated && !isLeft) return 'again';
  return mayWait ? 'wait' : otherwise;
}

/** Whether the node has reached the version, by a report newer than the attempt there. */
export function hasArrived(upstream: Upstream, version: bigint, { behind, failed }: AttemptHistory): boolean {
  const { head } = upstream;
  return head >= version && head > (behind.get(upstream) ?? -1n) && !failed.has(upstream);
}

/** The node with the highest head among usable nodes whose heads are believed. */
export function nearest(nodes: readonly NodeCandidate<Upstream>[]): Upstream | undefined {
  const usable = nodes.filter(({ health, isSuspect }) => health === 'usable' && isSuspect !== true);
  return usable.reduce<Upstream | undefined>(
    (best, { upstream }) => (best === undefined || upstream.head > best.head ? upstream : best),
    undefined,
  );
}

/** Whether the node was not asked, and its ledger is unknown or reaches the version, or block where windows are of heights. */
function mayReach({ upstream, window }: NodeCandidate<Upstream>, position: bigint, { asked }: AttemptHistory): boolean {
  return !asked.has(upstream) && (window === undefined || position <= window.head);
}

/** The best answer, unless it would be a false claim about the ledger. Throws `GatewayError` 503 when there is none. */
export function chooseFinalAnswer(call: CallState): NodeAnswer {
  const { signal } = call;
  const attempted = callOf(call);
  if (signal.aborted) {
    const { reason: cause } = signal;
    const reason = (cause instanceof GatewayError ? cause.reason : undefined) ?? 'hung up';
    throw new GatewayError('unavailable', 'the request was abandoned', { cause, reason, ...attempted });
  }
  const { bestAnswer } = call.history;
  const version = versionOf(call.need);
  const isLost = version !== undefined && (call.history.isLost || areOthersBehind(call, version));
  if (isLost && isChosen(call.need)) throw new UnreachedError(version, failedHolders(call, version), attempted.call);
  // An answer from an older state does not count, nor does "not there yet" from a node behind the others.
  const isTooOld = bestAnswer?.kind === 'behind' && (call.need.kind === 'head' || isReached(call));
  if (bestAnswer !== undefined && !isTooOld && !mayStillBeHeld(call)) {
    if (bestAnswer.kind !== 'failed' || errorCodeOf(bestAnswer.answer) !== undefined) return bestAnswer.answer;
  }
  const { queueFullFor } = call.history;
  if (queueFullFor !== undefined) throw new QueueFullError(queueFullFor, attempted.call);
  const waitMs = withheldForMs(call, performance.now());
  if (isLost && waitMs === undefined) throw new UnreachedError(version, failedHolders(call, version), attempted.call);
  const headers = waitMs === undefined ? [] : ['Retry-After', String(Math.ceil(waitMs / 1000))];
  const reason = reasonOf(call, waitMs !== undefined);
  throw new GatewayError('unavailable', explain(call), { headers, reason, ...attempted });
}

/** The attempts so far; nothing before the first. */
function callOf({ history: { attempts, asked } }: CallState): { readonly call?: NonNullable<GatewayError['call']> } {
  return attempts === 0 ? {} : { call: { attempts, upstream: [...asked].at(-1)?.name } };
}

/** Whether the ledger has reached the version, and a believed node that has not failed here is behind it. */
function areOthersBehind({ fleet: { head }, nodes, history: { failed } }: CallState, version: bigint): boolean {
  if (head === undefined || version > head.version) return false;
  return nodes().some(({ upstream }) => upstream.isTrusted && upstream.head < version && !failed.has(upstream));
}

/** The nodes that hold the version by their reports, and gave no answer. */
function failedHolders({ history: { asked } }: CallState, version: bigint): readonly Upstream[] {
  return [...asked].filter(({ head }) => head >= version);
}

/** Ms until one of the nodes that may answer takes requests again; `undefined`: one does now, or none is known. */
function withheldForMs({ nodes, need, history: { prunedAt } }: CallState, nowMs: number): number | undefined {
  const position = positionOf(need);
  let leastMs: number | undefined;
  for (const { upstream, health, window } of nodes()) {
    const isFutile = position !== undefined && holdingOf(window, position) === 'pruned';
    if (health === 'down' || prunedAt.has(upstream) || isFutile) continue;
    const waitMs = upstream.withheldForMs(nowMs);
    if (waitMs === 0) return undefined;
    leastMs = Math.min(waitMs, leastMs ?? Infinity);
  }
  return leastMs;
}

/** Whether the ledger has reached the version or block that the request needs. */
function isReached({ fleet: { head }, need }: CallState): boolean {
  if (head === undefined) return false;
  return need.kind === 'block' ? need.height <= head.blockHeight : (positionOf(need) ?? head.version) <= head.version;
}

/** Whether a node without an answer may hold the data that the others have pruned: then a client must not get their 410. */
function mayStillBeHeld({ fleet, need, nodes: nodesNow, history: { prunedAt, anyPruned } }: CallState): boolean {
  if (prunedAt.size === 0 && !anyPruned) return false;
  // A drained node holds its data, though it is not asked.
  const drained = candidatesOf(fleet, performance.now(), need).filter(({ isDrained }) => isDrained === true);
  const nodes = [...nodesNow(), ...drained.filter(({ health }) => health !== 'foreign')];
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
  return nodes.some(({ upstream, window }) => {
    const isOpen = !prunedAt.has(upstream) || upstream.address.isShared;
    return isOpen && holdingOf(window, position) !== 'pruned';
  });
}

/**
 * The node that failed by an error, and may hold what the others lack: it mostly answers a repeat at once. `undefined`:
 * there is none, or the call has repeated a node already.
 */
export function holderThatFailed(call: CallState): Upstream | undefined {
  const { prunedAt, failures, hasRepeated } = call.history;
  if (hasRepeated || !mayStillBeHeld(call)) return undefined;
  const position = positionOf(call.need);
  const mayHold = ({ upstream, health, window }: NodeCandidate<Upstream>): boolean =>
    health === 'usable' &&
    !prunedAt.has(upstream) &&
    (position === undefined || holdingOf(window, position) !== 'pruned') &&
    failures.some((failure) => failure.upstream === upstream && failure.sign === 'error');
  return call.nodes().find(mayHold)?.upstream;
}

/** The word of log lines for `explain`. */
function reasonOf(
  { fleet, need, history: { prunedAt, asked } }: CallState,
  isPaused: boolean,
): NonNullable<GatewayError['reason']> {
  if (fleet.upstreams.every(({ health }) => health === 'foreign')) return 'other chain';
  if (need.kind === 'head' && need.min !== undefined && (fleet.head?.version ?? 0n) < need.min) return 'not reached';
  if (isPaused) return 'nodes paused';
  if (prunedAt.size > 0) return 'holders away';
  return asked.size === 0 ? 'no node' : 'nodes failed';
}

function explain({ fleet, need, history: { prunedAt, asked, unrouted } }: CallState): string {
  if (fleet.upstreams.every(({ health }) => health === 'foreign')) return 'all nodes report another chain';
  const head = fleet.head?.version ?? 0n;
  if (need.kind === 'head' && need.min !== undefined && head < need.min) {
    return `the ledger is at version ${head} here, and version ${need.min} was asked for; try again`;
  }
  const position = positionOf(need);
  const subject =
    position === undefined ? 'this request' : `${need.kind === 'block' ? 'block' : 'ledger version'} ${position}`;
  const counts = [`${asked.size} asked`, ...(unrouted > 0 ? [`${unrouted} without this route`] : [])];
  const why = [...counts, ...faultsOf(fleet)].join(', ');
  if (prunedAt.size > 0)
    return `the nodes that may hold ${subject} cannot be reached or are drained (${why}); try again`;
  return `no node answered ${subject} (${why}); try again`;
}

/** Reasons why nodes are not usable, each with the number of its nodes; no names, because some contain addresses. */
function faultsOf({ upstreams }: FleetState): readonly string[] {
  const counts = new Map<string, number>();
  for (const { fault, isDrained } of upstreams)
    if (fault !== undefined && !isDrained) counts.set(fault, (counts.get(fault) ?? 0) + 1);
  const drained = upstreams.filter(({ isDrained }) => isDrained).length;
  return [
    ...[...counts].map(([fault, count]) => `${count} down: ${fault}`),
    ...(drained > 0 ? [`${drained} drained`] : []),
  ];
}
