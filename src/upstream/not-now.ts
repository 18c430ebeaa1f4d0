/**
 * Whether a node refused a request only because it has too many now: HTTP 429, `overloaded` or `rate_limited`
 * (protocol 3.5), a 5xx with ledger headers, or a 503 with `Retry-After` (RFC 9110 10.2.3).
 */
import type { HeaderValues, LedgerInfo } from '../ledger/ledger-headers.ts';
import { errorCodeOf, healthCheckFailed, type Judged } from './verdict.ts';

/** A refusal: the node did not work on the request. */
export interface NotNow {
  /** The wait that the node asks for, in ms; `undefined`: the answer names none that can be read. */
  readonly retryAfterMs: number | undefined;
  /** The node itself answered. Something in front of the node may have given the others. */
  readonly isOfNode: boolean;
}

export interface Refused {
  readonly status: number;
  readonly headers: HeaderValues;
  readonly info: LedgerInfo | undefined;
  /** Absent while it is still coming. */
  readonly body?: Buffer;
  readonly json?: Judged['json'];
}

const sheddingCodes = new Set(['overloaded', 'rate_limited']);

/** `undefined`: the answer is no such refusal. `epochMs`: the wall clock, which an HTTP date is held against. */
export function findNotNow(answer: Refused, epochMs: number): NotNow | undefined {
  const { status, headers, info, body, json } = answer;
  // A client can provoke a 500 at every node; the mempool answers one for what one sender submits (protocol 3.5).
  if (status !== 429 && status <= 500) return undefined;
  const retryAfterMs = findRetryAfter(headers['retry-after'], epochMs);
  if (status === 429) return { retryAfterMs, isOfNode: true };
  const code = body === undefined ? undefined : errorCodeOf({ status, body, ...(json === undefined ? {} : { json }) });
  if (code === healthCheckFailed) return undefined;
  const isOfNode = info !== undefined || sheddingCodes.has(code ?? '');
  return isOfNode || (status === 503 && retryAfterMs !== undefined) ? { retryAfterMs, isOfNode } : undefined;
}

const seconds = /^\d{1,9}$/;
/** An HTTP date begins with the day of the week and has 29 characters, older forms a few more (RFC 9110 5.6.7). */
const date = /^[A-Z][a-z]{2,8},? .{1,32}$/;

function findRetryAfter(value: HeaderValues[string], epochMs: number): number | undefined {
  if (typeof value !== 'string') return undefined;
  if (seconds.test(value)) return Number(value) * 1000;
  const atMs = date.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - epochMs);
}
