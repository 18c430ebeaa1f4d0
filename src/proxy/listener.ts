/**
 * What happens to a request before it is routed: what is no fit request is refused, what has been read before under the
 * same text is answered from memory, and signing messages go straight to the encoder. Where there are keys and limits
 * (gatekeeper.ts), nothing of it happens to whom they keep out.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { GatewayError } from '../ledger/errors.ts';
import { refuseBehind } from './broken-request.ts';
import { findHit, giveRead, guard, isOfLatest, requireTime, takeBody } from './answer-read.ts';
import { isRefused, takeTurn } from './connection-state.ts';
import { statesDemand } from './freshness.ts';
import { requireJson } from './encode-submission.ts';
import { Exchange } from './exchange.ts';
import type { Gatekeeper } from './gatekeeper.ts';
import { answerForm } from './negotiate.ts';
import { createServer } from './node-http.ts';
import { awaitContinue } from './request-body.ts';
import { faultOfHead, maxHeaderBytes, mostHeaders, notAllowed } from './request-faults.ts';
import type { ServerParts } from './server-parts.ts';
import { originForm } from './target.ts';

/** How long a client may take, in milliseconds. */
export interface ConnectionTimes {
  /** For a request's head, from the first byte or, before any, from the connection on. */
  readonly headMs?: number;
  /** For a whole request. */
  readonly requestMs?: number;
  /** How often is looked at who is over time. */
  readonly checkMs?: number;
  /** Nothing read or written for so long while a request is under way: the client takes nothing of its answer. */
  readonly inactivityMs?: number;
}

/** Longer than the deadline that a config usually sets, and than what clients of streamed answers are given. */
export const usualInactivityMs = 90_000;

/** Longer than balancers keep idle connections (60 s), so that they never send into one that is closing. */
export const keepAliveMs = 75_000;
export const usualHeadMs = 15_000;
export const usualRequestMs = 60_000;
export const usualCheckMs = 2_500;

function httpOptions({ headMs = usualHeadMs, requestMs = usualRequestMs, checkMs = usualCheckMs }: ConnectionTimes) {
  return {
    maxHeaderSize: maxHeaderBytes,
    headersTimeout: headMs,
    requestTimeout: requestMs,
    connectionsCheckingInterval: checkMs,
    keepAliveTimeout: keepAliveMs,
    // Checked below: Node's own refusal has no body.
    requireHostHeader: false,
    // Of two Host headers, or two content types, Node would take the first without a word; joined they are neither.
    joinDuplicateHeaders: true,
  };
}

/** The HTTP server that `handler` routes for. */
export function createHttpServer(
  handler: (request: IncomingMessage, response: ServerResponse) => void,
  parts: ServerParts,
): Server {
  const { replier, observer, times } = parts;
  const refuse = (request: IncomingMessage, response: ServerResponse, error: unknown): void =>
    replier.error(new Exchange(request, response, 'none', observer), error);
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    if (!answerKnown(parts, request, response) && !takeEncode(parts, request, response)) handler(request, response);
  };
  const enter = (gatekeeper: Gatekeeper, request: IncomingMessage, response: ServerResponse): void =>
    gatekeeper.admit(request, response, {
      serve: () => answer(request, response),
      refuse: (error) => refuse(request, response, error),
    });
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    request.url = originForm(request.url ?? '');
    const fault = faultOfHead(request);
    try {
      if (fault !== undefined) throw fault;
      if (parts.gatekeeper === undefined) answer(request, response);
      else enter(parts.gatekeeper, request, response);
    } catch (error) {
      refuse(request, response, error);
    }
  };
  const take = (request: IncomingMessage, response: ServerResponse, answer: typeof serve): void => {
    const turn = takeTurn(request.socket, response);
    if (turn === 'ignore') return;
    // Node says `Connection: close` then, and does it once the answer is out.
    if (turn === 'last' || isRefused(request.socket)) response.shouldKeepAlive = false;
    if (isRefused(request.socket)) refuse(request, response, tooManyConnections());
    else answer(request, response);
  };
  const server = createServer(httpOptions(times), (request, response) => take(request, response, serve));
  // What comes after is not looked at: more than are allowed, so that it is seen that there were more.
  server.maxHeadersCount = mostHeaders + 1;
  server.timeout = times.inactivityMs ?? usualInactivityMs;
  // Node would write `100 Continue` ahead of every refusal.
  const serveExpecting: typeof serve = (request, response) => {
    awaitContinue(request, response);
    serve(request, response);
  };
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) =>
    take(request, response, serveExpecting),
  );
  // Node's own refusal has no body. `Expect: 100-continue` does not come here.
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    take(request, response, () =>
      refuse(request, response, new GatewayError('expectationFailed', 'only 100-continue can be expected')),
    );
  });
  // Nothing is tunnelled; Node would close the connection without a word.
  server.on('connect', (request: IncomingMessage, socket) => {
    // Node takes its own listeners off: an error would end the process.
    socket.on('error', () => socket.destroy()).on('timeout', () => socket.destroy());
    refuseBehind({ socket, headers: () => headersNow(parts) }, notAllowed(request.url ?? ''));
    // Without a reader the end of the connection would not show.
    socket.resume();
  });
  // Which answers are given to a client that sends no more is decided in connection-state.ts.
  Object.assign(server, { httpAllowHalfOpen: true });
  return (
    parts.tls?.wrap(server, {
      request: (request, response) => take(request, response, serve),
      expecting: (request, response) => take(request, response, serveExpecting),
      unserved: (request, response, error) => take(request, response, () => refuse(request, response, error)),
      refuse,
      maxHeaderBytes,
    }) ?? server
  );
}

function tooManyConnections(): GatewayError {
  return new GatewayError('unavailable', 'there are too many connections; try again');
}

/** Headers of answers that have no response object. */
export function headersNow({ fleet, replier }: ServerParts): readonly string[] {
  return ['Vary', replier.vary, ...fleet.view.headers];
}

/** Answers from memory what has been read before under the same text, ahead of routing. False: not answered. */
function answerKnown(parts: ServerParts, request: IncomingMessage, response: ServerResponse): boolean {
  if (request.method !== 'GET' && request.method !== 'HEAD') return false;
  const alias = parts.aliases.find(request.url ?? '', answerForm(request.headers.accept));
  // What a client asks of freshness may be unreadable: such a request is answered where errors are.
  if (alias !== undefined && isOfLatest(alias.read) && statesDemand(request)) return false;
  const hit = alias === undefined ? undefined : findHit(parts, alias.read, request);
  if (alias === undefined || hit === undefined) return false;
  const exchange = new Exchange(request, response, alias.route, parts.observer);
  void guard(parts, exchange, () => giveRead(parts, exchange, hit));
  return true;
}

/** Takes a request for a signing message ahead of routing: that costs as much again as encoding. False: not taken. */
function takeEncode(parts: ServerParts, request: IncomingMessage, response: ServerResponse): boolean {
  const { encoder, basePath } = parts;
  if (encoder === undefined || request.method !== 'POST') return false;
  if (request.url !== `${basePath}/transactions/encode_submission`) return false;
  const check = (): void => requireJson(request.headers['content-type']);
  takeBody(parts, 'encode_submission', { request, response, check }, (exchange, body) => {
    requireTime(parts);
    return encoder.serve(exchange, body);
  });
  return true;
}
