/**
 * Classes of node answers: the fleet's answer, or a fact about that node only. Status and `error_code` decide; message
 * text does only for errors that have nothing better (protocol 10).
 */
import { JsonBody } from '../../ledger/json-body.ts';
import type { HeaderValues } from '../../ledger/ledger-headers.ts';
import type { Need } from '../select/need.ts';
import type { CheckedAnswer } from './validate.ts';

/** The meaning of one node's answer for the call. */
export type AnswerClass =
  /** The fleet's answer. */
  | 'final'
  /** The node no longer holds the version: another may. */
  | 'pruned'
  /** The node has not reached the version yet: another may have. */
  | 'behind'
  /** The node does not hold the transaction: a deeper one may, or one with another mempool (protocol 7 and 8). */
  | 'absent'
  /** The node's configuration forbids the request: another's may not. */
  | 'refused'
  /** The node is broken, overloaded, or of another kind: another may be better. */
  | 'failed';

/** An answer that was read whole. */
export interface WholeAnswer {
  readonly status: number;
  readonly body: Buffer;
  /** The parsed body, when the caller has it. */
  readonly json?: JsonBody;
}

/** `error_code` of an unhealthy node (protocol 9): final for a health check, a failure for every other request. */
export const healthCheckFailed = 'health_check_failed';

/**
 * Classifies a valid answer that was read whole (`validateAnswer`). `isHealthCheck`: the request asks for the health of a
 * node.
 */
export function classifyAnswer(answer: WholeAnswer, need: Need, isHealthCheck = false): AnswerClass {
  if (answer.status < 300) return 'final';
  const error = errorOf(answer);
  switch (answer.status) {
    case 410:
      return 'pruned';
    case 404:
      if (need.kind === 'version' && aboveHead.has(error?.code ?? '')) return 'behind';
      if (error?.code === 'block_not_found' && need.kind === 'block') return 'behind';
      // A body without a readable code may have had that one.
      return need.kind === 'transaction' && (error === undefined || error.code === 'transaction_not_found')
        ? 'absent'
        : 'final';
    case 403:
      return error?.code === 'api_disabled' ? 'refused' : 'final';
    case 500:
      return need.kind !== 'head' && error !== undefined && prunedPhrase.test(error.message) ? 'pruned' : 'failed';
    case 408:
    case 429:
      return 'failed';
    default:
      // The client chose the ledger age that counts as unhealthy, so another node would answer no better.
      if (isHealthCheck && error?.code === healthCheckFailed) return 'final';
      return answer.status > 500 && answer.status !== 507 ? 'failed' : 'final';
  }
}

/** Codes for a version above the node's head: for the state there, the block of it, and its transaction (protocol 3). */
const aboveHead = new Set(['version_not_found', 'block_not_found', 'transaction_not_found']);

/** The `error_code` of a node's error body; `undefined` for any other body. */
export function errorCodeOf(answer: WholeAnswer): string | undefined {
  return errorOf(answer)?.code;
}

function errorOf({ body, json = new JsonBody(body) }: WholeAnswer) {
  // Error bodies of nodes are small.
  if (body.length > 64 * 1024) return undefined;
  const { error_code: code, message } = json.members;
  return typeof code === 'string' ? { code, message: typeof message === 'string' ? message : '' } : undefined;
}

/** A refusal of one request too many, without work on it. */
export interface Shedding {
  /** The wait that the node asks for, in ms; `undefined`: the answer has no readable one. */
  readonly retryAfterMs: number | undefined;
  /** The node itself answered; a proxy in front of it may have given the other answers. */
  readonly isOfNode: boolean;
}

const sheddingCodes = new Set(['overloaded', 'rate_limited']);

/**
 * Recognises shedding: HTTP 429, `overloaded` or `rate_limited` (protocol 3.5), a 5xx with ledger headers, or a 503 with
 * `Retry-After` (RFC 9110 10.2.3). `epochMs`: the wall clock, for a date in `Retry-After`.
 */
export function findShedding(answer: CheckedAnswer, epochMs: number): Shedding | undefined {
  const { status, headers, info, body } = answer;
  // A client can provoke a 500 at every node; the mempool answers one for a sender's submissions (protocol 3.5).
  if (status !== 429 && status <= 500) return undefined;
  const retryAfterMs = findRetryAfter(headers['retry-after'], epochMs);
  if (status === 429) return { retryAfterMs, isOfNode: true };
  const code = body === undefined ? undefined : errorCodeOf({ ...answer, body });
  if (code === healthCheckFailed) return undefined;
  const isOfNode = info !== undefined || sheddingCodes.has(code ?? '');
  return isOfNode || (status === 503 && retryAfterMs !== undefined) ? { retryAfterMs, isOfNode } : undefined;
}

/**
 * Phrases of newer and older nodes ("Ledger version(5) has been pruned", "... at version 5 is pruned, min
 * available version is 100.", protocol 3.1 and 7). "pruned" alone proves nothing: messages repeat text of clients, such
 * as the name of a function.
 */
const prunedPhrase = /\b(?:version|block) ?\(?\d{1,20}\)? (?:has been pruned|is pruned\b)/i;

const seconds = /^\d{1,9}$/;
/** An HTTP date begins with the day of the week and has 29 characters, older forms a few more (RFC 9110 5.6.7). */
const date = /^[A-Z][a-z]{2,8},? .{1,32}$/;

function findRetryAfter(value: HeaderValues[string], epochMs: number): number | undefined {
  if (typeof value !== 'string') return undefined;
  if (seconds.test(value)) return Number(value) * 1000;
  // The oldest form names no zone, and would be read in the zone of this process.
  const atMs = date.test(value) ? Date.parse(`${value} GMT`) : NaN;
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - epochMs);
}
