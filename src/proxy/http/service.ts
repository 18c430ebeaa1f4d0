/** The meeting of sockets and routes: transports receive requests, and the routes of the client port answer them. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Cache } from '../../cache/index.ts';
import type { GatewayError } from '../../ledger/index.ts';
import type { Fleet } from '../../upstream/index.ts';
import type { Reads } from '../reads/index.ts';
import type { Access } from '../../access/index.ts';
import type { BodyReservation } from './body-pool.ts';
import type { Cors } from './cors.ts';
import type { ExchangeObserver, IncomingExchange } from './exchange.ts';
import type { Incoming, Outgoing } from './message.ts';
import type { Bodies } from './request-body.ts';
import type { RouteLabel } from './request-span.ts';
import type { MatchedRoute } from './route.ts';
import type { ResponseWriter } from './response-writer.ts';
import type { TlsListener } from './server/tls-server.ts';
import type { CachedTarget, TargetCache } from './target-cache.ts';
import type { TurnShares } from './turn-shares.ts';
import type { UnsentAnswers } from './unsent-answers.ts';

/** A request whose body Node's server reads on demand. */
type ServerRequest = IncomingExchange<IncomingMessage, ServerResponse> & { readonly body?: undefined };

/** A request that arrived whole. */
export interface WholeRequest extends IncomingExchange<Incoming, Outgoing> {
  /** Empty for GET and HEAD. */
  readonly body: Buffer;
  /** Memory of a body large enough to count, which its owner releases when the response closes. */
  readonly reservation?: BodyReservation | undefined;
}

/** A request in either form. */
export type Received = ServerRequest | WholeRequest;

/** The routes of the client port. Only `match` makes matched routes. */
export interface Service {
  /** Never throws: a refused request matches a route of the kind `none`, with its fault. */
  match(method: string, target: string): MatchedRoute;
  /** Answers a request whose head has arrived over Node's HTTP/1 server, TLS or HTTP/2. Never throws. */
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** Answers an admitted request by the kind of its route. Never throws. */
  answer(received: Received, matched: MatchedRoute | CachedTarget): void;
  /** Answers a request ahead of its route: `error` becomes an error answer. Default of `route`: none. */
  refuse(received: IncomingExchange<Incoming, Outgoing>, error: unknown, route?: RouteLabel): void;
  /** The fault of a request's head, ahead of its body: `GatewayError` 400, 404 or 415. Throws nothing else. */
  faultAheadOfBody(request: Incoming, matched: MatchedRoute): GatewayError | undefined;
  /** 405 with the `Allow` of the target. */
  notAllowed(target: string): GatewayError;
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
export interface ServerParts extends Pick<Reads, 'reader' | 'freshness'> {
  readonly service: Service;
  readonly targets: TargetCache;
  /** Absent: requests need no key. */
  readonly access: Access | undefined;
  readonly bodies: Bodies;
  readonly fleet: Pick<Fleet, 'view'>;
  readonly memory: Cache['memory'];
  readonly cors: Cors;
  readonly writer: ResponseWriter;
  readonly unsent: UnsentAnswers;
  readonly observer: ExchangeObserver;
  readonly times: ConnectionTimes;
  /** Shared by all transports. */
  readonly turns: TurnShares;
  /** Absent: plain HTTP. */
  readonly tls?: TlsListener | undefined;
}
