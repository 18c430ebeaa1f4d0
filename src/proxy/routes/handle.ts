/** Every client request over every transport: match, admit, answer. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { digestInTurns } from '../../cache/canonical-body.ts';
import { bodyBounds } from '../../ledger/body-bounds.ts';
import { GatewayError } from '../../ledger/errors.ts';
import { LargeAnswerError } from '../../upstream/dispatch/fleet-request.ts';
import { clientOf } from '../http/admitted-request.ts';
import { answerDespiteHalfClose } from '../http/server/connection-state.ts';
import { requireJson } from './parse-read.ts';
import { Exchange, type IncomingExchange } from '../http/exchange.ts';
import type { Incoming, Outgoing } from '../http/message.ts';
import { answerForm } from '../http/negotiate.ts';
import type { InfoBody } from '../reads/freshness.ts';
import type { Read, ReadResult } from '../reads/read-result.ts';
import type { SharedRead } from '../reads/shares.ts';
import { answerRead, writeRead, parseTarget, requireTime } from './read-answer.ts';
import { announcesBody } from '../http/request-body.ts';
import { faultOfHead } from '../http/request-faults.ts';
import { endWhereHttpDoes } from '../http/response-writer.ts';
import { noRoute, type Route } from './route-table.ts';
import type { Match } from './router.ts';
import type { ServerParts } from './server-parts.ts';
import { CachedTarget } from './target-cache.ts';
import { originForm } from '../http/target.ts';

type ServerRequest = IncomingExchange<IncomingMessage, ServerResponse>;

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

/** Answers a request without a route: `error` becomes an error answer. */
export function refuse(parts: ServerParts, received: IncomingExchange<Incoming, Outgoing>, error: unknown): void {
  parts.writer.error(new Exchange(received, noRoute, parts.observer), error);
}

/** Answers a read whose target is in the target cache, or was just parsed. */
export function answerTarget(
  parts: ServerParts,
  received: IncomingExchange<Incoming, Outgoing>,
  cached: CachedTarget,
): void {
  run(parts, received, cached.route, (exchange) => answerRead(parts, exchange, cached.read));
}

function findTarget(
  { targets }: ServerParts,
  { method, url = '', headers }: IncomingMessage,
): CachedTarget | undefined {
  return method === 'GET' || method === 'HEAD' ? targets.find(url, answerForm(headers.accept)) : undefined;
}

/** A parsed read, or the fault that its parser threw. */
export type ParsedRead = CachedTarget | SharedRead | { readonly fault: unknown };

/** Answers a read that is parsed already. */
export function answerParsed(
  parts: ServerParts,
  received: IncomingExchange<Incoming, Outgoing>,
  route: Route,
  parsed: ParsedRead,
): void {
  if (parsed instanceof CachedTarget) return answerTarget(parts, received, parsed);
  return run(parts, received, route, (exchange) => {
    if ('fault' in parsed) throw parsed.fault;
    return answerShared(parts, exchange, parsed);
  });
}

/** Answers routes whose answers are written whole, and which need no parsed read: long polls, ledger info in JSON. */
export function answerWhole(parts: ServerParts, received: IncomingExchange<Incoming, Outgoing>, match: Match): void {
  const answer = match.route.kind === 'wait' ? answerWait : answerInfo;
  return run(parts, received, match.route, (exchange) => answer(parts, exchange, match));
}

/** Answers an admitted request by the kind of its route. */
function answer(parts: ServerParts, received: ServerRequest, match: Match | CachedTarget): void {
  if (match instanceof CachedTarget) return answerTarget(parts, received, match);
  const { route } = match;
  const { accept } = received.request.headers;
  switch (route.kind) {
    case 'read':
      return run(parts, received, route, (exchange) => {
        const read = parseTarget(parts, match, accept);
        if (read === undefined) return servePassed(parts, exchange, received, match);
        const work =
          read instanceof CachedTarget ? answerRead(parts, exchange, read.read) : answerShared(parts, exchange, read);
        return work?.catch((error: unknown) => {
          if (!(error instanceof LargeAnswerError)) throw error;
          return servePassed(parts, exchange, received, match);
        });
      });
    case 'wait':
      return run(parts, received, route, (exchange) => answerWait(parts, exchange, match));
    case 'posted':
      return answerPosted(parts, received, match);
    case 'encode':
      return answerEncode(parts, received, match);
    case 'submit':
      return withBody(parts, received, { match, check: () => requirePassable(received, match) }, (exchange, body) => {
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

/**
 * A long poll: callers of one hash share one wait at a node. Its node may be behind: what a look-up found committed
 * meanwhile is the newer answer.
 */
function answerWait(parts: ServerParts, exchange: Exchange<Outgoing>, match: Match): void | Promise<void> {
  const read = match.parse(exchange.request.headers.accept) as Read;
  const held = parts.reader.find(read);
  if (held !== undefined) return writeRead(parts, exchange, held);
  requireTime(parts);
  const newest = (served: ReadResult): ReadResult => (served.isFinal ? served : (parts.reader.find(read) ?? served));
  return parts.reader.load(read, exchange).then((served) => writeRead(parts, exchange, newest(served)));
}

function answerPosted(parts: ServerParts, received: ServerRequest, match: Match): void {
  const { accept, 'content-type': contentType, 'content-encoding': coding } = received.request.headers;
  // A compressed body has no canonical form here; such requests are rare, and nodes decode them.
  if (coding !== undefined) return answerPassed(parts, received, match);
  const check = (): void => match.checkBody(contentType);
  return withBody(parts, received, { match, check }, (exchange, body) => {
    const serve = (digest?: string): void | Promise<void> => {
      const read = match.parseBody({ target: match.target, accept, contentType, body, digest });
      if (read === undefined) return servePassed(parts, exchange, received, match, body);
      return answerRead(parts, exchange, read);
    };
    return body.length > bodyBounds.bytes ? digestInTurns(body).then(serve) : serve();
  });
}

/** Passes a request whose route has a parser, because the parser left it to a node. */
function servePassed(
  parts: ServerParts,
  exchange: Exchange,
  received: ServerRequest,
  match: Match,
  body?: Buffer,
): Promise<void> {
  requirePassable(received, match);
  requireTime(parts);
  return parts.passThrough.serve(exchange, match, body);
}

/** Answers a request for a short share. */
async function answerShared(parts: ServerParts, exchange: Exchange<Outgoing>, read: SharedRead): Promise<void> {
  requireTime(parts);
  return parts.writer.read(exchange, await parts.shares.load(read, exchange), parts.reader);
}

/** Without an encoder, or under an unusual spelling of its target, nodes encode. */
function answerEncode(parts: ServerParts, received: ServerRequest, match: Match): void {
  const { encoder, router } = parts;
  const isPlain = match.target === `${router.basePath}/transactions/encode_submission`;
  if (encoder === undefined || !isPlain) return answerPassed(parts, received, match);
  const check = (): void => requireJson(received.request.headers['content-type']);
  return withBody(parts, received, { match, check }, (exchange, body) => {
    requireTime(parts);
    return encoder.serve(exchange, match, body);
  });
}

function answerLedgerInfo(parts: ServerParts, exchange: Exchange, match: Match): void | Promise<void> {
  if (answerForm(exchange.request.headers.accept) !== 'bcs') return answerInfo(parts, exchange);
  requireTime(parts);
  return parts.passThrough.ledgerInfo(exchange, match);
}

function answerInfo(parts: ServerParts, exchange: Exchange<Outgoing>): void | Promise<void> {
  const { freshness } = parts;
  const info = freshness.findLedgerInfo(exchange.request);
  if (info !== undefined) return writeInfo(parts, exchange, info);
  return freshness.ledgerInfo(exchange.request, exchange.signal).then((found) => writeInfo(parts, exchange, found));
}

function writeInfo({ writer }: ServerParts, exchange: Exchange<Outgoing>, { body, version }: InfoBody): void {
  exchange.version = version;
  const head = ['Content-Type', 'application/json; charset=utf-8', 'Vary', writer.vary, 'Cache-Control', 'no-store'];
  head.push('Ledgergate-Served-Version', String(version));
  return writer.write(exchange, 200, head, body);
}

function answerPassed(parts: ServerParts, received: ServerRequest, match: Match): void {
  const { method } = match;
  const check = (): void => requirePassable(received, match);
  const serve = (exchange: Exchange, body: Buffer | undefined): Promise<void> => {
    if (match.isIdempotent) requireTime(parts);
    return parts.passThrough.serve(exchange, match, body);
  };
  const isBodiless = method === 'GET' || method === 'HEAD' || (method !== 'POST' && !announcesBody(received.request));
  if (!isBodiless) return withBody(parts, received, { match, check }, serve);
  return run(parts, received, match.route, (exchange) => {
    check();
    return serve(exchange, undefined);
  });
}

function answerPreflight({ cors, router }: ServerParts, exchange: Exchange): void {
  const head = cors.preflight(exchange.request);
  if (head === undefined) throw router.notAllowed(exchange.target);
  endWhereHttpDoes(exchange, head);
  exchange.response.writeHead(204, head).end();
  exchange.end();
}

/** Throws `GatewayError` 400, 404 or 415 for a request that no node may receive. */
function requirePassable({ request: { method, headers } }: ServerRequest, match: Match): void {
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
function run<Response extends Outgoing>(
  parts: ServerParts,
  received: IncomingExchange<Incoming, Response>,
  route: Route,
  serve: (exchange: Exchange<Response>) => void | Promise<void>,
): void {
  const exchange = new Exchange(received, route, parts.observer);
  exchange.bodyBytes = received.bodyBytes ?? 0;
  void guard(parts, exchange, () => serve(exchange));
}

/** `check`: throws `GatewayError` for a head that is refused before its body is read. */
interface Bodied {
  readonly match: Match;
  readonly check: () => void;
}

/** Reads the body, then runs `serve`. Faults of head or body become error answers. */
function withBody(
  parts: ServerParts,
  received: ServerRequest,
  { match, check }: Bodied,
  serve: (exchange: Exchange, body: Buffer) => void | Promise<void>,
): void {
  const { request, response, admitted } = received;
  // A client that hangs up before the body's end has no exchange.
  admitted?.settleAtClose(response);
  const faultOfHead = (): GatewayError | undefined => faultIn(check);
  parts.bodies.read({ request, response, client: clientOf(request, admitted), faultOfHead }, (body, reservation) => {
    const exchange = new Exchange(received, match.route, parts.observer);
    exchange.reservation = reservation;
    if (!Buffer.isBuffer(body)) return parts.writer.error(exchange, body);
    exchange.bodyBytes = body.length;
    return guard(parts, exchange, () => serve(exchange, body));
  });
}

function faultIn(check: () => void): GatewayError | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
}

/**
 * Runs `serve`; its exception becomes an error answer. The promise, if any, never rejects. Until it resolves, the plan
 * counts the request as in flight.
 */
function guard<Response extends Outgoing>(
  { writer }: ServerParts,
  exchange: Exchange<Response>,
  serve: () => void | Promise<void>,
): void | Promise<void> {
  try {
    const work = serve()?.catch((error: unknown) => writer.error(exchange, error));
    if (work !== undefined) exchange.admitted?.holdFor(work, exchange.response);
    return work;
  } catch (error) {
    return writer.error(exchange, error);
  }
}
