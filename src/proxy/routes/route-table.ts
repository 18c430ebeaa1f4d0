/** The table of routes. A new kind of read takes a row here, a parser and a test. */
import type { AccessOperation } from '../../access/keys/principal.ts';
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
  type PathRead,
  type ResourceParameters,
} from './parse-read.ts';
import type { RouteLabel } from '../http/request-span.ts';
import type { Read } from '../reads/read-result.ts';
import type { Submissions } from './submissions.ts';
import { numberParameter } from '../http/target.ts';

/**
 * Kind of answer. `read`: from cache or fleet. `wait`: from one node, not coalesced. `view`: a `read` with a body.
 * `encode`: by the encoder or a node. `submit`: by one node, once. `passed`: by a node, unchanged. `none`: refused.
 */
export type RouteKind =
  'read' | 'wait' | 'view' | 'encode' | 'submit' | 'ledger info' | 'passed' | 'preflight' | 'none';

/** Path parameters by name, decoded. */
export type Parameters = Readonly<Record<string, string>>;

/** Parses the read that a target asks for. Throws `GatewayError` 400. */
export type ParseRead = (parameters: Parameters, request: PathRead) => Read;

/** A way to answer requests, with its names in metrics and spans; one object for all requests. */
export interface Route extends RouteLabel {
  readonly kind: RouteKind;
  /** Keys allow and plans charge this operation. */
  readonly operation: AccessOperation;
  /** Present on the kinds `read` and `wait`. */
  readonly parse?: ParseRead;
}

/** One path of the interface. Methods that have no route are passed to a node. */
export interface PathRow {
  /** Below the base path, in find-my-way's form. */
  readonly path: string;
  readonly routes?: Readonly<Partial<Record<'GET' | 'HEAD' | 'POST', Route>>>;
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
export const passedRoute: Route = { kind: 'passed', name: 'pass_through', operation: 'pass', template: '/*' };

/** Route of a cross-origin preflight, on any path. */
export const preflightRoute: Route = { kind: 'preflight', name: 'none', operation: 'pass', template: undefined };

/** Route of a refused request. */
export const noRoute: Route = { kind: 'none', name: 'none', operation: 'pass', template: undefined };

const ledgerInfo: Route = { kind: 'ledger info', name: 'ledger_info', operation: 'read', template: '' };
const view: Route = { kind: 'view', name: 'view', operation: 'view', template: '/view' };
const encodePath = '/transactions/encode_submission';
const encode: Route = { kind: 'encode', name: 'encode_submission', operation: 'encode', template: encodePath };
/** A batch shares the template of a single submission, a name in metrics and spans that is an outside contract. */
const submit: Route = { kind: 'submit', name: 'submit', operation: 'submit', template: '/transactions' };

const stateNeed = (_: Parameters, target: string): Need => needOf(numberParameter(target, 'ledger_version'));
const startNeed = (_: Parameters, target: string): Need => needOf(numberParameter(target, 'start'));
const versionNeed = ({ version = '' }: Parameters): Need => needOf(findU64(version) as LedgerVersion | undefined);
const heightNeed = ({ height = '' }: Parameters): Need => {
  const found = findU64(height);
  return found === undefined ? needOf(undefined) : { kind: 'block', height: found };
};

/** Traits of a passed read of state; `ledger_version` counts as in the gateway's own reads. */
const state = { isState: true, isOfLedger: true, need: stateNeed } as const;
const posted = { allow: 'POST', isReadingPost: true } as const;

/** All rows, the most general last. `submissions` supplies the first node of reads by hash. */
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

/** A row of a read whose answer the cache may keep. */
function readRow(name: RouteName, path: string, parse: ParseRead): PathRow {
  const route: Route = { kind: 'read', name, operation: 'read', template: path, parse };
  return { path, isOfLedger: true, routes: { GET: route, HEAD: route } };
}

/** A row of a long poll. A HEAD of it is passed, because it would wait in vain. */
function waitRow(path: string, parse: ParseRead): PathRow {
  const route: Route = { kind: 'wait', name: 'wait_by_hash', operation: 'read', template: path, parse };
  return { path, isOfLedger: true, routes: { GET: route } };
}
