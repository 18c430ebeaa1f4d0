/**
 * Whether an answer is what a node of the ledger would have said: a broken balancer, a captive portal or a node in
 * trouble answer 200 as well, or 404 to everything. What is wrong here is never passed on; another node is asked.
 */
import { findForm, type AnswerForm } from '../ledger/answer-form.ts';
import type { JsonBody } from '../ledger/json-body.ts';
import { ledgerHeaderFault, type Dialect, type HeaderValues, type LedgerInfo } from '../ledger/ledger-headers.ts';
import { isFramed } from './exchange.ts';
import type { Need } from './need.ts';

/** What a success has to be: an answer from the ledger, in one form or in either. */
export type Promised = AnswerForm | 'either';

export type AnswerFault =
  | 'no ledger headers'
  | 'absurd ledger headers'
  /** Its node has not got to the version or block that it claims to answer for. */
  | 'version not reached'
  | 'other form'
  | 'not JSON'
  /** Nothing tells whether the body is whole. */
  | 'unframed body'
  /** A 404 without a code: it says of something before the node that it has no such page. */
  | 'no error of a node';

/** An answer, or the head of one whose body is still to come. */
export interface Answered {
  readonly status: number;
  readonly headers: HeaderValues;
  readonly info: LedgerInfo | undefined;
  readonly body?: Buffer;
  readonly json?: JsonBody;
}

export interface Asked {
  readonly need: Need;
  readonly isHead: boolean;
  readonly promised: Promised | undefined;
}

/** What is wrong with an answer; most errors are for `verdict.ts` to judge. */
export function findFault(answer: Answered, asked: Asked, dialect: Dialect): AnswerFault | undefined {
  const { status, json, headers } = answer;
  // One that is compressed unasked cannot be looked into.
  if (status === 404 && isOwnRead(asked) && json !== undefined && headers['content-encoding'] === undefined) {
    return typeof json.members['error_code'] === 'string' ? undefined : 'no error of a node';
  }
  if (status < 200 || status >= 300) return undefined;
  return headFault(answer, asked, dialect) ?? bodyFault(answer, asked);
}

/** Asked for in one form, with nothing of the client's own in it: what such a read may be answered is known. */
function isOwnRead({ promised }: Asked): boolean {
  return promised === 'json' || promised === 'bcs';
}

function headFault(answer: Answered, { need, promised }: Asked, dialect: Dialect): AnswerFault | undefined {
  if (promised === undefined) return undefined;
  // What reads the ledger tells of it in every success (protocol 2.1).
  if (answer.info === undefined) {
    return ledgerHeaderFault(answer.headers, dialect) === 'absurd' ? 'absurd ledger headers' : 'no ledger headers';
  }
  if (need.kind === 'version' && need.version > answer.info.version) return 'version not reached';
  if (need.kind === 'block' && need.height > answer.info.blockHeight) return 'version not reached';
  const form = findForm(contentTypeOf(answer));
  return form === undefined || (promised !== 'either' && promised !== form) ? 'other form' : undefined;
}

/** Of a body that was read whole. One that is still coming can only be told by its length. */
function bodyFault(answer: Answered, { promised, isHead }: Asked): AnswerFault | undefined {
  const { status, body, json, headers } = answer;
  if (isHead || status !== 200) return undefined;
  const isCertain = promised === undefined || isFramed(headers);
  if (body === undefined || json === undefined) return isCertain ? undefined : 'unframed body';
  const promisesJson = findForm(contentTypeOf(answer)) !== 'bcs';
  if (promisesJson && !(json.isOpaque ? looksLikeJson(body) : json.isJson)) return 'not JSON';
  return isCertain || (promisesJson && json.isClosed) ? undefined : 'unframed body';
}

function contentTypeOf({ headers }: Answered): string | undefined {
  const contentType = headers['content-type'];
  return typeof contentType === 'string' ? contentType : undefined;
}

const opening = new Set(Buffer.from('{["-0123456789tfn'));
const closing = new Set(Buffer.from('}]"0123456789el'));

/** First and last byte of a JSON text: tells pages and most cut-off bodies where a parse would hold up everybody. */
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
