/**
 * Validates answers: a broken balancer, a captive portal or a node in trouble answer 200 as well, or 404 to everything.
 * An invalid answer is never passed on; another node is asked.
 */
import { findForm, type AnswerForm } from '../../ledger/answer-form.ts';
import type { JsonBody } from '../../ledger/json-body.ts';
import { ledgerHeaderFault, type Dialect, type HeaderValues, type LedgerInfo } from '../../ledger/ledger-headers.ts';
import { isFramed } from './exchange.ts';
import type { Need } from '../select/need.ts';

/** The form of a success: an answer from the ledger, in one form or in either. */
export type PromisedForm = AnswerForm | 'either';

/** Why an answer cannot be a node's answer to the request. */
export type InvalidAnswerReason =
  | 'no ledger headers'
  | 'absurd ledger headers'
  /** Its node has not got to the version or block that it claims to answer for. */
  | 'version not reached'
  | 'other form'
  | 'not JSON'
  /** Nothing tells whether the body is whole. */
  | 'unframed body'
  /** A redirect, a demand for credentials, a page: a proxy before the node answered. */
  | 'no error of a node';

/** An answer, or the head of one whose body is still to come. */
export interface CheckedAnswer {
  readonly status: number;
  readonly headers: HeaderValues;
  readonly info: LedgerInfo | undefined;
  readonly body?: Buffer;
  readonly json?: JsonBody;
}

/** The request, as far as the validity of its answer depends on it. */
export interface ExpectedAnswer {
  readonly need: Need;
  readonly isHead: boolean;
  /** The node got a condition with it, which 304 may answer. */
  readonly isConditional: boolean;
  /** The request has a body, which a node may find too large. */
  readonly hasBody: boolean;
  readonly promised: PromisedForm | undefined;
}

/** Why the answer is invalid; the meaning of a node's own errors is for `classify.ts`. */
export function validateAnswer(
  answer: CheckedAnswer,
  asked: ExpectedAnswer,
  dialect: Dialect,
): InvalidAnswerReason | undefined {
  if (answer.status >= 300) return isOfNode(answer, asked) ? undefined : 'no error of a node';
  return answer.status < 200 ? undefined : (headFault(answer, asked, dialect) ?? bodyFault(answer, asked));
}

/** Whether an error is the node's own, and not of a proxy before it (protocol 3). */
function isOfNode(answer: CheckedAnswer, asked: ExpectedAnswer): boolean {
  const { status, json } = answer;
  if (asked.promised === undefined || status >= 500 || ofNodeOrProxy.has(status)) return true;
  if (status === 304) return asked.isConditional;
  if (status < 400 || status === 401 || status === 407) return false;
  return json === undefined || !hasCode(answer, asked) || typeof json.members['error_code'] === 'string';
}

/**
 * Whether a node would have put an `error_code` into the body: always, but for 413 (protocol 2.3 and 3.5). Ledger
 * headers do not replace it: a body that was lost or cut behind them must not settle what another node holds.
 */
function hasCode({ status }: CheckedAnswer, asked: ExpectedAnswer): boolean {
  if (asked.isHead || (status === 413 && asked.hasBody)) return false;
  return isOwnRead(asked) || (settling.has(status) && asked.need.kind !== 'head');
}

/** Statuses that settle, for a version, a block or a hash, that the ledger does not have it. */
const settling = new Set([404, 410]);

/** Statuses that a proxy may give as well as a node, and that are never the answer (`classify.ts`). */
const ofNodeOrProxy = new Set([408, 429]);

/** A read in one form, with nothing of the client's own in it, has a closed set of valid answers. */
function isOwnRead({ promised }: ExpectedAnswer): boolean {
  return promised === 'json' || promised === 'bcs';
}

function headFault(
  answer: CheckedAnswer,
  { need, promised }: ExpectedAnswer,
  dialect: Dialect,
): InvalidAnswerReason | undefined {
  if (promised === undefined) return undefined;
  // Every success of a ledger read carries ledger headers (protocol 2.1).
  if (answer.info === undefined) {
    return ledgerHeaderFault(answer.headers, dialect) === 'absurd' ? 'absurd ledger headers' : 'no ledger headers';
  }
  if (need.kind === 'version' && need.version > answer.info.version) return 'version not reached';
  if (need.kind === 'block' && need.height > answer.info.blockHeight) return 'version not reached';
  const form = findForm(contentTypeOf(answer));
  return form === undefined || (promised !== 'either' && promised !== form) ? 'other form' : undefined;
}

/** Validates a body that was read whole. One that is still coming is valid by its announced length alone. */
function bodyFault(answer: CheckedAnswer, { promised, isHead }: ExpectedAnswer): InvalidAnswerReason | undefined {
  const { status, body, json, headers } = answer;
  if (isHead || status !== 200) return undefined;
  const isCertain = promised === undefined || isFramed(headers);
  if (body === undefined || json === undefined) return isCertain ? undefined : 'unframed body';
  const promisesJson = findForm(contentTypeOf(answer)) !== 'bcs';
  if (promisesJson && !(json.isOpaque ? looksLikeJson(body) : json.isJson)) return 'not JSON';
  return isCertain || (promisesJson && json.isClosed) ? undefined : 'unframed body';
}

function contentTypeOf({ headers }: CheckedAnswer): string | undefined {
  const contentType = headers['content-type'];
  return typeof contentType === 'string' ? contentType : undefined;
}

const opening = new Set(Buffer.from('{["-0123456789tfn'));
const closing = new Set(Buffer.from('}]"0123456789el'));

/** Checks first and last byte alone: finds pages and most cut-off bodies where a parse would hold up all requests. */
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
