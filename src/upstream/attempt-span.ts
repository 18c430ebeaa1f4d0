/** What a trace tells of one attempt. */
import type { FailureKind } from '../metrics/upstream-metrics.ts';
import type { Span } from '../trace/span.ts';
import type { FleetRequest } from './sender.ts';
import type { Upstream } from './upstream.ts';
import type { Verdict } from './verdict.ts';

/** Why a node is asked. `... elsewhere`: that is what the node before it said. */
export type Reason =
  | 'first choice'
  | 'hedge'
  | 'retry'
  | 'again after waiting'
  | `${'pruned' | 'behind' | 'absent' | 'refused'} elsewhere`;

export interface Chosen {
  readonly upstream: Upstream;
  readonly reason: Reason;
  /** Attempts before this one. */
  readonly number: number;
}

/** `cancelled`: another node has answered, or nobody waits any more. */
export interface AttemptEnd {
  readonly verdict: Verdict | 'cancelled';
  readonly kind?: FailureKind | 'unsendable' | undefined;
  readonly status?: number;
}

/** Begins with the wait for a connection and ends with the answer; of one that is handed on as it comes, with its head. */
export function attemptSpan({ span, wire }: FleetRequest, { upstream, reason, number }: Chosen): Span | undefined {
  return span?.begin('attempt', {
    kind: 'client',
    attributes: {
      'http.request.method': wire.method,
      'ledgergate.upstream': upstream.name,
      'ledgergate.attempt.reason': reason,
      ...(number === 0 ? {} : { 'http.request.resend_count': number }),
    },
  });
}

/** A node that no longer holds a version, or has not got there, has not failed: only what is broken is an error. */
export function endAttempt(span: Span | undefined, { verdict, kind, status }: AttemptEnd): void {
  if (span === undefined) return;
  span.note({ 'ledgergate.attempt.verdict': verdict, 'http.response.status_code': status });
  if (kind !== undefined) span.fail(kind);
  span.end();
}
