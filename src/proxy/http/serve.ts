/** Every client request over every transport: match, admit, read the body, serve. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Access, clientOf } from '../../access/index.ts';
import { GatewayError } from '../../ledger/index.ts';
import { Exchange } from './exchange.ts';
import type { Incoming, IncomingExchange, MatchedRoute, Outgoing, RouteLabel } from './message.ts';
import { answerForm, wantsEvents } from './negotiate.ts';
import { announcesBody, type BodyReservation } from './bodies.ts';
import { faultOfHead } from './request-faults.ts';
import type { Received, ServerParts } from './service.ts';
import { CachedTarget } from './target-cache.ts';
import { originForm, ownCopy } from './target.ts';

/** Answers a request whose head has arrived over Node's HTTP/1 server, TLS or HTTP/2. Never throws. */
export function handle(parts: ServerParts, request: IncomingMessage, response: ServerResponse): void {
  try {
    const { url: given = '' } = request;
    const origin = originForm(given);
    // A slice of an absolute target would keep all of it in memory.
    request.url = origin === given ? given : ownCopy(origin);
    const { url: target, method = '' } = request;
    const fault = faultOfHead(request) ?? parts.service.faultOfMethod(method, target);
    if (fault !== undefined) throw fault;
    const matched = findTarget(parts, request) ?? parts.service.match(method, target);
    // Browsers send no key with a preflight. Other OPTIONS requests are refused by the route.
    const decision = method === 'OPTIONS' ? undefined : parts.access?.decide(request, matched);
    answerDecided(parts, { request, response }, matched, decision);
  } catch (error) {
    refuse(parts, { request, response }, error);
  }
}

function findTarget(
  { targets }: ServerParts,
  { method, url = '', headers }: IncomingMessage,
): CachedTarget | undefined {
  // A cached target is one of whole answers.
  if ((method !== 'GET' && method !== 'HEAD') || wantsEvents(headers.accept)) return undefined;
  return targets.find(url, answerForm(headers.accept));
}

/** Answers a request ahead of its route: `error` becomes an error answer. */
export function refuse(
  parts: ServerParts,
  received: IncomingExchange<Incoming, Outgoing>,
  error: unknown,
  route: RouteLabel = parts.service.unrouted,
): void {
  new Exchange(received, route, parts).fail(error);
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
  if (matched instanceof CachedTarget || !readsBody(received.request, matched)) {
    void serve(parts, new Exchange(received, matched.route, parts), matched);
  } else if (received.body === undefined) readBody(parts, received, matched);
  else {
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

/** Reads the body, then serves the request. Faults of head or body become error answers. */
function readBody(
  parts: ServerParts,
  received: IncomingExchange<IncomingMessage, ServerResponse>,
  matched: MatchedRoute,
): void {
  const { request, response, admitted } = received;
  // A client that hangs up before the body's end has no exchange.
  admitted?.settleAtClose(response);
  const upload = {
    request,
    response,
    client: clientOf(request.socket, admitted),
    faultOfHead: () => parts.service.faultAheadOfBody(request, matched),
  };
  parts.bodies.read(upload, (body, reservation) => serveBody(parts, received, matched, body, reservation));
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
