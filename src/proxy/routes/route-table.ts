/**
 * The table of routes: every path that the gateway answers itself, or passes on by rules of its own. A further kind of
 * read takes a row here, a parser and a test.
 */
import { findU64, type LedgerVersion } from '../../ledger/version.ts';
import type { RouteName } from '../../metrics/http-metrics.ts';
import type { Need } from '../../upstream/select/need.ts';
import {
  moduleRead,
  needOf,
  resourceRead,
  transactionRead,
  transactionWait,
  type ModuleParameters,
  type ResourceParameters,
} from './parse-read.ts';
import type { Parameters, ParseRead, PathRow, Route } from './route.ts';
import type { Submissions } from './submissions.ts';
import { numberParameter } from '../http/target.ts';

/** Any path or method without a route of its own. */
export const passedRoute: Route = { kind: 'passed', name: 'pass_through', operation: 'pass', template: '/*' };

/** A cross-origin preflight, on any path. */
export const preflightRoute: Route = { kind: 'preflight', name: 'none', operation: 'pass', template: undefined };

/** A request that no route takes. */
export const noRoute: Route = { kind: 'none', name: 'none', operation: 'pass', template: undefined };

const ledgerInfo: Route = { kind: 'ledger info', name: 'ledger_info', operation: 'read', template: '' };
const view: Route = { kind: 'view', name: 'view', operation: 'view', template: '/view' };
const encodePath = '/transactions/encode_submission';
const encode: Route = { kind: 'encode', name: 'encode_submission', operation: 'encode', template: encodePath };
/** A batch has the template of a single submission: a name of metrics and spans that is part of the interface. */
const submit: Route = { kind: 'submit', name: 'submit', operation: 'submit', template: '/transactions' };

const stateNeed = (_: Parameters, target: string): Need => needOf(numberParameter(target, 'ledger_version'));
const startNeed = (_: Parameters, target: string): Need => needOf(numberParameter(target, 'start'));
const versionNeed = ({ version = '' }: Parameters): Need => needOf(findU64(version) as LedgerVersion | undefined);
const heightNeed = ({ height = '' }: Parameters): Need => {
  const found = findU64(height);
  return found === undefined ? needOf(undefined) : { kind: 'block', height: found };
};

/** A read of state that is passed: `ledger_version` means the same here as in the gateway's own reads. */
const state = { isState: true, isOfLedger: true, need: stateNeed } as const;
const posted = { allow: 'POST', isReadingPost: true } as const;

/** All rows, the most general last. `submissions`: which node accepted a transaction, for reads by hash. */
export function routeTable(submissions: Submissions): readonly PathRow[] {
  return [
    { path: '', routes: { GET: ledgerInfo, HEAD: ledgerInfo } },
    readRow('resource', '/accounts/:address/resource/:type', (parameters, request) =>
      resourceRead(parameters as unknown as ResourceParameters, request),
    ),
    readRow('module', '/accounts/:address/module/:name', (parameters, request) =>
      moduleRead(parameters as unknown as ModuleParameters, request),
    ),
    readRow('transaction_by_hash', '/transactions/by_hash/:hash', ({ hash = '' }, request) =>
      transactionRead(hash, request, submissions),
    ),
    waitRow('/transactions/wait_by_hash/:hash', ({ hash = '' }, request) =>
      transactionWait(hash, request, submissions),
    ),
    { path: '/view', ...state, ...posted, routes: { POST: view } },
    { path: encodePath, ...posted, isOfLedger: true, routes: { POST: encode } },
    {
      path: '/transactions',
      isOfLedger: true,
      isList: true,
      need: startNeed,
      allow: 'GET, HEAD, POST',
      routes: { POST: submit },
    },
    { path: '/transactions/batch', isOfLedger: true, allow: 'POST', routes: { POST: submit } },
    { path: '/transactions/simulate', ...posted, isOfLedger: true },
    { path: '/transactions/by_version/:version', isOfLedger: true, need: versionNeed },
    { path: '/transactions/*', isOfLedger: true },
    { path: '/blocks/by_version/:version', isOfLedger: true, need: versionNeed },
    { path: '/blocks/by_height/:height', isOfLedger: true, need: heightNeed },
    { path: '/blocks/*', isOfLedger: true },
    { path: '/accounts/:address', ...state },
    { path: '/accounts/:address/balance/:asset', ...state },
    { path: '/accounts/:address/resources', ...state },
    { path: '/accounts/:address/modules', ...state },
    { path: '/accounts/*', isOfLedger: true },
    { path: '/tables/:handle/item', ...state, ...posted },
    { path: '/tables/:handle/raw_item', ...state, ...posted },
    { path: '/tables/*', isOfLedger: true },
    { path: '/estimate_gas_price', isOfLedger: true },
    { path: '/-/healthy', isHealthCheck: true },
    { path: '/set_failpoint', isHidden: true },
    { path: '/experimental/state_values/raw', isHidden: true },
    { path: '/*' },
  ];
}

/** A read whose answer the cache may keep. */
function readRow(name: RouteName, path: string, parse: ParseRead): PathRow {
  const route: Route = { kind: 'read', name, operation: 'read', template: path, parse };
  return { path, isOfLedger: true, routes: { GET: route, HEAD: route } };
}

/** A long poll: a HEAD of it would wait for nothing, and is passed. */
function waitRow(path: string, parse: ParseRead): PathRow {
  const route: Route = { kind: 'wait', name: 'wait_by_hash', operation: 'read', template: path, parse };
  return { path, isOfLedger: true, routes: { GET: route } };
}
