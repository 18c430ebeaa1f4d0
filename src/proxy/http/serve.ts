/** Every client request over every transport: match, admit, read the body, serve. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Access, clientOf } from '../../access/index.ts';
import type { Cache } from '../../cache/index.ts';
import { GatewayError } from '../../ledger/index.ts';
import type { Reads } from '../reads/index.ts';
import { announcesBody, type Bodies, type BodyReservation } from './bodies.ts';
import { Exchange, type ExchangeParts } from './exchange.ts';
import type { Incoming, MatchedRoute, Received, ReceivedHead, Route } from './message.ts';
import { answerForm, wantsEvents } from './negotiate.ts';
import { faultOfHead } from './request-faults.ts';
import type { ConnectionTimes } from './server/connection-state.ts';
import type { TlsListener } from './server/tls-server.ts';
import type { TurnShares } from './server/turn-shares.ts';
import { CachedTarget, ownCopy, type TargetCache } from './target-cache.ts';
import { originForm } from './target.ts';

/** The routes of the client port. Only `match` makes matched routes. */
export interface Service {
  /** Reads of repeated targets: routes add them, and transports find them. */
  readonly targets: TargetCache;
  /** Requests that are refused ahead of their route have this one. */
  readonly unrouted: Route;
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

/** Answers a request whose head has arrived over Node's HTTP/1 server, TLS or HTTP/2. Never throws. */
export function handle(parts: ServerParts, request: IncomingMessage, response: ServerResponse): void {
  const { service, access } = parts;
  try {
    const { url: given = '', method = '', headers } = request;
    const origin = originForm(given);
    // A slice of an absolute target would keep all of it in memory.
    const target = origin === given ? given : ownCopy(origin);
    request.url = target;
    const fault = faultOfHead(request) ?? service.faultOfMethod(method, target);
    if (fault !== undefined) throw fault;
    // A cached target is one of whole answers.
    const mayBeCached = (method === 'GET' || method === 'HEAD') && !wantsEvents(headers.accept);
    const cached = mayBeCached ? parts.targets.find(target, answerForm(headers.accept)) : undefined;
    const matched = cached ?? service.match(method, target);
    // Browsers send no key with a preflight. Other OPTIONS requests are refused by the route.
    const decision = method === 'OPTIONS' ? undefined : access?.decide(request, matched);
    answerDecided(parts, { request, response }, matched, decision);
  } catch (error) {
    refuse(parts, { request, response }, error);
  }
}

/** Answers a request ahead of its route: `error` becomes an error answer. */
export function refuse(parts: ServerParts, received: ReceivedHead, error: unknown): void {
  new Exchange(received, parts.service.unrouted, parts).fail(error);
}

/** Answers a request as its key and limits decide, now or once they allow it. `undefined`: it needs no key. Never throws. */
export function answerDecided(
  parts: ServerParts,
  received: Received,
  matched: MatchedRoute | CachedTarget,
  decision: ReturnType<Access['decide']> | undefined,
): void {
  if (decision === undefined) answer(parts, received, matched);
  else if (typeof decision === 'object') answer(parts, { ...received, admitted: decision }, matched);
  else {
    decision(received.response, {
      serve: (admitted) => answer(parts, { ...received, admitted }, matched),
      refuse: (error) => refuse(parts, received, error),
    });
  }
}

function answer(parts: ServerParts, received: Received, matched: MatchedRoute | CachedTarget): void {
  const { request, response, admitted } = received;
  if (matched instanceof CachedTarget || !readsBody(request, matched)) {
    void serve(parts, new Exchange(received, matched.route, parts), matched);
  } else if (received.body === undefined) {
    // A client that hangs up before the body's end has no exchange.
    admitted?.settleAtClose(response);
    const upload = {
      request: received.request,
      response: received.response,
      client: clientOf(request.socket, admitted),
      faultOfHead: () => parts.service.faultAheadOfBody(request, matched),
    };
    parts.bodies.read(upload, (body, reservation) => serveBody(parts, received, matched, body, reservation));
  } else {
    const { body, reservation } = received;
    const work = serveBody(parts, received, matched, body, reservation);
    if (work !== undefined) reservation?.holdFor(work);
  }
}

/** Whether the answer depends on the request's body. */
function readsBody(request: Incoming, { route: { kind } }: MatchedRoute): boolean {
  if (kind !== 'passed') return kind === 'posted' || kind === 'encode' || kind === 'submit';
  const { method } = request;
  return method === 'POST' || (method !== 'GET' && method !== 'HEAD' && announcesBody(request));
}

/** `body`: the whole one, or its fault. */
function serveBody(
  parts: ServerParts,
  received: Received,
  matched: MatchedRoute,
  body: Buffer | GatewayError,
  reservation: BodyReservation | undefined,
): void | Promise<void> {
  const exchange = new Exchange(received, matched.route, parts);
  if (body instanceof GatewayError) return exchange.fail(body);
  exchange.reservation = reservation;
  exchange.bodyBytes = body.length;
  exchange.isWhole = received.body !== undefined;
  // Otherwise checked ahead of the body.
  const fault = exchange.isWhole ? parts.service.faultAheadOfBody(received.request, matched) : undefined;
  return fault === undefined ? serve(parts, exchange, matched, body) : exchange.fail(fault);
}

/**
 * Serves an exchange by its route; an exception becomes an error answer. The promise, if any, never rejects. Until it
 * resolves, the plan counts the request as in flight.
 */
function serve(
  { service }: ServerParts,
  exchange: Exchange,
  matched: MatchedRoute | CachedTarget,
  body?: Buffer,
): void | Promise<void> {
  try {
    const work = service.serve(exchange, matched, body)?.catch((error: unknown) => exchange.fail(error));
    if (work !== undefined) exchange.admitted?.holdFor(work, exchange.response);
    return work;
  } catch (error) {
    return exchange.fail(error);
  }
}
