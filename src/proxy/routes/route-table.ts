/** The table of routes. A new kind of read takes a row here, a parser and a test. */
import { findU64, type LedgerVersion } from '../../ledger/index.ts';
import type { RouteName } from '../../metrics/index.ts';
import type { Need } from '../../upstream/index.ts';
import {
  accountList,
  blockByVersionRead,
  blockRead,
  buildPath,
  byVersionRead,
  eventsByHandleRead,
  eventsByNumberRead,
  sharedPath,
  transactionsRead,
} from './parse-history.ts';
import {
  accountPageRead,
  accountRead,
  balanceRead,
  moduleRead,
  needOf,
  requireJson,
  resourceRead,
  tableItemRead,
  transactionRead,
  transactionWait,
  viewContentType,
  viewRead,
  type BodyRead,
  type Parameters,
  type ParseRead,
} from './parse-read.ts';
import { type Route } from '../http/index.ts';
import { numberParameter } from './target.ts';
import type { Read } from '../reads/index.ts';
import type { Submissions } from './submissions.ts';

/** Parses a read whose request has a body. */
export interface PostedRead {
  /** Throws `GatewayError` 415. */
  readonly check: (contentType: string | undefined) => void;
  /** `undefined` leaves the request to a node. Throws `GatewayError` 400 or 415. */
  readonly parse: (parameters: Parameters, request: BodyRead) => Read | undefined;
}

/** A route with the parsers of its reads. */
export interface TableRoute extends Route {
  /** Present on the kinds `read` and `wait`. */
  readonly parse?: ParseRead;
  /** Present on the kind `posted`. */
  readonly posted?: PostedRead;
}

/** One path of the interface. Methods that have no route are passed to a node. */
export interface PathRow {
  /** Below the base path, in find-my-way's form. */
  readonly path: string;
  readonly routes?: Readonly<Partial<Record<'GET' | 'HEAD' | 'POST', TableRoute>>>;
  /** `Allow` of a 405 (RFC 9110 15.5.6), without `OPTIONS`, which only serves preflights. Default: `GET, HEAD`. */
  readonly allow?: string;
  /** Its POST changes nothing, and is therefore idempotent. */
  readonly isReadingPost?: boolean;
  /**
   * Successes come from the ledger, as JSON or BCS, with a version in their headers (protocol 1 and 2.1). Other paths
   * (`/info`, `/spec`, `/-/healthy`, unknown ones) may answer anything.
   */
  readonly isOfLedger?: boolean;
  /** Reads state at `ledger_version`, by default the latest version. */
  readonly isState?: boolean;
  /** A list: the version only names its start. */
  readonly isList?: boolean;
  /** Health of a node (protocol 9). */
  readonly isHealthCheck?: boolean;
  /** For tests of nodes alone (protocol 1, row 28): the gateway answers 404. */
  readonly isHidden?: boolean;
  /** State or history that the answer needs. Default, also for a malformed number: a node's head. */
  readonly need?: (parameters: Parameters, target: string) => Need;
}

/** Route of any path or method that has no other. */
export const passedRoute: TableRoute = { kind: 'passed', name: 'pass_through', operation: 'pass', template: '/*' };

/** Route of a cross-origin preflight, on any path. */
export const preflightRoute: TableRoute = { kind: 'preflight', name: 'none', operation: 'pass', template: undefined };

/** Route of a refused request. */
export const noRoute: TableRoute = { kind: 'none', name: 'none', operation: 'pass', template: undefined };

const ledgerInfo: TableRoute = { kind: 'ledger info', name: 'ledger_info', operation: 'read', template: '' };
const view: TableRoute = {
  kind: 'posted',
  name: 'view',
  operation: 'view',
  template: '/view',
  posted: { check: viewContentType, parse: (_, request) => viewRead(request) },
};
const encodePath = '/transactions/encode_submission';
const encode: TableRoute = { kind: 'encode', name: 'encode_submission', operation: 'encode', template: encodePath };
/** A batch shares the template of a single submission, a name in metrics and spans that is an outside contract. */
const submit: TableRoute = { kind: 'submit', name: 'submit', operation: 'submit', template: '/transactions' };

const stateNeed = (_: Parameters, target: string): Need => needOf(numberParameter(target, 'ledger_version'));

/** Traits of a read of state; `ledger_version` decides the node that gets it. */
const state = { isState: true, isOfLedger: true, need: stateNeed } as const;
const posted = { allow: 'POST', isReadingPost: true } as const;
const ofLedger = { isOfLedger: true } as const;
const ofVersion = {
  isOfLedger: true,
  need: ({ version = '' }: Parameters): Need => needOf(findU64(version) as LedgerVersion | undefined),
} as const;
const ofHeight = {
  isOfLedger: true,
  need: ({ height = '' }: Parameters): Need => {
    const found = findU64(height);
    return found === undefined ? needOf(undefined) : { kind: 'block', height: found };
  },
} as const;

/** All rows, the most general last. `submissions` supplies the first node of reads by hash. */
export function routeTable(submissions: Submissions): readonly PathRow[] {
  const byHash =
    (parse: typeof transactionRead): ParseRead =>
    ({ hash = '' }, request) =>
      parse(hash, request, submissions);
  return [
    { path: '', routes: { GET: ledgerInfo, HEAD: ledgerInfo } },
    readRow('resource', '/accounts/:address/resource/:type', resourceRead),
    readRow('module', '/accounts/:address/module/:name', moduleRead),
    readRow('transaction_by_hash', '/transactions/by_hash/:hash', byHash(transactionRead)),
    readRow('wait_by_hash', '/transactions/wait_by_hash/:hash', byHash(transactionWait), 'wait'),
    { path: '/view', ...state, ...posted, routes: { POST: view } },
    { path: encodePath, ...posted, isOfLedger: true, routes: { POST: encode } },
    ...stateRows(),
    ...historyRows(),
    { path: '/transactions/batch', isOfLedger: true, allow: 'POST', routes: { POST: submit } },
    { path: '/transactions/simulate', ...posted, isOfLedger: true },
    { path: '/transactions/*', isOfLedger: true },
    { path: '/blocks/*', isOfLedger: true },
    { path: '/accounts/*', isOfLedger: true },
    { path: '/tables/*', isOfLedger: true },
    keptRow('gas_price', '/estimate_gas_price', ofLedger, sharedPath('gas price', '/estimate_gas_price')),
    ...['/spec', '/spec.json', '/spec.yaml', '/info'].map((path) => keptRow('build', path, {}, buildPath(path))),
    { path: '/-/healthy', isHealthCheck: true },
    { path: '/set_failpoint', isHidden: true },
    { path: '/experimental/state_values/raw', isHidden: true },
    { path: '/*' },
  ];
}

function stateRows(): readonly PathRow[] {
  return [
    keptRow('account', '/accounts/:address', state, accountRead),
    keptRow('balance', '/accounts/:address/balance/:asset', state, balanceRead),
    keptRow('resources', '/accounts/:address/resources', state, accountPageRead('resources')),
    keptRow('modules', '/accounts/:address/modules', state, accountPageRead('modules')),
    tableRow('table_item', '/tables/:handle/item'),
    tableRow('raw_table_item', '/tables/:handle/raw_item'),
  ];
}

function historyRows(): readonly PathRow[] {
  const list = listRow('transactions', '/transactions', 'start');
  return [
    { ...list, allow: 'GET, HEAD, POST', routes: { ...list.routes, POST: submit } },
    listRow('auxiliary_info', '/transactions/auxiliary_info', 'start_version'),
    keptRow('transaction_by_version', '/transactions/by_version/:version', ofVersion, byVersionRead),
    keptRow('block_by_height', '/blocks/by_height/:height', ofHeight, blockRead),
    keptRow('block_by_version', '/blocks/by_version/:version', ofVersion, blockByVersionRead),
    keptRow('events', '/accounts/:address/events/:number', ofLedger, eventsByNumberRead),
    keptRow('events', '/accounts/:address/events/:handle/:field', ofLedger, eventsByHandleRead),
    keptRow('account_transactions', '/accounts/:address/transactions', ofLedger, accountList('transactions')),
    keptRow(
      'transaction_summaries',
      '/accounts/:address/transaction_summaries',
      ofLedger,
      accountList('transaction_summaries'),
    ),
  ];
}

/** A row of a read whose answer the cache may keep; `kind` is `wait` for a long poll. */
function readRow(name: RouteName, path: string, parse: ParseRead, kind: 'read' | 'wait' = 'read'): PathRow {
  const route: TableRoute = { kind, name, operation: 'read', template: path, parse };
  return { path, isOfLedger: true, routes: { GET: route, HEAD: route } };
}

/** A row of a kept or shared read that counts as a passed path in rights and plans. */
function keptRow(name: RouteName, path: string, traits: Partial<PathRow>, parse: ParseRead): PathRow {
  const route: TableRoute = { kind: 'read', name, operation: 'pass', template: path, parse };
  return { path, ...traits, routes: { GET: route, HEAD: route } };
}

/** A row of a list whose parameter `start` names its first version. */
function listRow(
  operation: 'transactions' | 'auxiliary_info',
  path: string,
  start: 'start' | 'start_version',
): PathRow {
  const need: PathRow['need'] = (_, target) => needOf(numberParameter(target, start));
  return keptRow(operation, path, { ...ofLedger, isList: true, need }, transactionsRead(operation, path, start));
}

function tableRow(operation: 'table_item' | 'raw_table_item', path: string): PathRow {
  const parse: PostedRead['parse'] = (parameters, request) => tableItemRead(operation, parameters, request);
  const reads = { check: requireJson, parse };
  const route: TableRoute = { kind: 'posted', name: operation, operation: 'pass', template: path, posted: reads };
  return { path, ...state, ...posted, routes: { POST: route } };
}
