/** Decides whether a call goes on after an attempt, and waits for a node that is about to reach its version. */
import type { CancelSignal } from '../../ledger/stop.ts';
import type { LedgerVersion } from '../../ledger/version.ts';
import type { Fleet } from '../fleet.ts';
import type { Upstream } from '../node/upstream.ts';
import type { NodeCandidate } from '../select/candidates.ts';
import type { Need } from '../select/need.ts';
import { passedOver, trustRank } from '../select/ranking.ts';
import { headOf, type AttemptHistory, type NonFinalOutcome } from './attempt-history.ts';
import type { SendLimits } from './fleet-request.ts';

/** Heads do not come this much nearer within a wait. */
const reachableVersions = 1_000_000n;

/** A call between two attempts. */
export interface CallState {
  readonly fleet: Fleet;
  readonly limits: SendLimits;
  readonly need: Need;
  readonly history: AttemptHistory;
  /** The nodes of the fleet's chain now. */
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
    return kind === 'failed' || nodes().some((node) => hasReported(node, need.height, history));
  const version = need.kind === 'version' ? need.version : need.kind === 'head' ? need.min : undefined;
  const head = fleet.head?.version;
  if (version === undefined || head === undefined) return true;
  if (version > head + reachableVersions) return kind === 'failed';
  const mayWait = performance.now() < (history.waitUntilMs ?? Infinity);
  const mayRepeat = history.attempts < limits.maxAttempts - 1;
  const step = stepAfter(nodes(), upstream, { version, history, mayWait, mayRepeat });
  if (step === 'again') {
    history.hasRepeated = true;
    history.repeat(upstream);
  } else if (step === 'wait') await waitFor(version, call);
  return step !== 'end';
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
  const isReached = await fleet.waiters.wait(version, waitMs, signal, arrived);
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
  if (trusted.some((node) => isUntried(node, context))) return 'ask';
  const isAwaited = trusted.some(({ upstream, health }) => health === 'usable' && !history.failed.has(upstream));
  // Without a trusted node to wait for, the answer of a node that is passed over is better than none.
  const otherwise = isAwaited && !nodes.some((node) => isUntried(node, context)) ? 'end' : 'ask';
  if (!isAwaited) return otherwise;
  // A node that has just failed mostly answers a repeat at once; the others would have to be waited for.
  const hasErred = history.last?.kind === 'failed' && history.last.sign === 'error';
  if (hasErred && headOf(last) >= version && mayRepeat && !history.hasRepeated) return 'again';
  return mayWait ? 'wait' : otherwise;
}

/** Whether the node has reached the version, by a report newer than the attempt there. */
export function hasArrived(upstream: Upstream, version: bigint, { behind, failed }: AttemptHistory): boolean {
  const head = headOf(upstream);
  return head >= version && head > (behind.get(upstream) ?? -1n) && !failed.has(upstream);
}

/** The node with the highest head among usable nodes whose heads are believed. */
export function nearest(nodes: readonly NodeCandidate<Upstream>[]): Upstream | undefined {
  const usable = nodes.filter(({ health, isSuspect }) => health === 'usable' && isSuspect !== true);
  return usable.reduce<Upstream | undefined>(
    (best, { upstream }) => (best === undefined || headOf(upstream) > headOf(best) ? upstream : best),
    undefined,
  );
}

/** Whether the node was not asked, and its ledger is unknown or reaches the version. */
function isUntried({ upstream, window }: NodeCandidate<Upstream>, { version, history }: StepContext): boolean {
  return !history.asked.has(upstream) && (window === undefined || window.head >= version);
}

/** Whether the node was not asked, and has reported the block; windows are of heights here. */
function hasReported(
  { upstream, window }: NodeCandidate<Upstream>,
  height: bigint,
  { asked }: AttemptHistory,
): boolean {
  return !asked.has(upstream) && window !== undefined && height <= window.head;
}
