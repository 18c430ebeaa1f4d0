/** Every client request over every transport: match, admit, answer. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { bodyTurns, turnlessBytes } from '../../ledger/index.ts';
import { digestedBytes, digestInTurns } from './canonical-body.ts';
import { LargeAnswerError } from '../../upstream/index.ts';
import {
  announcesBody,
  answerDespiteHalfClose,
  answerForm,
  CachedTarget,
  endWhereHttpDoes,
  type Exchange,
  faultOfHead,
  originForm,
  type Received,
  type Service,
} from '../http/index.ts';
import type { Read, ReadResult, SharedRead } from '../reads/index.ts';
import { answerRead, writeRead, parsePosted, parseTarget, requireTime } from './read-answer.ts';
import type { Match } from './router.ts';
import { faultAheadOfBody, isEncoded, refuse, requirePassable, run, withBody } from './run-request.ts';
import type { RouteParts } from './route-parts.ts';

/** The routes of the client port, for its transports. */
export function createService(parts: RouteParts): Service {
  const { router } = parts;
  return {
    match: (method, target) => router.match(method, target),
    handle: (request, response) => handle(parts, request, response),
    // The router has made them (`match`).
    answer: (received, matched) => answer(parts, received, matched as Match | CachedTarget),
    refuse: (received, error, route) => refuse(parts, received, error, route),
    faultAheadOfBody: (request, matched) => faultAheadOfBody(parts, request, matched as Match),
    notAllowed: (target) => router.notAllowed(target),
  };
}

/** Answers a request whose head has arrived. */
function handle(parts: RouteParts, request: IncomingMessage, response: ServerResponse): void {
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

function findTarget({ targets }: RouteParts, { method, url = '', headers }: IncomingMessage): CachedTarget | undefined {
  return method === 'GET' || method === 'HEAD' ? targets.find(url, answerForm(headers.accept)) : undefined;
}

/** Answers an admitted request by the kind of its route. */
function answer(parts: RouteParts, received: Received, match: Match | CachedTarget): void {
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

/**
 * A long poll: callers of one hash share one wait at a node. Its node may be behind: what a look-up found committed
 * meanwhile is the newer answer.
 */
function answerWait(parts: RouteParts, exchange: Exchange, match: Match): void | Promise<void> {
  const read = match.parse(exchange.request.headers.accept) as Read;
  const held = parts.reader.find(read);
  if (held !== undefined) return writeRead(parts, exchange, held);
  requireTime(parts);
  const newest = (served: ReadResult): ReadResult =>
    served.entry.lifetimeMs > 0 ? served : (parts.reader.find(read) ?? served);
  return parts.reader.load(read, exchange).then((served) => writeRead(parts, exchange, newest(served)));
}

function answerTarget(parts: RouteParts, exchange: Exchange, match: Match): void | Promise<void> {
  const read = parseTarget(parts, match, exchange.request.headers.accept);
  if (read === undefined) return servePassed(parts, exchange, match);
  if (read instanceof CachedTarget) return answerCached(parts, exchange, read);
  return orStreamed(parts, exchange, answerShared(parts, exchange, read));
}

function answerCached(parts: RouteParts, exchange: Exchange, { route, read }: CachedTarget): void | Promise<void> {
  const work = answerRead(parts, exchange, read);
  return work === undefined || route.kind !== 'read' ? work : orStreamed(parts, exchange, work);
}

/** Streams the answer of a node that is too large to be read whole. */
function orStreamed(parts: RouteParts, exchange: Exchange, work: Promise<void>): Promise<void> {
  return work.catch((error: unknown) => {
    if (!(error instanceof LargeAnswerError)) throw error;
    const { request, target } = exchange;
    return servePassed(parts, exchange, parts.router.match(request.method ?? '', target));
  });
}

function answerPosted(parts: RouteParts, received: Received, match: Match): void {
  const { accept, 'content-type': contentType, 'content-encoding': coding } = received.request.headers;
  // A compressed body has no canonical form here; such requests are rare, and nodes decode them.
  if (coding !== undefined) return answerPassed(parts, received, match);
  return withBody(parts, received, match, (exchange, body) => {
    const parse = (digest?: string): Read | undefined => {
      const request = { target: match.target, accept, contentType, body, digest };
      return received.body === undefined ? match.parseBody(request) : parsePosted(parts, match, request);
    };
    const serve = (read: Read | undefined): void | Promise<void> => {
      if (read === undefined) return servePassed(parts, exchange, match, body);
      return answerRead(parts, exchange, read);
    };
    if (body.length <= turnlessBytes) return serve(parse());
    const run = (digest?: string) => bodyTurns.run(exchange.client, () => parse(digest));
    const read = body.length > digestedBytes ? digestInTurns(body).then(run) : run();
    return read instanceof Promise ? read.then(serve) : serve(read);
  });
}

/** Passes a request whose route has a parser, because the parser left it to a node. */
function servePassed(parts: RouteParts, exchange: Exchange, match: Match, body?: Buffer): Promise<void> {
  requirePassable(exchange.request, match);
  requireTime(parts);
  return parts.passThrough.serve(exchange, match, body);
}

/** Answers a request for a short share. */
async function answerShared(parts: RouteParts, exchange: Exchange, read: SharedRead): Promise<void> {
  requireTime(parts);
  return parts.writer.read(exchange, await parts.shares.load(read, exchange), parts.reader);
}

function answerEncode(parts: RouteParts, received: Received, match: Match): void {
  const encoder = parts.encoder();
  if (encoder === undefined || !isEncoded(parts, match)) return answerPassed(parts, received, match);
  return withBody(parts, received, match, (exchange, body) => {
    requireTime(parts);
    return encoder.serve(exchange, match, body);
  });
}

function answerLedgerInfo(parts: RouteParts, exchange: Exchange, match: Match): void | Promise<void> {
  if (answerForm(exchange.request.headers.accept) !== 'bcs') return answerInfo(parts, exchange);
  requireTime(parts);
  return parts.passThrough.ledgerInfo(exchange, match);
}

function answerInfo(parts: RouteParts, exchange: Exchange): void | Promise<void> {
  const { freshness, writer } = parts;
  const info = freshness.findLedgerInfo(exchange.request);
  if (info !== undefined) return writer.info(exchange, info);
  return freshness.ledgerInfo(exchange.request, exchange.signal).then((found) => writer.info(exchange, found));
}

function answerPassed(parts: RouteParts, received: Received, match: Match): void {
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

function answerPreflight({ cors, router }: RouteParts, exchange: Exchange): void {
  const head = cors.preflight(exchange.request);
  if (head === undefined) throw router.notAllowed(exchange.target);
  endWhereHttpDoes(exchange, head);
  exchange.response.writeHead(204, head);
  exchange.response.end(undefined);
  exchange.end();
}
