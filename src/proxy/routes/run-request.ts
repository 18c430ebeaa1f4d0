/** Runs the answer to one request: checks its head, reads its body, and turns errors into answers. */
import { clientOf } from '../../access/index.ts';
import { GatewayError } from '../../ledger/index.ts';
import {
  Exchange,
  type Incoming,
  type IncomingExchange,
  type Outgoing,
  type Received,
  type Route,
  type RouteLabel,
} from '../http/index.ts';
import { requireJson } from './parse-read.ts';
import { noRoute } from './route-table.ts';
import type { Match } from './router.ts';
import type { RouteParts } from './route-parts.ts';

/** Answers a request ahead of its route: `error` becomes an error answer. */
export function refuse(
  parts: RouteParts,
  received: IncomingExchange<Incoming, Outgoing>,
  error: unknown,
  route: RouteLabel = noRoute,
): void {
  parts.writer.error(new Exchange(received, route, parts.observer), error);
}

/** The fault of a request's head, ahead of its body: `GatewayError` 400, 404 or 415. Throws nothing else. */
export function faultAheadOfBody(parts: RouteParts, request: Incoming, match: Match): GatewayError | undefined {
  try {
    checkHead(parts, request, match);
    return undefined;
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
}

function checkHead(parts: RouteParts, request: Incoming, match: Match): void {
  const { 'content-type': type, 'content-encoding': coding } = request.headers;
  const { fault } = match;
  if (fault !== undefined) throw fault;
  // Compressed bodies of reads are passed.
  if (match.route.kind === 'posted' && coding === undefined) match.checkBody(type);
  else if (isEncoded(parts, match)) requireJson(type);
  else requirePassable(request, match);
}

/** Without an encoder, or under an unusual spelling of its target, nodes encode. */
export function isEncoded({ encoder, router }: RouteParts, { route, target }: Match): boolean {
  return (
    encoder !== undefined && route.kind === 'encode' && target === `${router.basePath}/transactions/encode_submission`
  );
}

/** Throws `GatewayError` 400, 404 or 415 for a request that no node may receive. */
export function requirePassable({ method, headers }: Incoming, match: Match): void {
  const { 'content-type': type } = headers;
  const isRead = method === 'GET' || method === 'HEAD';
  if (!isRead && type !== undefined && !mediaTypeForm.test(type)) {
    throw new GatewayError('unsupportedMediaType', 'request refused');
  }
  void match.passedPath;
}

/** `type/subtype` with any parameters (RFC 9110 8.3.1). */
const mediaTypeForm = /^\s*[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+\s*(?:;|$)/;

/** Runs `serve` with the request's exchange. Errors become error answers. */
export function run(
  parts: RouteParts,
  received: IncomingExchange<Incoming, Outgoing>,
  route: Route,
  serve: (exchange: Exchange) => void | Promise<void>,
): void {
  const exchange = new Exchange(received, route, parts.observer);
  void guard(parts, exchange, () => serve(exchange));
}

/** Reads the body of `match`, then runs `serve`. Faults of head or body become error answers. */
export function withBody(
  parts: RouteParts,
  received: Received,
  match: Match,
  serve: (exchange: Exchange, body: Buffer) => void | Promise<void>,
): void {
  if (received.body !== undefined) {
    const { body, reservation } = received;
    const exchange = new Exchange(received, match.route, parts.observer);
    exchange.reservation = reservation;
    exchange.bodyBytes = body.length;
    const work = guard(parts, exchange, () => {
      checkHead(parts, received.request, match);
      return serve(exchange, body);
    });
    if (work !== undefined) reservation?.holdFor(work);
    return undefined;
  }
  const { request, response, admitted } = received;
  // A client that hangs up before the body's end has no exchange.
  admitted?.settleAtClose(response);
  const faultOfHead = (): GatewayError | undefined => faultAheadOfBody(parts, request, match);
  return parts.bodies.read(
    { request, response, client: clientOf(request.socket, admitted), faultOfHead },
    (body, reservation) => {
      const exchange = new Exchange(received, match.route, parts.observer);
      exchange.reservation = reservation;
      if (!Buffer.isBuffer(body)) return parts.writer.error(exchange, body);
      exchange.bodyBytes = body.length;
      return guard(parts, exchange, () => serve(exchange, body));
    },
  );
}

/**
 * Runs `serve`; its exception becomes an error answer. The promise, if any, never rejects. Until it resolves, the plan
 * counts the request as in flight.
 */
function guard({ writer }: RouteParts, exchange: Exchange, serve: () => void | Promise<void>): void | Promise<void> {
  try {
    const work = serve()?.catch((error: unknown) => writer.error(exchange, error));
    if (work !== undefined) exchange.admitted?.holdFor(work, exchange.response);
    return work;
  } catch (error) {
    return writer.error(exchange, error);
  }
}
