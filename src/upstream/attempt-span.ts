/** The span of one attempt (docs/tracing.md). */
import type { FailureKind } from '../metrics/upstream-metrics.ts';
import type { Span } from '../trace/span.ts';
import type { AttemptHistory } from './attempt-history.ts';
import type { AnswerClass } from './classify.ts';
import type { FleetRequest } from './fleet-request.ts';
import type { Upstream } from './upstream.ts';

/** Why a node is asked. `... elsewhere`: the answer of the node before it. */
export type Reason =
  | 'first choice'
  | 'hedge'
  | 'retry'
  | 'again after waiting'
  | `${'pruned' | 'behind' | 'absent' | 'refused'} elsewhere`;

/** Why the next node is asked, unless it is a hedge. */
export function reasonOf({ isRepeating, last }: AttemptHistory): Reason {
  if (last === undefined) return 'first choice';
  if (isRepeating && last.kind === 'behind') return 'again after waiting';
  return last.kind === 'failed' ? 'retry' : `${last.kind} elsewhere`;
}

/** Begins with the wait for a connection and ends with the answer; of a streamed one, with its head. */
export function attemptSpan(
  { span, wire }: FleetRequest,
  upstream: Upstream,
  reason: Reason,
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
 * Ends the span. `cancelled`: another node has answered, or the client has gone. A node that has pruned a version, or has
 * not got there, has not failed.
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
