/**
 * Node's HTTP server on the clients' port and its connection rules: pipelines, refused connections, `Expect`, CONNECT.
 * Accepted requests go to `handle`.
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

/** Milliseconds; longer than the usual deadline, and than the time that clients of streamed answers have. */
export const usualInactivityMs = 90_000;

/** Milliseconds; longer than balancers keep idle connections (60 s), so that none sends into a closing one. */
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
    // `faultOfHost` checks it: Node's own refusal has no body.
    requireHostHeader: false,
    // Node would silently take the first of two Host headers or content types; joined, both are refused.
    joinDuplicateHeaders: true,
  };
}

/** Builds the server. With `parts.tls`, TLS and HTTP/2 precede it. */
export function createHttpServer(parts: ServerParts): Server {
  const { router, times } = parts;
  /** Runs `serve` in the request's place in the pipeline, unless the connection is refused. */
  const take = (request: IncomingMessage, response: ServerResponse, serve: RequestListener): void => {
    const turn = enterPipeline(request.socket, response);
    if (turn === 'ignore') return;
    const isOverLimit = isRefused(request.socket);
    // Node then writes `Connection: close`, and closes the connection after the answer.
    if (turn === 'last' || isOverLimit) response.shouldKeepAlive = false;
    if (isOverLimit)
      refuse(
        parts,
        { request, response },
        new GatewayError('unavailable', 'there are too many connections; try again'),
      );
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
  // One more than allowed, which makes an excess visible.
  server.maxHeadersCount = mostHeaders + 1;
  server.timeout = times.inactivityMs ?? usualInactivityMs;
  server.on('checkContinue', serveExpecting);
  // Node's own refusal has no body. `Expect: 100-continue` emits 'checkContinue' instead.
  server.on('checkExpectation', refuseExpectation);
  // The gateway opens no tunnels; Node would close the connection without an answer.
  server.on('connect', (request: IncomingMessage, socket) => {
    // Node removes its own listeners: an error would end the process.
    socket.on('error', () => socket.destroy()).on('timeout', () => socket.destroy());
    refuseBehind({ socket, headers: () => liveHeaders(parts) }, router.notAllowed(request.url ?? ''));
    // Without a reader, the socket would not report its end.
    socket.resume();
  });
  // Half-closed connections reach `onHalfClose` in connection-state.ts.
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

/** Flat headers of an answer without a response object. */
export function liveHeaders({ fleet, writer }: ServerParts): readonly string[] {
  return ['Vary', writer.vary, ...fleet.view.headers];
}
