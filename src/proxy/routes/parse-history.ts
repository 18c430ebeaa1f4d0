/**
 * Parsers of reads of history (transactions by version, lists of them, blocks, events) and of short shares. `undefined`
 * leaves a request to a node, unchanged: malformed and unknown parameters are the node's to refuse.
 */
import type { Read, SharedRead } from '../reads/index.ts';
import type { Operation } from '../../cache/index.ts';
import { Address, findU64, isIdentifier, type LedgerVersion } from '../../ledger/index.ts';
import { answerForm } from '../http/index.ts';
import {
  acceptOnly,
  knownParameters,
  needOf,
  pageOf,
  parseTag,
  queryText,
  readOf,
  type ParseRead,
  type PathRead,
} from './parse-read.ts';

type AskedRead = NonNullable<SharedRead['asked']>;

/** Items of a page without `limit` (protocol 1, rows 11 and 17). */
const usualLimit = 25;

/** Parses `GET /transactions/by_version/{version}`. */
export const byVersionRead: ParseRead = ({ version: versionText = '' }, request) => {
  const version = findU64(versionText) as LedgerVersion | undefined;
  if (version === undefined || knownParameters(request.target, []) === undefined) return undefined;
  const path = `/transactions/by_version/${version}`;
  const extent = { kind: 'transaction', version } as const;
  return readOf({ operation: 'by_version', subject: '', path, version, extent }, request.accept);
};

/**
 * Parses a list of transactions; `name`: the parameter with its first version. Without it, `/transactions` is a short
 * share of the newest ones.
 */
export function transactionsRead(
  operation: Extract<Operation, 'transactions' | 'auxiliary_info'>,
  path: string,
  name: 'start' | 'start_version',
): ParseRead {
  return (_, request) => {
    const page = pageOf(request.target, name, findU64);
    if (page === undefined) return undefined;
    const { start, limit = usualLimit, query } = page;
    if (start === undefined)
      return operation === 'transactions' ? newestList(operation, '', path + query, request) : undefined;
    const extent = { kind: 'list', first: start, limit } as const;
    const need = needOf(start as LedgerVersion);
    return readOf({ operation, subject: query, path: path + query, extent, need }, request.accept);
  };
}

/** Parses `GET /blocks/by_height/{height}`. */
export const blockRead: ParseRead = ({ height: heightText = '' }, request) => {
  const height = findU64(heightText);
  const flag = withTransactions(request.target);
  if (height === undefined || flag === undefined) return undefined;
  const extent = { kind: flag ? 'block' : 'bare block', height } as const;
  const path = `/blocks/by_height/${height}${flag ? '?with_transactions=true' : ''}`;
  const need = { kind: 'block', height } as const;
  return readOf({ operation: 'block', subject: `${height}/${flag}`, path, extent, need }, request.accept);
};

/** Parses `GET /blocks/by_version/{version}`. */
export const blockByVersionRead: ParseRead = ({ version: versionText = '' }, request) => {
  const version = findU64(versionText) as LedgerVersion | undefined;
  const flag = withTransactions(request.target);
  if (version === undefined || flag === undefined) return undefined;
  const extent = { kind: flag ? 'block' : 'bare block', height: undefined } as const;
  const path = `/blocks/by_version/${version}${flag ? '?with_transactions=true' : ''}`;
  return readOf({ operation: 'block_by_version', subject: String(flag), path, version, extent }, request.accept);
};

function withTransactions(target: string): boolean | undefined {
  const given = knownParameters(target, ['with_transactions']);
  const { with_transactions: text = 'false' } = given ?? {};
  return given === undefined || (text !== 'true' && text !== 'false') ? undefined : text === 'true';
}

/** Parses `GET /accounts/{address}/events/{creation_number}`. */
export const eventsByNumberRead: ParseRead = ({ address = '', number: numberText = '' }, request) => {
  const number = findU64(numberText);
  return number === undefined ? undefined : eventsRead(address, { text: `${number}`, encoded: `${number}` }, request);
};

/** Parses `GET /accounts/{address}/events/{handle}/{field}`; the handle is a struct tag. */
export const eventsByHandleRead: ParseRead = ({ address = '', handle = '', field = '' }, request) => {
  if (!isIdentifier(field)) return undefined;
  const { text, encoded } = parseTag(handle);
  const stream = { text: `${text}/${field}`, encoded: `${encoded}/${encodeURIComponent(field)}` };
  return eventsRead(address, stream, request);
};

/** Without `start` it is a short share of the newest events. */
function eventsRead(
  addressText: string,
  stream: { readonly text: string; readonly encoded: string },
  request: PathRead,
): Read | SharedRead | undefined {
  const page = pageOf(request.target, 'start', findU64);
  if (page === undefined) return undefined;
  const address = Address.parse(addressText);
  const { start, limit = usualLimit, query } = page;
  const path = `/accounts/${address}/events/${stream.encoded}${query}`;
  const item = `${address}/${stream.text}`;
  if (start === undefined) return newestList('events', item, path, request);
  const extent = { kind: 'page', first: start, limit } as const;
  return readOf({ operation: 'events', subject: item + query, path, extent }, request.accept);
}

/** Parses a path without parameters. */
export function sharedPath(shared: SharedRead['shared'], path: string): ParseRead {
  return (_, { target, accept }) =>
    knownParameters(target, []) === undefined ? undefined : sharedRead(shared, path, accept);
}

/** Answers of a node's build are documents of any media type, without ledger headers (protocol 1, rows 3 and 4). */
function sharedRead(shared: SharedRead['shared'], path: string, accept: string | undefined): SharedRead {
  const form = shared === 'build' ? undefined : answerForm(accept);
  return { shared, form, wire: { method: 'GET', path, headers: form === undefined ? anyType : acceptOnly[form] } };
}

const anyType = Object.freeze({ accept: '*/*' });

/** A list of the newest items. */
function newestList(
  operation: AskedRead['operation'],
  subject: string,
  path: string,
  { accept }: PathRead,
): SharedRead {
  return { ...sharedRead('latest', path, accept), asked: { operation, subject, version: undefined } };
}

/** Parses `GET /accounts/{address}/transactions` or `/transaction_summaries`: their parameters are u64. */
export function accountList(name: 'transactions' | 'transaction_summaries'): ParseRead {
  const numbers = name === 'transactions' ? ['start', 'limit'] : ['start_version', 'end_version', 'limit'];
  return ({ address: addressText = '' }, request) => {
    const address = Address.parse(addressText);
    const given = knownParameters(request.target, numbers);
    if (given === undefined) return undefined;
    const found: Record<string, bigint | undefined> = {};
    for (const number of numbers) {
      found[number] = findU64(given[number] ?? '');
      if (found[number] === undefined && given[number] !== undefined) return undefined;
    }
    return newestList('sent', address, `/accounts/${address}/${name}${queryText(found)}`, request);
  };
}
