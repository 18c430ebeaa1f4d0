/** Records of attempts: of one call, and in the state of nodes, in metrics, log and traces (docs/tracing.md). */
import type { AnswerClass } from './classify.ts';
import type { Shedding } from '../node/deferral.ts';
import type { FailureSign } from '../node/ejection.ts';
import type { NodeAnswer } from './exchange.ts';
import type { Upstream } from '../node/upstream.ts';
import type { NodeFault } from '../node/node-fault.ts';
import type { FailureKind } from '../upstream-metrics.ts';
import type { Span } from '../../metrics/index.ts';
import type { FleetRequest, SenderParts } from './fleet-request.ts';
import type { ReadClass } from '../select/ranking.ts';

/** The result of one attempt. */
export type AttemptOutcome<A> = { readonly kind: 'final'; readonly answer: A } | NonFinalOutcome;

/** The result of an attempt that did not end the call. */
export interface NonFinalOutcome {
  readonly kind: Exclude<AnswerClass, 'final'>;
  /** A valid answer, which may go to the client in the end. */
  readonly answer: NodeAnswer | undefined;
  /** Bytes of the request may have reached the node. */
  readonly mayHaveArrived: boolean;
  /** How the node failed, when the failure may be its own. */
  readonly sign?: FailureSign | undefined;
  /** The failure in words of a closed set: `status 500`, `connection cut`. */
  readonly symptom?: string | undefined;
  /** The node shed the request: it refused it as one too many, without work on it. */
  readonly isShed?: boolean;
  /** The node knows no such route (`isUnknownRoute`). */
  readonly isUnrouted?: boolean;
  /** The answer is larger than any that is read whole. */
  readonly isTooLarge?: boolean;
}

/** The failure of one node at a request; counts against the node once another has answered it. */
export interface NodeFailure {
  readonly upstream: Upstream;
  readonly sign: FailureSign;
  readonly symptom?: string | undefined;
  /** In ms of `performance.now()`. */
  readonly sentAtMs: number;
}

/** Most further attempts at one address after one of several nodes behind it had pruned the data. */
const mostElsewhere = 16;

/** The attempts of one call so far. */
export class AttemptHistory {
  /** Nodes that the call does not ask again. */
  readonly asked = new Set<Upstream>();
  attempts = 0;
  /** Nodes that had not reached the version, with the heads that they reported then. */
  readonly behind = new Map<Upstream, bigint>();
  /** Nodes that gave no usable answer. */
  readonly failed = new Set<Upstream>();
  /** End of all waits for the version together, in ms of `performance.now()`; absent before the first. */
  waitUntilMs: number | undefined;
  /** The next attempt repeats a node, or follows a wait: it is allowed even after the last one. */
  isRepeating = false;
  /** The call has repeated a node at once after a failure; it does so once. */
  hasRepeated = false;
  /** Nodes that answered that they do not hold the version, block or transaction. */
  readonly prunedAt = new Set<Upstream>();
  anyPruned = false;
  /** Answers of one of several nodes behind an address that it has pruned the data. */
  #sharedMisses = 0;
  /** Number of answers that the node knows no such route. */
  unrouted = 0;
  last: NonFinalOutcome | undefined;
  readonly failures: NodeFailure[] = [];
  /** The best answer so far; none was final. */
  bestAnswer: { readonly kind: NonFinalOutcome['kind']; readonly answer: NodeAnswer } | undefined;
  /** The gateway chose the version, and no other node had reached it: the gateway chooses another. */
  isLost = false;
  /** The client whose request found no place at a node. */
  queueFullFor: string | undefined;

  /** Whether one of several nodes behind an address has pruned the data: another of them may hold it. */
  get isMissedByShared(): boolean {
    return this.#sharedMisses > 0;
  }

  ask(upstream: Upstream): void {
    this.asked.add(upstream);
    this.attempts += 1;
    this.isRepeating = false;
  }

  repeat(upstream: Upstream): void {
    this.asked.delete(upstream);
    this.isRepeating = true;
  }

  /** Records the end of an attempt. `sentAtMs`: in ms of `performance.now()`. */
  record(outcome: NonFinalOutcome, upstream: Upstream, sentAtMs: number): void {
    const { kind, answer, sign, symptom } = outcome;
    this.last = outcome;
    if (sign !== undefined) this.failures.push({ upstream, sign, symptom, sentAtMs });
    if (kind === 'failed') this.failed.add(upstream);
    if (kind === 'behind') this.behind.set(upstream, upstream.head);
    if (kind === 'pruned') this.anyPruned = true;
    if (outcome.isUnrouted === true) this.unrouted += 1;
    // A 404 stays a miss, because another node may be deeper, and a version above a head is waited for.
    const isAskedAgain = kind === 'pruned' && upstream.address.isShared && this.#sharedMisses < mostElsewhere;
    if (isAskedAgain) this.#missAtShared(upstream);
    if (answer === undefined) return;
    if ((kind === 'pruned' || kind === 'absent') && !isAskedAgain) this.prunedAt.add(answer.upstream);
    // An answer about the ledger outranks a broken node's error; among equals the later, deeper node's wins.
    if (kind !== 'failed' || this.bestAnswer === undefined) this.bestAnswer = { kind, answer };
  }

  /** The node is one of several behind its address: the call asks there again. */
  forgetMiss(upstream: Upstream): void {
    this.prunedAt.delete(upstream);
    this.#missAtShared(upstream);
  }

  /** The attempt counts for none: another connection may lead to another node. */
  #missAtShared(upstream: Upstream): void {
    this.#sharedMisses += 1;
    this.asked.delete(upstream);
    this.attempts -= 1;
  }
}

/** Why a node is asked, an attribute of its span. `... elsewhere`: the answer of the node before it. */
export type AttemptReason =
  | 'first choice'
  | 'hedge'
  | 'retry'
  | 'again after waiting'
  | `${'pruned' | 'behind' | 'absent' | 'refused'} elsewhere`;

/** The reason of the next attempt, unless it is a hedge. */
export function reasonOf({ isRepeating, last }: AttemptHistory): AttemptReason {
  if (last === undefined) return 'first choice';
  if (isRepeating && last.kind === 'behind') return 'again after waiting';
  return last.kind === 'failed' ? 'retry' : `${last.kind} elsewhere`;
}

/** A failed attempt. `blame`: `node`, the node is at fault; `doubt`, a probe decides. */
export interface FailedAttempt {
  readonly kind: FailureKind;
  readonly cause: string;
  readonly blame: 'none' | 'doubt' | 'node';
  readonly fault: NodeFault;
}

/**
 * Records an answer of any status. `isOfNode`: it proves that a node of a ledger answers at the address. `isFailure`: it
 * is of no use to the client, though a client may have provoked it.
 */
export function recordAnswer(
  parts: SenderParts,
  upstream: Upstream,
  status: number,
  elapsedMs: number,
  { isOfNode, isFailure }: { readonly isOfNode: boolean; readonly isFailure: boolean },
): void {
  if (isOfNode) upstream.recordAnswer(elapsedMs, performance.now());
  parts.metrics.observeAnswer(upstream.name, status, elapsedMs / 1000);
  if (isFailure) parts.metrics.answerFailed(upstream.name);
  noteHealth(parts, upstream);
}

/** Records an attempt without a usable answer. */
export function recordFailure(
  parts: SenderParts,
  upstream: Upstream,
  elapsedMs: number,
  { kind, cause, blame, fault }: FailedAttempt,
): void {
  const { metrics, log, onDoubt } = parts;
  metrics.observeFailure(upstream.name, kind, elapsedMs / 1000);
  log.debug({ upstream: upstream.name, kind, cause }, 'attempt failed');
  if (blame === 'node') upstream.recordFailure(elapsedMs, performance.now(), fault);
  if (blame === 'doubt') {
    upstream.recordDoubt(elapsedMs, performance.now());
    onDoubt(upstream);
  }
  noteHealth(parts, upstream, { kind, cause });
}

/** Records an answer's time, which delays hedges, bounds requests in flight, and ends deferral and ejection. */
export function recordTime(
  { log }: SenderParts,
  { name, latencies, deferral, places, ejections }: Upstream,
  startedMs: number,
  elapsedMs: number,
  timed: ReadClass | 'look' | undefined,
): void {
  const nowMs = performance.now();
  if (timed !== 'look') deferral.answered(startedMs);
  if (timed === undefined) return;
  latencies[timed].record(elapsedMs, nowMs);
  if (timed === 'look') return;
  places.observe(timed, elapsedMs, nowMs);
  if (!ejections[timed].answered(nowMs)) return;
  log.record('back', { upstream: name, readClass: timed }, 'upstream answers reads of the class again');
}

/** Records that the node shed a request: its concurrency limit falls, and the others are asked first for a moment. */
export function recordShedding(
  { metrics, log }: SenderParts,
  { name, places, deferral }: Upstream,
  sentAtMs: number,
  shedding: Shedding,
): void {
  const nowMs = performance.now();
  places.pushBack(nowMs);
  const isFirst = deferral.isForgiven(nowMs);
  const pauseMs = deferral.refused(sentAtMs, shedding, nowMs);
  if (pauseMs === undefined) return;
  metrics.deferred(name);
  const fields = { upstream: name, pauseMs: Math.round(pauseMs) };
  const message = 'upstream limits or sheds requests: others are asked first';
  if (isFirst) log.record('deferred', fields, message);
  else log.debug(fields, message);
}

/** Reports a change of the node's health, or of the reason why it is not usable. `cause`: further fields of the log line. */
export function noteHealth(
  { fleet, log }: Pick<SenderParts, 'fleet' | 'log'>,
  upstream: Upstream,
  cause: object = {},
): void {
  const { name, health, fault, noted, isRemoved } = upstream;
  if ((health === noted.health && fault === noted.fault) || isRemoved) return;
  upstream.noted = { health, fault };
  upstream.unusableSinceMs = health === 'usable' ? undefined : (upstream.unusableSinceMs ?? Date.now());
  fleet.refresh();
  // The vote on the chain has reported a foreign node (`FleetLedger.voteOnChain`).
  if (health === 'foreign' || (fault !== undefined && fault === noted.fault)) return;
  const down = fault === 'other dialect' ? 'node of other dialect' : 'node down';
  const change = health === 'usable' ? 'node usable' : down;
  const word = fault === undefined ? health : 'down';
  log.record(change, { upstream: name, health, reason: fault, ...cause }, `upstream is ${word}`);
}

/** The span of one attempt: from the wait for a connection to the answer's end, or to the head of a streamed one. */
export function attemptSpan(
  { span, wire }: FleetRequest,
  upstream: Upstream,
  reason: AttemptReason,
  attemptsBefore: number,
): Span | undefined {
  return span?.begin('attempt', {
    kind: 'client',
    attributes: {
      'http.request.method': wire.method,
      'ledgergate.upstream': upstream.name,
      'ledgergate.attempt.reason': reason,
      ...(attemptsBefore === 0 ? {} : { 'http.request.resend_count': attemptsBefore }),
    },
  });
}

/**
 * Ends the span. `cancelled`: another node has answered, or the client left. A node that has pruned or not yet reached a
 * version has not failed.
 */
export function endSpan(
  span: Span | undefined,
  kind: AnswerClass | 'cancelled',
  failure?: FailureKind | 'unsendable',
  status?: number,
): void {
  if (span === undefined) return;
  span.note({ 'ledgergate.attempt.verdict': kind, 'http.response.status_code': status });
  if (failure !== undefined) span.fail(failure);
  span.end();
}
