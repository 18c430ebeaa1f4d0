/**
 * Validates answers: a broken balancer, a captive portal or a broken node may answer 200, or 404 to everything. An
 * invalid answer is never passed on; another node is asked.
 */
import { findForm, type AnswerForm, type JsonBody } from '../../ledger/answer-body.ts';
import {
  headerOf,
  ledgerHeaderFault,
  type Dialect,
  type HeaderValues,
  type LedgerInfo,
} from '../../ledger/ledger-headers.ts';
import { isFramed } from './exchange.ts';
import type { Need } from '../select/need.ts';

/** The form of a success that the request admits. */
export type PromisedForm = AnswerForm | 'either';

/** Reason why an answer is no node's answer to the request; the cause in log lines. */
export type InvalidAnswerReason =
  | 'no ledger headers'
  | 'absurd ledger headers'
  /** The node has not reached the version or block of its answer. */
  | 'version not reached'
  | 'other form'
  | 'not JSON'
  /** The body has neither length nor chunks, so it may be incomplete. */
  | 'unframed body'
  /** A redirect, a demand for credentials, a page: a proxy before the node answered. */
  | 'no error of a node';

/** An answer; without `body` and `json`, the head of a streamed one. */
export interface CheckedAnswer {
  readonly status: number;
  readonly headers: HeaderValues;
  readonly info: LedgerInfo | undefined;
  readonly body?: Buffer;
  readonly json?: JsonBody;
}

/** The properties of the request that the validity of its answer depends on. */
export interface Expected {
  readonly need: Need;
  readonly isHead: boolean;
  /** The request has a condition, which 304 may answer. */
  readonly isConditional: boolean;
  /** The request has a body, which a node may find too large. */
  readonly hasBody: boolean;
  readonly promised: PromisedForm | undefined;
}

/** Why the answer is invalid; `undefined`: valid. `classifyAnswer` gives the meaning of a node's own errors. */
export function validateAnswer(
  answer: CheckedAnswer,
  expected: Expected,
  dialect: Dialect,
): InvalidAnswerReason | undefined {
  if (answer.status >= 300) return isOfNode(answer, expected) ? undefined : 'no error of a node';
  return answer.status < 200 ? undefined : (headFault(answer, expected, dialect) ?? bodyFault(answer, expected));
}

/** Whether an error is the node's own, and not of a proxy before it (protocol 3). */
function isOfNode(answer: CheckedAnswer, expected: Expected): boolean {
  const { status, json } = answer;
  if (expected.promised === undefined || status >= 500 || ofNodeOrProxy.has(status)) return true;
  if (status === 304) return expected.isConditional;
  if (status < 400 || status === 401 || status === 407) return false;
  return json === undefined || !hasCode(answer, expected) || typeof json.members['error_code'] === 'string';
}

/**
 * Whether a node would have put an `error_code` into the body: always, except with 413 (protocol 2.3 and 3.5). Ledger
 * headers do not replace it: an error whose body was lost or cut must not decide that the ledger lacks the data.
 */
function hasCode({ status }: CheckedAnswer, expected: Expected): boolean {
  if (expected.isHead || (status === 413 && expected.hasBody)) return false;
  return isOwnRead(expected) || (settling.has(status) && expected.need.kind !== 'head');
}

/** Statuses by which the ledger does not have a version, block or hash. */
const settling = new Set([404, 410]);

/** Statuses of nodes and of proxies that are never final (`classifyAnswer`). */
const ofNodeOrProxy = new Set([408, 429]);

/** A read in one form, with no part that the client chose freely, has a closed set of valid answers. */
function isOwnRead({ promised }: Expected): boolean {
  return promised === 'json' || promised === 'bcs';
}

function headFault(
  answer: CheckedAnswer,
  { need, promised }: Expected,
  dialect: Dialect,
): InvalidAnswerReason | undefined {
  if (promised === undefined) return undefined;
  // Every success of a ledger read carries ledger headers (protocol 2.1).
  if (answer.info === undefined) {
    return ledgerHeaderFault(answer.headers, dialect) === 'absurd' ? 'absurd ledger headers' : 'no ledger headers';
  }
  if (need.kind === 'version' && need.version > answer.info.version) return 'version not reached';
  if (need.kind === 'block' && need.height > answer.info.blockHeight) return 'version not reached';
  const form = findForm(headerOf(answer.headers, 'content-type'));
  return form === undefined || (promised !== 'either' && promised !== form) ? 'other form' : undefined;
}

/** Validates a body that was read whole; a streamed one is valid by its announced length alone. */
function bodyFault(answer: CheckedAnswer, { promised, isHead }: Expected): InvalidAnswerReason | undefined {
  const { status, body, json, headers } = answer;
  if (isHead || status !== 200) return undefined;
  const isCertain = promised === undefined || isFramed(headers);
  if (body === undefined || json === undefined) return isCertain ? undefined : 'unframed body';
  const promisesJson = findForm(headerOf(answer.headers, 'content-type')) !== 'bcs';
  if (promisesJson && !(json.isOpaque ? looksLikeJson(body) : json.isJson)) return 'not JSON';
  return isCertain || (promisesJson && json.isClosed) ? undefined : 'unframed body';
}

const opening = new Set(Buffer.from('{["-0123456789tfn'));
const closing = new Set(Buffer.from('}]"0123456789el'));

/** Checks first and last byte: detects pages and most cut bodies without a parse, which would block the event loop. */
function looksLikeJson(body: Buffer): boolean {
  let end = body.length - 1;
  while (end >= 0 && isSpace(body[end])) end -= 1;
  let start = 0;
  while (start < end && isSpace(body[start])) start += 1;
  return end >= 0 && opening.has(body[start] ?? 0) && closing.has(body[end] ?? 0);
}

function isSpace(byte: number | undefined): boolean {
  return byte === 32 || byte === 10 || byte === 13 || byte === 9;
}
