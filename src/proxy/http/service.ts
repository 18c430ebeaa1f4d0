/** The meeting of sockets and routes: transports make an `Exchange` of a request, and its route serves it. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Cache } from '../../cache/index.ts';
import type { GatewayError } from '../../ledger/index.ts';
import type { Reads } from '../reads/index.ts';
import type { Bodies, BodyReservation } from './bodies.ts';
import type { Exchange, ExchangeParts } from './exchange.ts';
import type { Incoming, IncomingExchange, MatchedRoute, Outgoing, RouteLabel } from './message.ts';
import type { TlsListener } from './server/tls-server.ts';
import type { CachedTarget, TargetCache } from './target-cache.ts';
import type { TurnShares } from './server/turn-shares.ts';

/** A request whose body Node's server reads on demand. */
type ServerRequest = IncomingExchange<IncomingMessage, ServerResponse> & { readonly body?: undefined };

/** A request that arrived whole. */
export interface WholeRequest extends IncomingExchange<Incoming, Outgoing> {
  /** Empty for GET and HEAD; the fault of a body that was ended for lack of memory. */
  readonly body: Buffer | GatewayError;
  /** Memory of a body large enough to count, which its owner releases when the response closes. */
  readonly reservation?: BodyReservation | undefined;
}

/** A request in either form. */
export type Received = ServerRequest | WholeRequest;

/** The routes of the client port. Only `match` makes matched routes. */
export interface Service {
  /** Reads of repeated targets: routes add them, and transports find them. */
  readonly targets: TargetCache;
  /** Label of a request that is refused ahead of its route. */
  readonly unrouted: RouteLabel;
  /** Every `RouteLabel.name`. */
  readonly routeNames: readonly string[];
  /** Never throws: a refused request matches a route of the kind `none`, with its fault. */
  match(method: string, target: string): MatchedRoute;
  /** 405 for a method that has no route. */
  faultOfMethod(method: string, target: string): GatewayError | undefined;
  /** 405 with the `Allow` of the target. */
  notAllowed(target: string): GatewayError;
  /** The fault of a request's head, ahead of its body: `GatewayError` 400, 404 or 415. Throws nothing else. */
  faultAheadOfBody(request: Incoming, matched: MatchedRoute): GatewayError | undefined;
  /**
   * Answers an admitted request by its route. `body`: of a route that reads one. Throws, or rejects, with errors that
   * become the answer.
   */
  serve(exchange: Exchange, matched: MatchedRoute | CachedTarget, body: Buffer | undefined): void | Promise<void>;
}

/** Time limits of a client, in milliseconds. */
export interface ConnectionTimes {
  /** For a request's head, from its first byte; before any byte, from the connection's start. */
  readonly headMs: number;
  /** For a whole request. */
  readonly requestMs: number;
  /** Interval of the checks. */
  readonly checkMs: number;
  /** For a pause in reading and writing while a request is in flight. */
  readonly inactivityMs: number;
}

/** Parts of every transport on the client port. */
export interface ServerParts extends ExchangeParts {
  readonly service: Service;
  /** The service's targets: a look-up less for each hit. */
  readonly targets: TargetCache;
  readonly bodies: Bodies;
  readonly memory: Cache['memory'];
  readonly freshness: Reads['freshness'];
  readonly times: ConnectionTimes;
  /** Shared by all transports. */
  readonly turns: TurnShares;
  /** Absent: plain HTTP. */
  readonly tls?: TlsListener | undefined;
}
