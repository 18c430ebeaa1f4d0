/** Routes, as sockets see them. */
import type { AccessOperation } from '../../access/index.ts';
import type { GatewayError } from '../../ledger/index.ts';
import type { RouteLabel } from './request-span.ts';

/**
 * Kind of answer. `read`: from cache or fleet. `wait`: a `read` that a node may hold back. `posted`: a `read` with a body.
 * `encode`: by the encoder or a node. `submit`: by one node, once. `passed`: by a node, unchanged. `none`: refused.
 */
export type RouteKind =
  'read' | 'wait' | 'posted' | 'encode' | 'submit' | 'ledger info' | 'passed' | 'preflight' | 'none';

/** A way to answer requests, with its names in metrics and spans; one object for all requests. */
export interface Route extends RouteLabel {
  readonly kind: RouteKind;
  /** Keys allow and plans charge this operation. */
  readonly operation: AccessOperation;
}

/** The route of one request. */
export interface MatchedRoute {
  readonly route: Route;
  readonly target: string;
  /** 400 or 404 of a refused request. */
  readonly fault: GatewayError | undefined;
  readonly operation: AccessOperation;
}
