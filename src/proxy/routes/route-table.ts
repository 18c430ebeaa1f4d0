/**
 * The table of routes: every path that the gateway answers itself, or passes on by rules of its own. A further kind of
 * read takes a row here, a parser and a test.
 */
import type { Operation } from '../../access/keys/principal.ts';
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
 * How a request is answered. `read`: from the cache or the fleet. `wait`: from one node, for this client alone. `view`:
 * as `read`, with a body. `encode`: by the encoder or a node. `submit`: by one node, once. `passed`: by a node, as it
 * came. `none`: refused.
 */
export type RouteKind =
  'read' | 'wait' | 'view' | 'encode' | 'submit' | 'ledger info' | 'passed' | 'preflight' | 'none';

/** Path parameters by name, decoded. */
export type Parameters = Readonly<Record<string, string>>;

/** Parses the read that a target asks for. Throws `GatewayError` 400. */
export type ParseRead = (parameters: Parameters, request: PathRead) => Read;

/** One way to answer a request, shared by all requests that match it. */
export interface Route extends RouteLabel {
  readonly kind: RouteKind;
  /** Keys allow, and plans charge, the request as this operation. */
  readonly operation: Operation;
  /** Routes of the kinds `read` and `wait` have one. */
  readonly parse?: ParseRead;
}

/** One path of the interface. Methods without a route of their own are passed to a node. */
export interface PathRow {
  /** Below the base path, in the form of find-my-way. */
  readonly path: string;
  readonly routes?: Readonly<Partial<Record<'GET' | 'HEAD' | 'POST', Route>>>;
  /** `Allow` of a 405 (RFC 9110 15.5.6). `OPTIONS` serves preflights alone, so it is left out. Default: `GET, HEAD`. */
  readonly allow?: string;
  /** A POST to it changes nothing, so that it may be sent twice. */
  readonly isReadingPost?: boolean;
  /**
   * Its successes are from the ledger, as JSON or BCS, and name a version in their headers (protocol 1 and 2.1). Other
   * paths (`/info`, `/spec`, `/-/healthy`, unknown ones) may answer anything.
   */
  readonly isOfLedger?: boolean;
  /** Reads state at `ledger_version`, or at the latest version where there is none. */
  readonly isState?: boolean;
  /** The version that is named is only where the answer begins. */
  readonly isList?: boolean;
  /** Asks for the health of a node (protocol 9). */
  readonly isHealthCheck?: boolean;
  /** Only tests of nodes use it (protocol 1, row 28): no client of a fleet reaches it. */
  readonly isHidden?: boolean;
  /**
   * State or history that its answer needs. Default: a node's head, whose node is also the best judge of a bad number.
   */
  readonly need?: (parameters: Parameters, target: string) => Need;
}

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
