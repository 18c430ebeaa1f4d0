/**
 * Node's HTTP server on the clients' port and its connection rules: pipelines, refused connections, `Expect`, CONNECT.
 * Accepted requests go to `handle`.
 */
import type { IncomingMessage, RequestListener, Server, ServerOptions, ServerResponse } from 'node:http';
import fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';
import { GatewayError } from '../../../ledger/index.ts';
import { keepAliveMs } from '../heads.ts';
import { answerBrokenRequest, type ConnectionTimes, enterPipeline, refuseBehind, stateOf } from './connection-state.ts';
import { createServer, schemaController } from './lean-http.ts';
import { paceInput } from './paced-input.ts';
import { awaitContinue } from '../bodies.ts';
import { maxHeaderBytes, mostHeaders } from '../request-faults.ts';
import { handle, refuse, type ServerParts } from '../serve.ts';
import { TurnShares } from './turn-shares.ts';

function httpOptions({ headMs, requestMs, checkMs }: ConnectionTimes) {
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

/**
 * Builds the server; the caller calls `listen` and `close`. Fastify does both, and nothing else: its router, body parsers
 * and error texts would answer ahead of access control.
 */
export function createProxyServer(parts: ServerParts): FastifyInstance {
  return fastify({
    schemaController,
    serverFactory: () => createHttpServer(parts),
    clientErrorHandler: (error, socket) => {
      if (answerBrokenRequest(error, socket, () => liveHeaders(parts))) parts.observer.metrics.broken.inc();
    },
  });
}

/**
 * Builds a server for operators with the connection rules of the client port: pipelines, paced input, answers to malformed
 * requests. `guard` decides on requests ahead of Fastify's router.
 */
export function createGuardedServer(
  options: Pick<FastifyServerOptions, 'forceCloseConnections' | 'bodyLimit'>,
  httpOptions: ServerOptions,
  guard: (handler: RequestListener) => RequestListener,
): FastifyInstance {
  return fastify({
    ...options,
    schemaController,
    clientErrorHandler: (error, socket) => void answerBrokenRequest(error, socket, () => []),
    serverFactory: (handler) => {
      const guarded = guard(handler);
      const server = createServer(httpOptions, (request, response) => {
        // A refusal of malformed bytes is sent after the answers to the requests before them.
        if (enterPipeline(request.socket, response)) guarded(request, response);
      });
      paceInput(server, new TurnShares());
      return server;
    },
  });
}

/** Builds Node's server. With `parts.tls`, TLS and HTTP/2 precede it. */
function createHttpServer(parts: ServerParts): Server {
  const { service, times } = parts;
  /** Runs `serve` in the request's place in the pipeline, unless the connection is refused. */
  const take = (request: IncomingMessage, response: ServerResponse, serve: RequestListener): void => {
    if (!enterPipeline(request.socket, response)) return;
    // Node destroys the socket behind a request of this method, with its unsent answers (`onParserExecuteCommon` in
    // lib/_http_server.js). Its parser lets the method pass without a version alone, which is refused.
    if (request.method === 'PRI') request.method = '';
    if (!stateOf(request.socket).isRefused) return serve(request, response);
    // Node then writes `Connection: close`, and closes the connection after the answer.
    response.shouldKeepAlive = false;
    const reason = { reason: 'connections' } as const;
    const error = new GatewayError('unavailable', 'there are too many connections; try again', reason);
    return refuse(parts, { request, response }, error);
  };
  const serve: RequestListener = (request, response) =>
    take(request, response, (...received) => handle(parts, ...received));
  const refuseWith =
    (faultOf: (target: string) => GatewayError): RequestListener =>
    (request, response) =>
      take(request, response, () => refuse(parts, { request, response }, faultOf(request.url ?? '')));
  const server = createServer(httpOptions(times), serve);
  // One more than allowed, which makes an excess visible.
  server.maxHeadersCount = mostHeaders + 1;
  server.timeout = times.inactivityMs;
  // Node would write `100 Continue` ahead of every refusal.
  server.on('checkContinue', (request, response) =>
    take(request, response, () => {
      awaitContinue(request, response);
      handle(parts, request, response);
    }),
  );
  // Any other `Expect`. Node's own refusal has no body.
  server.on(
    'checkExpectation',
    refuseWith(() => new GatewayError('expectationFailed', 'only 100-continue can be expected')),
  );
  // The gateway opens no tunnels; Node would close the connection without an answer.
  server.on('connect', (request: IncomingMessage, socket) => {
    // Node removes its own listeners: an error would end the process.
    socket.on('error', () => socket.destroy()).on('timeout', () => socket.destroy());
    refuseBehind(socket, service.notAllowed(request.url ?? ''), () => liveHeaders(parts));
    // Without a reader, the socket would not report its end.
    socket.resume();
  });
  // Half-closed connections reach `onHalfClose` in connection-state.ts.
  Object.assign(server, { httpAllowHalfOpen: true });
  paceInput(server, parts.turns);
  return (
    parts.tls?.wrap(server, {
      connect: refuseWith((target) => service.notAllowed(target)),
      refuse: (request, response, error) => refuse(parts, { request, response }, error),
    }) ?? server
  );
}

/** Flat headers of an answer without a response object. */
function liveHeaders({ fleet, heads }: ServerParts): readonly string[] {
  return ['Vary', heads.vary, ...fleet.view.headers];
}
