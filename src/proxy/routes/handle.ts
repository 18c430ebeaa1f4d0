/** Every client request over every transport: match, admit, answer. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { digestInTurns } from '../../cache/canonical-body.ts';
import { bodyBounds } from '../../ledger/json-value.ts';
import { GatewayError } from '../../ledger/errors.ts';
import { LargeAnswerError } from '../../upstream/dispatch/fleet-request.ts';
import { clientOf } from '../http/admitted-request.ts';
import { answerDespiteHalfClose } from '../http/server/connection-state.ts';
import { requireJson } from './parse-read.ts';
import { Exchange, type IncomingExchange } from '../http/exchange.ts';
import type { BodyReservation } from '../http/body-pool.ts';
import type { Incoming, Outgoing } from '../http/message.ts';
import type { RouteLabel } from '../http/request-span.ts';
import { answerForm } from '../http/negotiate.ts';
import { infoHead, type InfoBody } from '../reads/freshness.ts';
import type { Read, ReadResult } from '../reads/read-result.ts';
import type { SharedRead } from '../reads/shares.ts';
import { answerRead, writeRead, parsePosted, parseTarget, requireTime } from './read-answer.ts';
import { announcesBody } from '../http/request-body.ts';
import { faultOfHead } from '../http/request-faults.ts';
import { endWhereHttpDoes } from '../http/response-writer.ts';
import { noRoute, type Route } from './route-table.ts';
import type { Match } from './router.ts';
import type { ServerParts } from './server-parts.ts';
import { CachedTarget } from './target-cache.ts';
import { originForm } from '../http/target.ts';

/** A request whose body Node's server reads on demand. */
type ServerRequest = IncomingExchange<IncomingMessage, ServerResponse> & { readonly body?: undefined };

/** A request that arrived whole. */
export interface WholeRequest extends IncomingExchange<Incoming, Outgoing> {
  /** Empty for GET and HEAD. */
  readonly body: Buffer;
  /** Memory of a body large enough to count, which its owner releases when the response closes. */
  readonly reservation?: BodyReservation | undefined;
}

type Received = ServerRequest | WholeRequest;

/** Answers a request whose head has arrived over Node's HTTP/1 server, TLS or HTTP/2. Never throws. */
export function handle(parts: ServerParts, request: IncomingMessage, response: ServerResponse): void {
  const received = { request, response };
  const refuseRequest = (error: unknown): void => refuse(parts, received, error);
  try {
    request.url = originForm(request.url ?? '');
    const { url: target, method = '' } = request;
    const fault = faultOfHead(request) ?? parts.router.faultOfMethod(method, target);
    if (fault !== undefined) throw fault;
    const match = findTarget(parts, request) ?? parts.router.match(method, target);
    if (parts.access === undefined) answer(parts, received, match);
    else {
      parts.access.admit(request, response, match, {
        serve: (admitted) => answer(parts, { ...received, admitted }, match),
        refuse: refuseRequest,
      });
    }
  } catch (error) {
    refuseRequest(error);
  }
}

/** Answers a request ahead of its route: `error` becomes an error answer. */
export function refuse(
  parts: ServerParts,
  received: IncomingExchange<Incoming, Outgoing>,
  error: unknown,
  route: RouteLabel = noRoute,
): void {
  parts.writer.error(new Exchange(received, route, parts.observer), error);
}

function findTarget(
  { targets }: ServerParts,
  { method, url = '', headers }: IncomingMessage,
): CachedTarget | undefined {
  return method === 'GET' || method === 'HEAD' ? targets.find(url, answerForm(headers.accept)) : undefined;
}

/** Answers an admitted request by the kind of its route. Never throws. */
export function answer(parts: ServerParts, received: Received, match: Match | CachedTarget): void {
  const { route } = match;
  if (match instanceof CachedTarget)
    return run(parts, received, route, (exchange) => answerCached(parts, exchange, match));
  switch (route.kind) {
    case 'read':
      return run(parts, received, route, (exchange) => answerTarget(parts, exchange, match));
    case 'wait':
      return run(parts, received, route, (exchange) => answerWait(parts, exchange, match));
    case 'posted':
      return answerPosted(parts, received, match);
    case 'encode':
      return answerEncode(parts, received, match);
    case 'submit':
      return withBody(parts, received, match, (exchange, body) => {
        answerDespiteHalfClose(exchange.response);
        return parts.passThrough.submit(exchange, match, body);
      });
    case 'ledger info':
      return run(parts, received, route, (exchange) => answerLedgerInfo(parts, exchange, match));
    case 'passed':
      return answerPassed(parts, received, match);
    case 'preflight':
      return run(parts, received, route, (exchange) => answerPreflight(parts, exchange));
    case 'none':
      return refuse(parts, received, match.fault);
  }
}

/** The fault of a request's head, ahead of its body: `GatewayError` 400, 404 or 415. Throws nothing else. */
export function faultAheadOfBody(parts: ServerParts, request: Incoming, match: Match): GatewayError | undefined {
  try {
    checkHead(parts, request, match);
    return undefined;
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
}

function checkHead(parts: ServerParts, request: Incoming, match: Match): void {
  const { 'content-type': type, 'content-encoding': coding } = request.headers;
  const { fault } = match;
  if (fault !== undefined) throw fault;
  // Compressed bodies of reads are passed.
  if (match.route.kind === 'posted' && coding === undefined) match.checkBody(type);
  else if (isEncoded(parts, match)) requireJson(type);
  else requirePassable(request, match);
}

/**
 * A long poll: callers of one hash share one wait at a node. Its node may be behind: what a look-up found committed
 * meanwhile is the newer answer.
 */
function answerWait(parts: ServerParts, exchange: Exchange, match: Match): void | Promise<void> {
  const read = match.parse(exchange.request.headers.accept) as Read;
  const held = parts.reader.find(read);
  if (held !== undefined) return writeRead(parts, exchange, held);
  requireTime(parts);
  const newest = (served: ReadResult): ReadResult => (served.isFinal ? served : (parts.reader.find(read) ?? served));
  return parts.reader.load(read, exchange).then((served) => writeRead(parts, exchange, newest(served)));
}

function answerTarget(parts: ServerParts, exchange: Exchange, match: Match): void | Promise<void> {
  const read = parseTarget(parts, match, exchange.request.headers.accept);
  if (read === undefined) return servePassed(parts, exchange, match);
  if (read instanceof CachedTarget) return answerCached(parts, exchange, read);
  return orStreamed(parts, exchange, answerShared(parts, exchange, read));
}

function answerCached(parts: ServerParts, exchange: Exchange, { route, read }: CachedTarget): void | Promise<void> {
  const work = answerRead(parts, exchange, read);
  return work === undefined || route.kind !== 'read' ? work : orStreamed(parts, exchange, work);
}

/** Streams the answer of a node that is too large to be read whole. */
function orStreamed(parts: ServerParts, exchange: Exchange, work: Promise<void>): Promise<void> {
  return work.catch((error: unknown) => {
    if (!(error instanceof LargeAnswerError)) throw error;
    const { request, target } = exchange;
    return servePassed(parts, exchange, parts.router.match(request.method ?? '', target));
  });
}

function answerPosted(parts: ServerParts, received: Received, match: Match): void {
  const { accept, 'content-type': contentType, 'content-encoding': coding } = received.request.headers;
  // A compressed body has no canonical form here; such requests are rare, and nodes decode them.
  if (coding !== undefined) return answerPassed(parts, received, match);
  return withBody(parts, received, match, (exchange, body) => {
    const serve = (digest?: string): void | Promise<void> => {
      const request = { target: match.target, accept, contentType, body, digest };
      const read = received.body === undefined ? match.parseBody(request) : parsePosted(parts, match, request);
      if (read === undefined) return servePassed(parts, exchange, match, body);
      return answerRead(parts, exchange, read);
    };
    return body.length > bodyBounds.bytes ? digestInTurns(body).then(serve) : serve();
  });
}

/** Passes a request whose route has a parser, because the parser left it to a node. */
function servePassed(parts: ServerParts, exchange: Exchange, match: Match, body?: Buffer): Promise<void> {
  requirePassable(exchange.request, match);
  requireTime(parts);
  return parts.passThrough.serve(exchange, match, body);
}

/** Answers a request for a short share. */
async function answerShared(parts: ServerParts, exchange: Exchange, read: SharedRead): Promise<void> {
  requireTime(parts);
  return parts.writer.read(exchange, await parts.shares.load(read, exchange), parts.reader);
}

function answerEncode(parts: ServerParts, received: Received, match: Match): void {
  const { encoder } = parts;
  if (encoder === undefined || !isEncoded(parts, match)) return answerPassed(parts, received, match);
  return withBody(parts, received, match, (exchange, body) => {
    requireTime(parts);
    return encoder.serve(exchange, match, body);
  });
}

/** Without an encoder, or under an unusual spelling of its target, nodes encode. */
function isEncoded({ encoder, router }: ServerParts, { route, target }: Match): boolean {
  return (
    encoder !== undefined && route.kind === 'encode' && target === `${router.basePath}/transactions/encode_submission`
  );
}

function answerLedgerInfo(parts: ServerParts, exchange: Exchange, match: Match): void | Promise<void> {
  if (answerForm(exchange.request.headers.accept) !== 'bcs') return answerInfo(parts, exchange);
  requireTime(parts);
  return parts.passThrough.ledgerInfo(exchange, match);
}

function answerInfo(parts: ServerParts, exchange: Exchange): void | Promise<void> {
  const { freshness } = parts;
  const info = freshness.findLedgerInfo(exchange.request);
  if (info !== undefined) return writeInfo(parts, exchange, info);
  return freshness.ledgerInfo(exchange.request, exchange.signal).then((found) => writeInfo(parts, exchange, found));
}

function writeInfo({ writer }: ServerParts, exchange: Exchange, { body, version }: InfoBody): void {
  exchange.version = version;
  return writer.write(exchange, 200, infoHead(writer.vary, version), body);
}

function answerPassed(parts: ServerParts, received: Received, match: Match): void {
  const { method } = match;
  const serve = (exchange: Exchange, body: Buffer | undefined): Promise<void> => {
    if (match.isIdempotent) requireTime(parts);
    return parts.passThrough.serve(exchange, match, body);
  };
  const isBodiless = method === 'GET' || method === 'HEAD' || (method !== 'POST' && !announcesBody(received.request));
  if (!isBodiless) return withBody(parts, received, match, serve);
  return run(parts, received, match.route, (exchange) => {
    requirePassable(received.request, match);
    return serve(exchange, undefined);
  });
}

function answerPreflight({ cors, router }: ServerParts, exchange: Exchange): void {
  const head = cors.preflight(exchange.request);
  if (head === undefined) throw router.notAllowed(exchange.target);
  endWhereHttpDoes(exchange, head);
  exchange.response.writeHead(204, head);
  exchange.response.end(undefined);
  exchange.end();
}

/** Throws `GatewayError` 400, 404 or 415 for a request that no node may receive. */
function requirePassable({ method, headers }: Incoming, match: Match): void {
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
function run(
  parts: ServerParts,
  received: IncomingExchange<Incoming, Outgoing>,
  route: Route,
  serve: (exchange: Exchange) => void | Promise<void>,
): void {
  const exchange = new Exchange(received, route, parts.observer);
  void guard(parts, exchange, () => serve(exchange));
}

/** Reads the body of `match`, then runs `serve`. Faults of head or body become error answers. */
function withBody(
  parts: ServerParts,
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
    { request, response, client: clientOf(request, admitted), faultOfHead },
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
function guard({ writer }: ServerParts, exchange: Exchange, serve: () => void | Promise<void>): void | Promise<void> {
  try {
    const work = serve()?.catch((error: unknown) => writer.error(exchange, error));
    if (work !== undefined) exchange.admitted?.holdFor(work, exchange.response);
    return work;
  } catch (error) {
    return writer.error(exchange, error);
  }
}
