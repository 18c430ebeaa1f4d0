/**
 * Whether a JSON success is of the read that was asked. Broken proxies have turned errors of nodes into successes and
 * crossed the answers of two requests, and a final answer stays in the cache for ever. Only what every node writes counts
 * (interface specification 2.3 to 2.5, protocol 1): members that newer nodes add never do.
 */
import type { JsonBody } from '../ledger/answer-body.ts';
import { findU64 } from '../ledger/version.ts';
import type { ReadFacts } from './policy.ts';

/** A read with its canonical item (`KeyParts.subject`). */
export interface AskedRead extends ReadFacts {
  readonly subject: string;
}

/** Whether `json`, the body of a success, can be the answer to `read`. True for a body that is too large to be parsed. */
export function isContentOf(read: AskedRead, json: JsonBody): boolean {
  if (json.isOpaque) return true;
  const isObject = json.isObject && !json.isError;
  switch (read.operation) {
    case 'table_item':
    case 'raw_table_item':
      // Any value, which a publisher of modules has designed.
      return !json.isError;
    case 'balance':
      return !json.isObject && json.items === undefined;
    case 'transaction':
      return isObject && isHash(json.members['hash'], read.subject);
    case 'by_version':
      return isObject && isNumber(json.members['version'], read.version);
    case 'block':
      return isObject && isNumber(json.members['block_height'], heightOf(read));
    case 'block_by_version':
      return isObject && holds(json, read.version);
    case 'resource':
    case 'module':
    case 'account':
      return isObject;
    case 'view':
    case 'modules':
    case 'resources':
    case 'transactions':
    case 'auxiliary_info':
    case 'events':
      return json.items !== undefined;
  }
}

/** A text in another form than nodes write is no proof of another transaction. */
const hashForm = /^0x[\da-f]{64}$/i;

function isHash(hash: unknown, asked: string): boolean {
  return typeof hash !== 'string' || !hashForm.test(hash) || hash.toLowerCase() === asked;
}

function isNumber(text: unknown, asked: bigint | undefined): boolean {
  return typeof text !== 'string' || asked === undefined || findU64(text) === asked;
}

function heightOf({ extent }: ReadFacts): bigint | undefined {
  return extent?.kind === 'block' || extent?.kind === 'bare block' ? extent.height : undefined;
}

function holds({ members }: JsonBody, version: bigint | undefined): boolean {
  const { first_version: first, last_version: last } = members;
  if (version === undefined || typeof first !== 'string' || typeof last !== 'string') return true;
  return (findU64(first) ?? version) <= version && (findU64(last) ?? version) >= version;
}
