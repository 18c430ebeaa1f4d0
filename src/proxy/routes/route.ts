/** A route and a row of the route table (route-table.ts). */
import type { AccessOperation } from '../../access/keys/principal.ts';
import type { Need } from '../../upstream/select/need.ts';
import type { PathRead } from './parse-read.ts';
import type { Read } from '../reads/read-result.ts';
import type { RouteLabel } from '../http/request-span.ts';

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
  readonly operation: AccessOperation;
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
