/** Serves each request by the kind of its route: a read, a passed request, or an answer of the gateway's own. */
import { bodyTurns, GatewayError } from '../../ledger/index.ts';
import { digestedBytes, digestInTurns, turnlessBytes } from './canonical-body.ts';
import { LargeAnswerError } from '../../upstream/index.ts';
import { answerForm, CachedTarget, type Exchange, type Service } from '../http/index.ts';
import type { Read, ReadResult, SharedRead } from '../reads/index.ts';
import { requireJson } from './parse-read.ts';
import { answerRead, parsePosted, parseTarget, type RouteParts, writeRead } from './read-answer.ts';
import type { Match } from './router.ts';

/** The head of a client's request. */
type Head = Parameters<Service['faultAheadOfBody']>[0];

/** The routes of the client port, for its transports. */
export function createService(parts: RouteParts): Service {
  const { router, targets } = parts;
  return {
    targets,
    match: (method, target) => router.match(method, target),
    faultOfMethod: (method, target) => router.faultOfMethod(method, target),
    notAllowed: (target) => router.notAllowed(target),
    // The router has made them (`match`).
    faultAheadOfBody: (request, matched) => faultAheadOfBody(parts, request, matched as Match),
    serve: (exchange, matched, body) => serve(parts, exchange, matched as Match | CachedTarget, body),
  };
}

/** The fault of a request's head, ahead of its body: `GatewayError` 400, 404 or 415. Throws nothing else. */
function faultAheadOfBody(parts: RouteParts, request: Head, match: Match): GatewayError | undefined {
  try {
    checkHead(parts, request, match);
    return undefined;
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
}

function checkHead(parts: RouteParts, request: Head, match: Match): void {
  const { 'content-type': type, 'content-encoding': coding } = request.headers;
  const { fault } = match;
  if (fault !== undefined) throw fault;
  // Compressed bodies of reads are passed.
  if (match.route.kind === 'posted' && coding === undefined) match.checkBody(type);
  else if (isEncoded(parts, match)) requireJson(type);
  else requirePassable(request, match);
}

/** Under an unusual spelling of its target, nodes encode. */
function isEncoded({ router }: RouteParts, { route, target }: Match): boolean {
  return route.kind === 'encode' && target === `${router.basePath}/transactions/encode_submission`;
}

/** Throws `GatewayError` 400, 404 or 415 for a request that no node may receive. */
function requirePassable({ method, headers }: Head, match: Match): void {
  const { 'content-type': type } = headers;
  const isRead = method === 'GET' || method === 'HEAD';
  if (!isRead && type !== undefined && !mediaTypeForm.test(type)) {
    throw new GatewayError('unsupportedMediaType', 'request refused');
  }
  void match.passedPath;
}

/** `type/subtype` with any parameters (RFC 9110 8.3.1). */
const mediaTypeForm = /^\s*[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+\s*(?:;|$)/;

/** `body`: of a request whose head has passed `checkHead`, where the route reads one. */
function serve(
  parts: RouteParts,
  exchange: Exchange,
  match: Match | CachedTarget,
  body?: Buffer,
): void | Promise<void> {
  if (match instanceof CachedTarget) return answerCached(parts, exchange, match);
  switch (match.route.kind) {
    case 'read':
      return answerTarget(parts, exchange, match);
    case 'wait':
      return answerWait(parts, exchange, match);
    case 'posted':
      return answerPosted(parts, exchange, match, body ?? noBody);
    case 'encode':
      return answerEncode(parts, exchange, match, body ?? noBody);
    case 'submit':
      exchange.answerDespiteHalfClose();
      return parts.passThrough.submit(exchange, match, body);
    case 'ledger info':
      return answerLedgerInfo(parts, exchange, match);
    case 'passed':
      if (body === undefined) requirePassable(exchange.request, match);
      return answerPassed(parts, exchange, match, body);
    case 'preflight':
      if (exchange.answerPreflight()) return undefined;
      throw parts.router.notAllowed(exchange.target);
    case 'none':
      throw match.fault ?? new Error('a refused request has no fault');
  }
}

const noBody = Buffer.alloc(0);

/**
 * A long poll: callers of one hash share one wait at a node. Its node may be behind: what a look-up found committed
 * meanwhile is the newer answer.
 */
function answerWait({ reader, freshness }: RouteParts, exchange: Exchange, match: Match): void | Promise<void> {
  const read = match.parse(exchange.request.headers.accept) as Read;
  const held = reader.find(read);
  if (held !== undefined) return writeRead(freshness, exchange, held);
  exchange.requireTime();
  const newest = (served: ReadResult): ReadResult =>
    served.entry.lifetimeMs > 0 ? served : (reader.find(read) ?? served);
  return reader.load(read, exchange).then((served) => writeRead(freshness, exchange, newest(served)));
}

function answerTarget(parts: RouteParts, exchange: Exchange, match: Match): void | Promise<void> {
  const read = parseTarget(parts, match, exchange.request.headers.accept);
  if (read === undefined) return passRead(parts, exchange, match);
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
    return passRead(parts, exchange, parts.router.match(request.method ?? '', target));
  });
}

function answerPosted(parts: RouteParts, exchange: Exchange, match: Match, body: Buffer): void | Promise<void> {
  const { accept, 'content-type': contentType, 'content-encoding': coding } = exchange.request.headers;
  // A compressed body has no canonical form here; such requests are rare, and nodes decode them.
  if (coding !== undefined) return answerPassed(parts, exchange, match, body);
  const parse = (digest?: string): Read | undefined => {
    const request = { target: match.target, accept, contentType, body, digest };
    return exchange.isWhole ? parsePosted(parts, match, request) : match.parseBody(request);
  };
  const serveRead = (read: Read | undefined): void | Promise<void> =>
    read === undefined ? passRead(parts, exchange, match, body) : answerRead(parts, exchange, read);
  if (body.length <= turnlessBytes) return serveRead(parse());
  const run = (digest?: string) => bodyTurns.run(exchange.client, () => parse(digest));
  const read = body.length > digestedBytes ? digestInTurns(body).then(run) : run();
  return read instanceof Promise ? read.then(serveRead) : serveRead(read);
}

/** Passes a request whose route has a parser, because the parser left it to a node. */
function passRead(parts: RouteParts, exchange: Exchange, match: Match, body?: Buffer): Promise<void> {
  requirePassable(exchange.request, match);
  exchange.requireTime();
  return parts.passThrough.serve(exchange, match, body);
}

/** Answers a request for a short share. */
async function answerShared({ shares }: RouteParts, exchange: Exchange, read: SharedRead): Promise<void> {
  exchange.requireTime();
  return exchange.answerRead(await shares.load(read, exchange));
}

function answerEncode(parts: RouteParts, exchange: Exchange, match: Match, body: Buffer): Promise<void> {
  const encoder = parts.encoder();
  if (encoder === undefined || !isEncoded(parts, match)) return answerPassed(parts, exchange, match, body);
  exchange.requireTime();
  return encoder.serve(exchange, match, body);
}

function answerLedgerInfo(parts: RouteParts, exchange: Exchange, match: Match): void | Promise<void> {
  if (answerForm(exchange.request.headers.accept) !== 'bcs') return answerInfo(parts, exchange);
  exchange.requireTime();
  return parts.passThrough.ledgerInfo(exchange, match);
}

function answerInfo({ freshness }: RouteParts, exchange: Exchange): void | Promise<void> {
  const info = freshness.findLedgerInfo(exchange.request);
  if (info !== undefined) return exchange.answerInfo(info);
  return freshness.ledgerInfo(exchange.request, exchange.signal).then((found) => exchange.answerInfo(found));
}

function answerPassed(parts: RouteParts, exchange: Exchange, match: Match, body: Buffer | undefined): Promise<void> {
  if (match.isIdempotent) exchange.requireTime();
  return parts.passThrough.serve(exchange, match, body);
}
