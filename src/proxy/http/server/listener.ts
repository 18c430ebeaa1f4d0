/**
 * Node's HTTP server on the clients' port, and the rules of its connections: turns of pipelined requests, refused
 * connections, `Expect`, CONNECT. Every request that they let through goes to `handle`.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { GatewayError } from '../../../ledger/errors.ts';
import { refuseBehind } from './broken-request.ts';
import { isRefused, enterPipeline } from './connection-state.ts';
import { handle, refuse } from '../../routes/handle.ts';
import { createServer } from './lean-http.ts';
import { awaitContinue } from '../request-body.ts';
import { maxHeaderBytes, mostHeaders } from '../request-faults.ts';
import type { ConnectionTimes, ServerParts } from '../../routes/server-parts.ts';

/** Longer than the deadline that a config usually sets, and than what clients of streamed answers are given. */
export const usualInactivityMs = 90_000;

/** Longer than balancers keep idle connections (60 s), so that they never send into one that is closing. */
export const keepAliveMs = 75_000;
/** Default of `ConnectionTimes.headMs`. */
export const usualHeadMs = 15_000;
/** Default of `ConnectionTimes.requestMs`. */
export const usualRequestMs = 60_000;
/** Default of `ConnectionTimes.checkMs`. */
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
    // Node would silently take the first of two Host headers, or content types; joined they are neither.
    joinDuplicateHeaders: true,
  };
}

/** Builds the server, with TLS and HTTP/2 ahead of it where `parts.tls` is there. */
export function createHttpServer(parts: ServerParts): Server {
  const { router, times } = parts;
  /** Runs `serve` in the request's turn on its connection, unless the connection is refused. */
  const take = (request: IncomingMessage, response: ServerResponse, serve: RequestListener): void => {
    const turn = enterPipeline(request.socket, response);
    if (turn === 'ignore') return;
    const isOverLimit = isRefused(request.socket);
    // Node writes `Connection: close` then, and closes the connection behind the answer.
    if (turn === 'last' || isOverLimit) response.shouldKeepAlive = false;
    if (isOverLimit) refuse(parts, { request, response }, tooManyConnections());
    else serve(request, response);
  };
  const serve: RequestListener = (request, response) =>
    take(request, response, (...received) => handle(parts, ...received));
  // Node would write `100 Continue` ahead of every refusal.
  const serveExpecting: RequestListener = (request, response) =>
    take(request, response, () => {
      awaitContinue(request, response);
      handle(parts, request, response);
    });
  const refuseWith =
    (faultOf: (target: string) => GatewayError): RequestListener =>
    (request, response) =>
      take(request, response, () => refuse(parts, { request, response }, faultOf(request.url ?? '')));
  const refuseExpectation = refuseWith(
    () => new GatewayError('expectationFailed', 'only 100-continue can be expected'),
  );
  const server = createServer(httpOptions(times), serve);
  // One more than are allowed, so that an excess shows.
  server.maxHeadersCount = mostHeaders + 1;
  server.timeout = times.inactivityMs ?? usualInactivityMs;
  server.on('checkContinue', serveExpecting);
  // Node's own refusal has no body. `Expect: 100-continue` does not come here.
  server.on('checkExpectation', refuseExpectation);
  // Nothing is tunnelled; Node would close the connection without an answer.
  server.on('connect', (request: IncomingMessage, socket) => {
    // Node takes its own listeners off: an error would end the process.
    socket.on('error', () => socket.destroy()).on('timeout', () => socket.destroy());
    refuseBehind({ socket, headers: () => liveHeaders(parts) }, router.notAllowed(request.url ?? ''));
    // Without a reader the end of the connection would not show.
    socket.resume();
  });
  // Which answers are given to a client that sends no more is decided in connection-state.ts.
  Object.assign(server, { httpAllowHalfOpen: true });
  return (
    parts.tls?.wrap(server, {
      request: serve,
      expecting: serveExpecting,
      connect: refuseWith((target) => router.notAllowed(target)),
      expectation: refuseExpectation,
      refuse: (request, response, error) => refuse(parts, { request, response }, error),
      maxHeaderBytes,
    }) ?? server
  );
}

function tooManyConnections(): GatewayError {
  return new GatewayError('unavailable', 'there are too many connections; try again');
}

/** Headers of answers that have no response object. */
export function liveHeaders({ fleet, writer }: ServerParts): readonly string[] {
  return ['Vary', writer.vary, ...fleet.view.headers];
}
