/** The attempts of one call to the fleet, and the next step that follows from them. */
import type { NodeCandidate } from '../select/candidates.ts';
import type { AnswerClass } from './classify.ts';
import type { FailureSign } from '../node/ejection.ts';
import type { NodeAnswer } from './exchange.ts';
import { passedOver, trustRank } from '../select/ranking.ts';
import type { Upstream } from '../node/upstream.ts';

/** The result of one attempt. */
export type AttemptOutcome<A> = { readonly kind: 'final'; readonly answer: A } | NonFinalOutcome;

/** An attempt that did not end the call; `answer` is kept where it is worth passing on. */
export interface NonFinalOutcome {
  readonly kind: Exclude<AnswerClass, 'final'>;
  readonly answer: NodeAnswer | undefined;
  readonly mayHaveArrived: boolean;
  /** How the node failed, where it may be its own doing. */
  readonly sign?: FailureSign | undefined;
  /** The node refused the request as one too many, and did not work on it. */
  readonly isShed?: boolean;
}

/** A node that did worse than the one that answered. */
export interface NodeFailure {
  readonly upstream: Upstream;
  readonly sign: FailureSign;
  /** In ms of `performance.now()`. */
  readonly sentAtMs: number;
}

/** The attempts of one call so far. */
export class AttemptHistory {
  /** Nodes that need not be asked any more. */
  readonly asked = new Set<Upstream>();
  attempts = 0;
  /** Nodes that had not got to the version, with their heads as reported then. */
  readonly behind = new Map<Upstream, bigint>();
  /** Nodes that gave no usable answer. */
  readonly failed = new Set<Upstream>();
  /** End of all waits for the version together, in ms of `performance.now()`. Absent: none has begun. */
  waitUntilMs: number | undefined;
  /** A node is asked again, or was waited for: one more attempt is left, even after the last one. */
  isRepeating = false;
  /** A node that failed was asked again at once: once is enough. */
  hasRepeated = false;
  /** Nodes that answered that they do not hold what is asked for. */
  readonly prunedAt = new Set<Upstream>();
  anyPruned = false;
  last: NonFinalOutcome | undefined;
  readonly failures: NodeFailure[] = [];
  /** The best answer so far, none of them final. */
  bestAnswer: { readonly kind: NonFinalOutcome['kind']; readonly answer: NodeAnswer } | undefined;

  /** The client for which no place at a node was to be had. */
  queueFullFor: string | undefined;

  ask(upstream: Upstream): void {
    this.asked.add(upstream);
    this.attempts += 1;
    this.isRepeating = false;
  }

  /** The node may be asked once more. */
  repeat(upstream: Upstream): void {
    this.asked.delete(upstream);
    this.isRepeating = true;
  }

  /** `sentAtMs`: in ms of `performance.now()`. */
  record(setback: NonFinalOutcome, upstream: Upstream, sentAtMs: number): void {
    const { kind, answer, sign } = setback;
    this.last = setback;
    if (sign !== undefined) this.failures.push({ upstream, sign, sentAtMs });
    if (kind === 'failed') this.failed.add(upstream);
    if (kind === 'behind') this.behind.set(upstream, headOf(upstream));
    if (kind === 'pruned') this.anyPruned = true;
    if (answer === undefined) return;
    if (kind === 'pruned' || kind === 'absent') this.prunedAt.add(answer.upstream);
    // A statement about the ledger is worth more than a broken node's error; of equals the later, deeper node's.
    if (kind !== 'failed' || this.bestAnswer === undefined) this.bestAnswer = { kind, answer };
  }
}

/** Why a node is asked. `... elsewhere`: the answer of the node before it. */
export type AttemptReason =
  | 'first choice'
  | 'hedge'
  | 'retry'
  | 'again after waiting'
  | `${'pruned' | 'behind' | 'absent' | 'refused'} elsewhere`;

/** Why the next node is asked, unless it is a hedge. */
export function reasonOf({ isRepeating, last }: AttemptHistory): AttemptReason {
  if (last === undefined) return 'first choice';
  if (isRepeating && last.kind === 'behind') return 'again after waiting';
  return last.kind === 'failed' ? 'retry' : `${last.kind} elsewhere`;
}

/**
 * `ask`: a node that was not asked may answer. `again`: the node that failed is the only one that has got there. `wait`:
 * a node that can be trusted is about to have it. `end`: no node has more to add.
 */
export type NextStep = 'ask' | 'again' | 'wait' | 'end';

/** The call at the moment of the next step. */
export interface StepContext {
  readonly version: bigint;
  readonly history: AttemptHistory;
  /** The waits have not used up their time. */
  readonly mayWait: boolean;
  /** An attempt is left after the next one. */
  readonly mayRepeat: boolean;
}

/**
 * The step after `last`, the node asked last, has failed or has not got to the version: lagging nodes are not asked for
 * versions that they surely lack, and one that is about to have the version is waited for.
 */
export function stepAfter(nodes: readonly NodeCandidate<Upstream>[], last: Upstream, context: StepContext): NextStep {
  const { version, history, mayWait, mayRepeat } = context;
  const trusted = nodes.filter((node) => trustRank(node) < passedOver);
  if (trusted.some((node) => isUntried(node, context))) return 'ask';
  const isAwaited = trusted.some(({ upstream, health }) => health === 'usable' && !history.failed.has(upstream));
  // Then the word of a node that is passed over is better than none.
  const otherwise = isAwaited && !nodes.some((node) => isUntried(node, context)) ? 'end' : 'ask';
  if (!isAwaited) return otherwise;
  // A node that fails now mostly answers at once when it is asked again; the others would have to be waited for.
  const hasErred = history.last?.kind === 'failed' && history.last.sign === 'error';
  if (hasErred && headOf(last) >= version && mayRepeat && !history.hasRepeated) return 'again';
  return mayWait ? 'wait' : otherwise;
}

/** Whether the node has got to the version, by a report newer than the attempt there. */
export function hasArrived(upstream: Upstream, version: bigint, { behind, failed }: AttemptHistory): boolean {
  const head = headOf(upstream);
  return head >= version && head > (behind.get(upstream) ?? -1n) && !failed.has(upstream);
}

/** The node whose head is the highest, of those that answer and are believed. */
export function nearest(nodes: readonly NodeCandidate<Upstream>[]): Upstream | undefined {
  const usable = nodes.filter(({ health, isSuspect }) => health === 'usable' && isSuspect !== true);
  return usable.reduce<Upstream | undefined>(
    (found, { upstream }) => (found === undefined || headOf(upstream) > headOf(found) ? upstream : found),
    undefined,
  );
}

/** Not asked yet, and its ledger is unknown or goes as far as the version. */
function isUntried({ upstream, window }: NodeCandidate<Upstream>, { version, history }: StepContext): boolean {
  return !history.asked.has(upstream) && (window === undefined || window.head >= version);
}

function headOf({ window }: Upstream): bigint {
  return window.info?.version ?? -1n;
}
