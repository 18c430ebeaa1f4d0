/**
 * Judges nodes' answers. An invalid answer is no node's answer to the request: a broken balancer, a captive portal or a
 * broken node may answer 200, or 404 to everything. It is never passed on, and another node is asked. A valid one is
 * the fleet's answer, or a fact about that node only. Status and `error_code` decide; message text does only for errors
 * that have nothing better (protocol 10).
 */
import {
  type AnswerContent,
  AnswerForm,
  conditions,
  type Dialect,
  headerOf,
  type HeaderValues,
  JsonBody,
} from '../../ledger/index.ts';
import type { Shedding } from '../node/circuits.ts';
import type { Need } from '../select/ranking.ts';
import type { FleetRequest, PromisedForm } from './fleet-request.ts';
import { isFramed, type AnswerHead, type NodeAnswer } from './exchange.ts';

/** Reason why an answer is no node's answer to the request; the cause in log lines. */
export type InvalidAnswerReason =
  | 'no ledger headers'
  | 'absurd ledger headers'
  | 'head below oldest'
  /** The node has not reached the version or block of its answer. */
  | 'version not reached'
  | 'other form'
  /** A success that no read has: its body may be empty, or a part. */
  | 'other success'
  /** The body is an error of a node, or of another request. */
  | 'other content'
  | 'not JSON'
  /** The body has neither length nor chunks, so it may be incomplete. */
  | 'unframed body'
  /** A redirect, a demand for credentials, a page: a proxy before the node answered. */
  | 'no error of a node';

/** Without `body` and `json`: the head of a streamed answer. */
type CheckedAnswer = Pick<AnswerHead, 'status' | 'headers' | 'info'> & Partial<Pick<NodeAnswer, 'body' | 'json'>>;

/** The part of an answer by which its error is classified. */
export type AnswerOfError = Pick<CheckedAnswer, 'status' | 'body' | 'json'>;

type AskedRequest = Pick<FleetRequest, 'need' | 'promised' | 'wire' | 'isIdempotent' | 'isContent'>;

/**
 * Why the answer is invalid; `undefined`: it is valid, as every answer to a request that is not idempotent, because no
 * other node may be asked.
 */
export function validateAnswer(
  answer: CheckedAnswer,
  request: AskedRequest,
  dialect: Dialect,
): InvalidAnswerReason | undefined {
  const { promised, isIdempotent } = request;
  if (!isIdempotent || promised === undefined) return undefined;
  if (answer.status >= 300) return isOfNode(answer, request) ? undefined : 'no error of a node';
  if (answer.status < 200) return undefined;
  return headFault(answer, request.need, promised, dialect) ?? bodyFault(answer, request);
}

/** Whether an error is the node's own, and not of a proxy before it (protocol 3). */
function isOfNode(answer: CheckedAnswer, request: AskedRequest): boolean {
  const { status, json } = answer;
  if (status >= 500 || ofNodeOrProxy.has(status)) return true;
  if (status === 304) return conditions.some((name) => Object.hasOwn(request.wire.headers, name));
  if (status < 400 || status === 401 || status === 407) return false;
  return json === undefined || !hasCode(status, request) || typeof json.members['error_code'] === 'string';
}

/**
 * Whether a node would have put an `error_code` into the body: always, except with 413 (protocol 2.3 and 3.5). Ledger
 * headers do not replace it: an error whose body was lost or cut must not decide that the ledger lacks the data.
 */
function hasCode(status: number, { wire, promised, need }: AskedRequest): boolean {
  if (wire.method === 'HEAD' || (status === 413 && wire.body !== undefined)) return false;
  // A read in one form, with no part that the client chose freely, has a closed set of valid answers.
  return promised === 'json' || promised === 'bcs' || (settling.has(status) && need.kind !== 'head');
}

/** Statuses by which the ledger does not have a version, block or hash. */
const settling = new Set([404, 410]);

/** Never final (`classifyAnswer`). */
const ofNodeOrProxy = new Set([408, 429]);

function headFault(
  answer: CheckedAnswer,
  need: Need,
  promised: PromisedForm,
  dialect: Dialect,
): InvalidAnswerReason | undefined {
  // Every success of a ledger read carries ledger headers (protocol 2.1).
  if (answer.info === undefined) {
    const fault = dialect.faultOf(answer.headers);
    if (fault === 'below oldest') return 'head below oldest';
    return fault === 'absurd' ? 'absurd ledger headers' : 'no ledger headers';
  }
  if (need.kind === 'version' && need.version > answer.info.version) return 'version not reached';
  if (need.kind === 'block' && need.height > answer.info.blockHeight) return 'version not reached';
  // Reads are answered with 200 alone: 202 and 206 are of submissions (protocol 1).
  if (answer.status !== 200) return 'other success';
  const form = AnswerForm.find(headerOf(answer.headers, 'content-type'));
  return form === undefined || (promised !== 'either' && promised !== form) ? 'other form' : undefined;
}

/** Validates a body that was read whole; a streamed one is valid by its announced length alone. */
function bodyFault(answer: CheckedAnswer, { wire, isContent }: AskedRequest): InvalidAnswerReason | undefined {
  const { body, json, headers, info } = answer;
  if (wire.method === 'HEAD') return undefined;
  const isCertain = isFramed(headers);
  if (body === undefined || json === undefined) return isCertain ? undefined : 'unframed body';
  const form = AnswerForm.find(headerOf(answer.headers, 'content-type')) === 'bcs' ? 'bcs' : 'json';
  const isJson = form === 'json';
  if (isJson && !(json.isOpaque ? looksLikeJson(body) : json.isJson)) return 'not JSON';
  const isContentOf = isContent ?? isNoError;
  if (info !== undefined && !isContentOf({ form, body, json }, info)) return 'other content';
  return isCertain || (isJson && json.isClosed) ? undefined : 'unframed body';
}

/** Errors are JSON in either form (protocol 2.3). */
function isNoError({ form, json }: AnswerContent): boolean {
  return form === 'bcs' || !json.isError;
}

const opening = new Set(Buffer.from('{["-0123456789tfn'));
const closing = new Set(Buffer.from('}]"0123456789el'));

/** Checks first and last byte: detects pages and most cut bodies without a parse, which would block the event loop. */
function looksLikeJson(body: Buffer): boolean {
  let end = body.length - 1;
  while (isSpace(body[end])) end -= 1;
  let start = 0;
  while (isSpace(body[start])) start += 1;
  return opening.has(body[start] ?? 0) && closing.has(body[end] ?? 0);
}

function isSpace(byte: number | undefined): boolean {
  return byte === 32 || byte === 10 || byte === 13 || byte === 9;
}

/** The meaning of one node's answer for the call. */
export type AnswerClass =
  | 'final'
  /** The node no longer holds the version: another may. */
  | 'pruned'
  /** The node has not reached the version yet: another may have. */
  | 'behind'
  /** The node does not hold the transaction: a deeper one may, or one with another mempool (protocol 7 and 8). */
  | 'absent'
  /** The node's configuration forbids the request, or it knows no such route (`isUnknownRoute`): another may answer. */
  | 'refused'
  /** The node is broken, overloaded, or of another kind: another may be better. */
  | 'failed';

/** `error_code` of an unhealthy node (protocol 9): final for a health check, a failure for every other request. */
const healthCheckFailed = 'health_check_failed';

/** Classifies a valid answer that was read whole (`validateAnswer`). */
export function classifyAnswer(answer: AnswerOfError, need: Need, isHealthCheck = false): AnswerClass {
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
export function errorCodeOf(answer: AnswerOfError): string | undefined {
  return errorOf(answer)?.code;
}

function errorOf({ body, json }: AnswerOfError) {
  // Error bodies of nodes are small.
  if (body === undefined || body.length > 64 * 1024) return undefined;
  const { error_code: code, message } = (json ?? new JsonBody(body)).members;
  return typeof code === 'string' ? { code, message: typeof message === 'string' ? message : '' } : undefined;
}

/**
 * Whether the node's router knows no such route (protocol 2.2). To a target that the gateway formed, its base path is wrong
 * or its software older: it decides nothing about the ledger, and proves no node of one.
 */
export function isUnknownRoute(answer: AnswerOfError): boolean {
  return (answer.status === 404 || answer.status === 405) && errorCodeOf(answer) === 'web_framework_error';
}

const sheddingCodes = new Set(['overloaded', 'rate_limited']);

/**
 * HTTP 429, `overloaded` or `rate_limited` (protocol 3.5), a 5xx with ledger headers, or a 503 with `Retry-After` (RFC
 * 9110 10.2.3). `epochMs`: the wall clock, for a date in `Retry-After`.
 */
export function findShedding(answer: CheckedAnswer, epochMs: number): Shedding | undefined {
  const { status, headers, info } = answer;
  // A client can provoke a 500 at every node; the mempool answers one for a sender's submissions (protocol 3.5).
  if (status !== 429 && status <= 500) return undefined;
  const retryAfterMs = findRetryAfter(headers['retry-after'], epochMs);
  if (status === 429) return { retryAfterMs, isOfNode: true };
  const code = errorCodeOf(answer);
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
  // The oldest form ends with its year, names no zone, and would be read in the zone of this process.
  const atMs = date.test(value) ? Date.parse(/ \d{4}$/.test(value) ? `${value} GMT` : value) : NaN;
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - epochMs);
}
