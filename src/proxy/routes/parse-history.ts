/**
 * Parsers of reads of history: transactions by version, lists of them, blocks, events. `undefined` leaves a request to a
 * node, unchanged: malformed and unknown parameters are the node's to refuse.
 */
import type { Operation } from '../../cache/key.ts';
import type { Extent } from '../../cache/policy.ts';
import { parseAddress } from '../../ledger/address.ts';
import { isIdentifier } from '../../ledger/type-tag.ts';
import { findU64, type LedgerVersion } from '../../ledger/version.ts';
import type { Need } from '../../upstream/select/ranking.ts';
import { answerForm } from '../http/negotiate.ts';
import { knownParameters } from '../http/target.ts';
import type { Read } from '../reads/read-result.ts';
import type { SharedRead } from '../reads/shares.ts';
import { acceptOnly, needOf, parseTag, type Parameters, type PathRead } from './parse-read.ts';
import { newestList } from './parse-shared.ts';
import { findLimit } from './parse-state.ts';

/** Items of a page without `limit`, and most items of one (protocol 1, rows 11 and 17). */
const pageItems = { usual: 25, most: 100 } as const;

/** Parses `GET /transactions/by_version/{version}`. */
export function byVersionRead({ version: versionText = '' }: Parameters, request: PathRead): Read | undefined {
  const version = findU64(versionText) as LedgerVersion | undefined;
  if (version === undefined || knownParameters(request.target, []) === undefined) return undefined;
  const path = `/transactions/by_version/${version}`;
  const extent = { kind: 'transaction', version } as const;
  return historyRead({ operation: 'by_version', subject: '', path, version, extent, need: needOf(version) }, request);
}

/** A list of transactions: its operation, path, and the parameter with its first version. */
export interface ListRoute {
  readonly operation: Extract<Operation, 'transactions' | 'auxiliary_info'>;
  readonly path: string;
  readonly start: 'start' | 'start_version';
}

/** Parses a list. Without its first version, `/transactions` is a short share of the newest ones. */
export function transactionsRead(
  { operation, path, start: name }: ListRoute,
  request: PathRead,
): Read | SharedRead | undefined {
  const page = pageOf(request.target, name);
  if (page === undefined) return undefined;
  const { start, limit, query } = page;
  if (start === undefined) return operation === 'transactions' ? newestList(path, ['limit'], request) : undefined;
  const items = fullPage(limit);
  const extent = { kind: 'list', last: start + BigInt(items) - 1n, items } as const;
  const need = needOf(start as LedgerVersion);
  return historyRead({ operation, subject: query, path: path + query, extent, need }, request);
}

/** Items of a full page. The cache keeps no page of a node that is configured for other lengths. */
function fullPage(limit: number | undefined): number {
  return Math.min(limit ?? pageItems.usual, pageItems.most);
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
  return { start, limit, query };
}

/** Parses `GET /blocks/by_height/{height}`. */
export function blockRead({ height: heightText = '' }: Parameters, request: PathRead): Read | undefined {
  const height = findU64(heightText);
  const flag = withTransactions(request.target);
  if (height === undefined || flag === undefined) return undefined;
  const extent = { kind: flag ? 'block' : 'bare block', height } as const;
  const path = `/blocks/by_height/${height}${flag ? '?with_transactions=true' : ''}`;
  const need = { kind: 'block', height } as const;
  return historyRead({ operation: 'block', subject: `${height}/${flag}`, path, extent, need }, request);
}

/** Parses `GET /blocks/by_version/{version}`. */
export function blockByVersionRead({ version: versionText = '' }: Parameters, request: PathRead): Read | undefined {
  const version = findU64(versionText) as LedgerVersion | undefined;
  const flag = withTransactions(request.target);
  if (version === undefined || flag === undefined) return undefined;
  const extent = { kind: flag ? 'block' : 'bare block', height: undefined } as const;
  const path = `/blocks/by_version/${version}${flag ? '?with_transactions=true' : ''}`;
  const need = needOf(version);
  return historyRead({ operation: 'block_by_version', subject: String(flag), path, version, extent, need }, request);
}

function withTransactions(target: string): boolean | undefined {
  const given = knownParameters(target, ['with_transactions']);
  const { with_transactions: text = 'false' } = given ?? {};
  return given === undefined || (text !== 'true' && text !== 'false') ? undefined : text === 'true';
}

/** Parses `GET /accounts/{address}/events/{creation_number}`. Throws `GatewayError` 400. */
export function eventsByNumberRead(
  { address = '', number: numberText = '' }: Parameters,
  request: PathRead,
): Read | SharedRead | undefined {
  const number = findU64(numberText);
  return number === undefined ? undefined : eventsRead(address, { text: `${number}`, encoded: `${number}` }, request);
}

/** Parses `GET /accounts/{address}/events/{handle}/{field}`; the handle is a struct tag. Throws `GatewayError` 400. */
export function eventsByHandleRead(
  { address = '', handle = '', field = '' }: Parameters,
  request: PathRead,
): Read | SharedRead | undefined {
  if (!isIdentifier(field)) return undefined;
  const { text, encoded } = parseTag(handle);
  const stream = { text: `${text}/${field}`, encoded: `${encoded}/${encodeURIComponent(field)}` };
  return eventsRead(address, stream, request);
}

/** Without `start` it is a short share of the newest events. */
function eventsRead(
  addressText: string,
  stream: { readonly text: string; readonly encoded: string },
  request: PathRead,
): Read | SharedRead | undefined {
  const page = pageOf(request.target, 'start');
  if (page === undefined) return undefined;
  const address = parseAddress(addressText);
  const path = `/accounts/${address}/events/${stream.encoded}`;
  const { start, limit, query } = page;
  if (start === undefined) return newestList(path, ['limit'], request);
  const subject = `${address}/${stream.text}${query}`;
  const extent = { kind: 'page', items: fullPage(limit) } as const;
  return historyRead({ operation: 'events', subject, path: path + query, extent, need: { kind: 'head' } }, request);
}

interface HistoryPath {
  readonly operation: Operation;
  readonly subject: string;
  /** Below the base path, canonical, with its query. */
  readonly path: string;
  readonly version?: LedgerVersion;
  readonly extent: Extent;
  readonly need: Need;
}

function historyRead({ path, version, ...read }: HistoryPath, { accept }: PathRead): Read {
  const form = answerForm(accept);
  return { ...read, version, form, wire: { method: 'GET', path, headers: acceptOnly[form] } };
}
