/** Records attempts in the state of their node, in metrics, log and traces (docs/tracing.md). */
import type { FailureKind, UpstreamMetrics } from '../../metrics/upstream-metrics.ts';
import type { Span } from '../../trace/span.ts';
import type { AttemptReason } from './attempt-history.ts';
import type { AnswerClass, Shedding } from './classify.ts';
import type { Fleet } from '../fleet.ts';
import type { FleetRequest, UpstreamLog } from './fleet-request.ts';
import type { ReadClass } from '../select/need.ts';
import type { Health } from '../select/ranking.ts';
import type { Upstream } from '../node/upstream.ts';

/** Parts of an `AttemptRecorder`. */
export interface AttemptRecorderParts {
  readonly fleet: Fleet;
  readonly metrics: UpstreamMetrics;
  readonly log: UpstreamLog;
  /**
   * Looks at the node's ledger info: the request or a proxy may be at fault for a failure, or an answer reports another
   * chain. The returned promise settles when the look is done, and never rejects.
   */
  readonly onDoubt: (upstream: Upstream) => unknown;
}

/** A failed attempt. `blame`: `node`, the node is at fault; `doubt`, a probe decides. */
export interface FailedAttempt {
  readonly kind: FailureKind;
  readonly cause: string;
  readonly blame: 'none' | 'doubt' | 'node';
}

/** Records the attempts of one process. */
export class AttemptRecorder {
  readonly #parts: AttemptRecorderParts;

  constructor(parts: AttemptRecorderParts) {
    this.#parts = parts;
  }

  /** Records an answer of any status. */
  answered(upstream: Upstream, status: number, elapsedMs: number): void {
    const before = upstream.health;
    upstream.recordAnswer(elapsedMs, performance.now());
    this.#parts.metrics.observeAnswer(upstream.name, status, elapsedMs / 1000);
    this.#noteHealth(upstream, before, {});
  }

  /** Records an attempt without a usable answer. */
  failed(upstream: Upstream, elapsedMs: number, { kind, cause, blame }: FailedAttempt): void {
    const { metrics, log, onDoubt } = this.#parts;
    metrics.observeFailure(upstream.name, kind, elapsedMs / 1000);
    log.debug({ upstream: upstream.name, kind, cause }, 'attempt failed');
    const before = upstream.health;
    if (blame === 'node') upstream.recordFailure(elapsedMs, performance.now());
    if (blame === 'doubt') {
      upstream.recordDoubt(elapsedMs, performance.now());
      onDoubt(upstream);
    }
    this.#noteHealth(upstream, before, { kind, cause });
  }

  /** Records an answer's time, which delays hedges, bounds requests in flight, and ends deferral and ejection. */
  time(upstream: Upstream, startedMs: number, elapsedMs: number, isLook: boolean, readClass?: ReadClass): void {
    const { name, latencies, deferral, places, ejections } = upstream;
    const nowMs = performance.now();
    if (isLook) latencies.look.record(elapsedMs, nowMs);
    else deferral.answered(startedMs);
    if (readClass === undefined) return;
    latencies[readClass].record(elapsedMs, nowMs);
    places.observe(readClass, elapsedMs, nowMs);
    if (!ejections[readClass].answered(nowMs)) return;
    this.#parts.log.record('back', { upstream: name, readClass }, 'upstream answers reads of the class again');
  }

  /** Records that the node shed a request: its concurrency limit falls, and the others are asked first for a moment. */
  shed({ name, places, deferral }: Upstream, sentAtMs: number, shedding: Shedding): void {
    const { metrics, log } = this.#parts;
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

  #noteHealth(upstream: Upstream, before: Health, cause: object): void {
    const { name, health } = upstream;
    if (health === before) return;
    this.#parts.fleet.refresh();
    if (health === 'down') this.#parts.log.record('node down', { upstream: name, ...cause }, 'upstream is down');
    else this.#parts.log.record('node usable', { upstream: name, health }, `upstream is ${health}`);
  }
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
