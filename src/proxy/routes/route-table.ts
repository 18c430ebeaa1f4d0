/** The table of routes. A new kind of read takes a row here, a parser and a test. */
import { findU64, type LedgerVersion } from '../../ledger/index.ts';
import type { Need } from '../../upstream/index.ts';
import {
  accountList,
  blockByVersionRead,
  blockRead,
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
  numberParameter,
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
import type { Read } from '../reads/index.ts';

/** The parser of a read whose request has a body. */
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
  /** The gateway's own: no node gets a request for the path, whatever its method. */
  readonly isOwn?: boolean;
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

/** A batch shares the template of a single submission, a name in metrics and spans that is an outside contract. */
const submit: TableRoute = { kind: 'submit', name: 'submit', operation: 'submit', template: '/transactions' };

const stateNeed = (_: Parameters, target: string): Need => needOf(numberParameter(target, 'ledger_version'));

/** Traits of a read of state; `ledger_version` decides the node that gets it. */
const state = { isState: true, isOfLedger: true, need: stateNeed } as const;
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

/** The paths of the interface, and the gateway's own. */
export const rows: readonly PathRow[] = [
  { path: '', routes: bothOf({ kind: 'ledger info', name: 'ledger_info', operation: 'read', template: '' }) },
  read('account', '/accounts/:address', state, accountRead),
  read('resource', '/accounts/:address/resource/:type', state, resourceRead, { operation: 'read' }),
  read('module', '/accounts/:address/module/:name', state, moduleRead, { operation: 'read' }),
  read('balance', '/accounts/:address/balance/:asset', state, balanceRead),
  read('resources', '/accounts/:address/resources', state, accountPageRead('resources')),
  read('modules', '/accounts/:address/modules', state, accountPageRead('modules')),
  posted('table_item', '/tables/:handle/item', state, tableRead('table_item')),
  posted('raw_table_item', '/tables/:handle/raw_item', state, tableRead('raw_table_item')),
  posted('view', '/view', state, {
    operation: 'view',
    posted: { check: viewContentType, parse: (_, request) => viewRead(request) },
  }),
  read('transaction_by_hash', '/transactions/by_hash/:hash', ofLedger, transactionRead, { operation: 'read' }),
  read('wait_by_hash', '/transactions/wait_by_hash/:hash', ofLedger, transactionWait, {
    kind: 'wait',
    operation: 'read',
  }),
  read('transaction_by_version', '/transactions/by_version/:version', ofVersion, byVersionRead),
  withSubmit(list('transactions', '/transactions', 'start')),
  list('auxiliary_info', '/transactions/auxiliary_info', 'start_version'),
  read('block_by_height', '/blocks/by_height/:height', ofHeight, blockRead),
  read('block_by_version', '/blocks/by_version/:version', ofVersion, blockByVersionRead),
  read('events', '/accounts/:address/events/:number', ofLedger, eventsByNumberRead),
  read('events', '/accounts/:address/events/:handle/:field', ofLedger, eventsByHandleRead),
  read('account_transactions', '/accounts/:address/transactions', ofLedger, accountList('transactions')),
  read(
    'transaction_summaries',
    '/accounts/:address/transaction_summaries',
    ofLedger,
    accountList('transaction_summaries'),
  ),
  read('gas_price', '/estimate_gas_price', ofLedger, sharedPath('gas price', '/estimate_gas_price')),
  ...['/spec', '/spec.json', '/spec.yaml', '/info'].map((path) => read('build', path, {}, sharedPath('build', path))),
  posted('encode_submission', '/transactions/encode_submission', ofLedger, { kind: 'encode', operation: 'encode' }),
  { path: '/transactions/batch', ...ofLedger, routes: { POST: submit } },
  { path: '/transactions/simulate', ...ofLedger, isReadingPost: true },
  { path: '/transactions/*', ...ofLedger },
  { path: '/blocks/*', ...ofLedger },
  { path: '/accounts/*', ...ofLedger },
  { path: '/tables/*', ...ofLedger },
  { path: '/-/healthy', isHealthCheck: true },
  own({ kind: 'health', name: 'health', operation: 'read', template: '/-/health', charge: 'none' }),
  own({ kind: 'usage', name: 'usage', operation: 'read', template: '/-/usage', charge: 'holder' }),
  { path: '/set_failpoint', isHidden: true },
  { path: '/experimental/state_values/raw', isHidden: true },
  { path: '/*' },
];

/** Names of all routes: a closed set of labels. */
export const routeNames: readonly string[] = [
  ...new Set(
    [...rows.flatMap(({ routes = {} }) => Object.values(routes)), passedRoute, noRoute].map(({ name }) => name),
  ),
];

/** A row of a kept or shared read, which counts as a passed path in rights and plans unless `route` differs. */
function read(
  name: string,
  path: string,
  traits: Partial<PathRow>,
  parse: ParseRead,
  route: Partial<TableRoute> = {},
): PathRow {
  return {
    path,
    ...traits,
    routes: bothOf({ kind: 'read', name, operation: 'pass', template: path, parse, ...route }),
  };
}

/** A row of a POST that changes nothing. */
function posted(name: string, path: string, traits: Partial<PathRow>, route: Partial<TableRoute>): PathRow {
  const POST: TableRoute = { kind: 'posted', name, operation: 'pass', template: path, ...route };
  return { path, ...traits, isReadingPost: true, routes: { POST } };
}

/** A row of a list whose parameter `start` names its first version. */
function list(name: 'transactions' | 'auxiliary_info', path: string, start: 'start' | 'start_version'): PathRow {
  const need: PathRow['need'] = (_, target) => needOf(numberParameter(target, start));
  return read(name, path, { ...ofLedger, isList: true, need }, transactionsRead(name, path, start));
}

function withSubmit(row: PathRow): PathRow {
  return { ...row, routes: { ...row.routes, POST: submit } };
}

function tableRead(operation: 'table_item' | 'raw_table_item'): Partial<TableRoute> {
  const parse: PostedRead['parse'] = (parameters, request) => tableItemRead(operation, parameters, request);
  return { posted: { check: requireJson, parse } };
}

function own(route: TableRoute & { readonly template: string }): PathRow {
  return { path: route.template, isOwn: true, routes: bothOf(route) };
}

function bothOf(route: TableRoute) {
  return { GET: route, HEAD: route };
}
