/** Records attempts in the state of their node, in metrics, log and traces (docs/tracing.md). */
import type { FailureKind } from '../../metrics/upstream-metrics.ts';
import type { Span } from '../../trace/span.ts';
import type { AttemptReason } from './attempt-history.ts';
import type { AnswerClass, Shedding } from './classify.ts';
import type { FleetRequest, SenderParts } from './fleet-request.ts';
import type { ReadClass } from '../select/need.ts';
import type { Health } from '../select/ranking.ts';
import type { Upstream } from '../node/upstream.ts';

/** A failed attempt. `blame`: `node`, the node is at fault; `doubt`, a probe decides. */
export interface FailedAttempt {
  readonly kind: FailureKind;
  readonly cause: string;
  readonly blame: 'none' | 'doubt' | 'node';
}

/** Records an answer of any status. */
export function recordAnswer(parts: SenderParts, upstream: Upstream, status: number, elapsedMs: number): void {
  const before = upstream.health;
  upstream.recordAnswer(elapsedMs, performance.now());
  parts.metrics.observeAnswer(upstream.name, status, elapsedMs / 1000);
  noteHealth(parts, upstream, before);
}

/** Records an attempt without a usable answer. */
export function recordFailure(
  parts: SenderParts,
  upstream: Upstream,
  elapsedMs: number,
  { kind, cause, blame }: FailedAttempt,
): void {
  const { metrics, log, onDoubt } = parts;
  metrics.observeFailure(upstream.name, kind, elapsedMs / 1000);
  log.debug({ upstream: upstream.name, kind, cause }, 'attempt failed');
  const before = upstream.health;
  if (blame === 'node') upstream.recordFailure(elapsedMs, performance.now());
  if (blame === 'doubt') {
    upstream.recordDoubt(elapsedMs, performance.now());
    onDoubt(upstream);
  }
  noteHealth(parts, upstream, before, { kind, cause });
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

/** Reports a change of the node's health from `before`. `cause`: further fields of the log line. */
export function noteHealth(
  { fleet, log }: Pick<SenderParts, 'fleet' | 'log'>,
  { name, health, isRemoved }: Upstream,
  before: Health,
  cause: object = {},
): void {
  if (health === before || isRemoved) return;
  fleet.refresh();
  const change = health === 'usable' ? 'node usable' : 'node down';
  log.record(change, { upstream: name, health, ...cause }, `upstream is ${health}`);
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
