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
  findLimit,
  knownParameters,
  needOf,
  parseTag,
  readOf,
  type ParseRead,
  type PathRead,
} from './parse-read.ts';

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
    const page = pageOf(request.target, name);
    if (page === undefined) return undefined;
    const { start, limit, query } = page;
    if (start === undefined) {
      return operation === 'transactions'
        ? newestList({ operation, subject: '', path, numbers: ['limit'] }, request)
        : undefined;
    }
    const extent = { kind: 'list', first: start, limit } as const;
    const need = needOf(start as LedgerVersion);
    return readOf({ operation, subject: query, path: path + query, extent, need }, request.accept);
  };
}

/** A page's parameters; `undefined`: nodes refuse them, or read more than these two. */
function pageOf(target: string, startName: string) {
  const given = knownParameters(target, [startName, 'limit']);
  const { [startName]: startText, limit: limitText } = given ?? {};
  const start = startText === undefined ? undefined : findU64(startText);
  const limit = limitText === undefined ? undefined : findLimit(limitText);
  const isRefused =
    (startText !== undefined && start === undefined) || (limitText !== undefined && limit === undefined);
  if (given === undefined || isRefused) return undefined;
  const query = `?${startName}=${start}${limit === undefined ? '' : `&limit=${limit}`}`;
  return { start, limit: limit ?? usualLimit, query };
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
  const page = pageOf(request.target, 'start');
  if (page === undefined) return undefined;
  const address = Address.parse(addressText);
  const path = `/accounts/${address}/events/${stream.encoded}`;
  const { start, limit, query } = page;
  const item = `${address}/${stream.text}`;
  if (start === undefined) return newestList({ operation: 'events', subject: item, path, numbers: ['limit'] }, request);
  const extent = { kind: 'page', first: start, limit } as const;
  return readOf({ operation: 'events', subject: item + query, path: path + query, extent }, request.accept);
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

/** A list of the newest items. `numbers`: the parameters of `path`, which are u64, in their order. */
interface NewestList extends Pick<NonNullable<SharedRead['asked']>, 'operation' | 'subject'> {
  readonly path: string;
  readonly numbers: readonly string[];
}

function newestList(
  { operation, subject, path, numbers }: NewestList,
  { target, accept }: PathRead,
): SharedRead | undefined {
  const given = knownParameters(target, numbers);
  if (given === undefined) return undefined;
  const query: string[] = [];
  for (const name of numbers) {
    const text = given[name];
    const number = text === undefined ? undefined : findU64(text);
    if (text !== undefined && number === undefined) return undefined;
    if (number !== undefined) query.push(`${name}=${number}`);
  }
  const shared = sharedRead('latest', query.length === 0 ? path : `${path}?${query.join('&')}`, accept);
  return { ...shared, asked: { operation, subject, version: undefined } };
}

/** Parses `GET /accounts/{address}/transactions` or `/transaction_summaries`. */
export function accountList(name: 'transactions' | 'transaction_summaries'): ParseRead {
  const numbers = name === 'transactions' ? ['start', 'limit'] : ['start_version', 'end_version', 'limit'];
  return ({ address: addressText = '' }, request) => {
    const address = Address.parse(addressText);
    return newestList({ operation: 'sent', subject: address, path: `/accounts/${address}/${name}`, numbers }, request);
  };
}
