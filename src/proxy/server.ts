/**
 * The listening port: which route a request takes. Every answer, framework faults included, is written by `Replier`,
 * so that all of them carry the live ledger headers and errors have the specified body.
 */
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { RouteName } from '../metrics/http-metrics.ts';
import { answerRead, giveRead, guard, takeBody } from './answer-read.ts';
import { answerBrokenRequest } from './broken-request.ts';
import { Exchange } from './exchange.ts';
import { createHttpServer, newestResponse } from './listener.ts';
import { moduleRead, type ModuleParameters } from './module.ts';
import { answerForm } from './negotiate.ts';
import type { PathRead } from './path-read.ts';
import type { Read } from './read.ts';
import { announcesBody } from './request-body.ts';
import { asGatewayError, notAllowed, notFound } from './request-faults.ts';
import { resourceRead, type ResourceParameters } from './resource.ts';
import type { ServerParts } from './server-parts.ts';
import { longestTarget } from './target.ts';
import { transactionRead, transactionWait } from './transaction.ts';
import { viewRead } from './view.ts';

/** Builds the server; `listen` and `close` are the caller's. */
export function createProxyServer(parts: ServerParts): FastifyInstance {
  const app = fastify({
    exposeHeadRoutes: false,
    // Whoever got a request in while the gateway leaves is answered.
    return503OnClosing: false,
    // Fastify matches a path parameter only up to 100 characters by default. Generic struct tags are longer and would
    // silently become pass-through requests: correct answers, never cached.
    routerOptions: { maxParamLength: longestTarget },
    serverFactory: (handler) => createHttpServer(handler, parts),
    clientErrorHandler: (error, socket) =>
      answerBrokenRequest(error, {
        socket,
        newest: newestResponse(socket),
        ledgerHeaders: parts.replier.ledgerHeaders(),
      }),
    frameworkErrors: (error, request, reply) => fail(parts, 'none', request, reply, error),
  });
  app.removeAllContentTypeParsers();
  // Bodies are read by the routes, so that all of them are within one bound.
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  app.setErrorHandler((error, request, reply) => fail(parts, 'none', request, reply, error));
  app.setNotFoundHandler((request, reply) => {
    const isKnownPath = request.raw.url?.startsWith(`${parts.basePath}/`) === true;
    fail(parts, 'none', request, reply, isKnownPath ? notAllowed() : notFound());
  });
  addRoutes(app, parts);
  return app;
}

function addRoutes(app: FastifyInstance, parts: ServerParts): void {
  const { basePath, submissions, passThrough } = parts;
  const methods = ['GET', 'HEAD'];
  const get = (name: RouteName, path: string, parse: (request: FastifyRequest) => Read): void => {
    app.route({ method: methods, url: basePath + path, handler: serveRead(parts, name, parse) });
  };
  get('resource', '/accounts/:address/resource/:tag', (request) =>
    resourceRead(request.params as ResourceParameters, pathRead(request)),
  );
  get('module', '/accounts/:address/module/:name', (request) =>
    moduleRead(request.params as ModuleParameters, pathRead(request)),
  );
  get('transaction_by_hash', '/transactions/by_hash/:hash', (request) =>
    transactionRead(hashOf(request), pathRead(request), submissions),
  );
  app.route({
    method: 'POST',
    url: `${basePath}/view`,
    handler: (request, reply) => {
      // Nodes read compressed bodies; what is inside is theirs to see, and such a request is rare.
      if (request.headers['content-encoding'] === undefined) serveView(parts, request, reply);
      else serveRaw(parts, 'view', request, reply);
    },
  });
  app.route({
    method: 'POST',
    url: `${basePath}/transactions/encode_submission`,
    // Without an encoder, or under an unusual spelling of its target: nodes encode.
    handler: (request, reply) => serveRaw(parts, 'encode_submission', request, reply),
  });
  for (const path of ['/transactions', '/transactions/batch']) {
    app.route({
      method: 'POST',
      url: basePath + path,
      handler: (request, reply) =>
        runWithBody(parts, 'submit', request, reply, (exchange, body) => passThrough.submit(exchange, body)),
    });
  }
  app.route({
    method: 'GET',
    url: `${basePath}/transactions/wait_by_hash/:hash`,
    handler: (request, reply) => serveWait(parts, request, reply),
  });
  app.options('*', (request, reply) => servePreflight(parts, request, reply));
  const others = ['POST', 'PUT', 'PATCH', 'DELETE'];
  app.route({
    method: methods,
    url: basePath === '' ? '/' : basePath,
    handler: (request, reply) => serveLedgerInfo(parts, request, reply),
  });
  for (const url of basePath === '' ? ['/*'] : [basePath, `${basePath}/*`]) {
    app.route({
      method: url === basePath ? others : [...methods, ...others],
      url,
      handler: (request, reply) => serveRaw(parts, 'pass_through', request, reply),
    });
  }
}

/** A read by path: from memory at once, or from the fleet. */
function serveRead(parts: ServerParts, name: RouteName, parse: (request: FastifyRequest) => Read) {
  return (request: FastifyRequest, reply: FastifyReply): void =>
    run(parts, name, request, reply, (exchange) => {
      const read = parse(request);
      parts.aliases.learn(exchange.target, request.headers.accept, { route: name, read });
      return answerRead(parts, exchange, read);
    });
}

function serveView(parts: ServerParts, request: FastifyRequest, reply: FastifyReply): void {
  runWithBody(parts, 'view', request, reply, (exchange, body) =>
    answerRead(parts, exchange, viewRead({ ...pathRead(request), contentType: contentTypeOf(request), body })),
  );
}

function serveLedgerInfo(parts: ServerParts, request: FastifyRequest, reply: FastifyReply): void {
  run(parts, 'ledger_info', request, reply, async (exchange) => {
    if (answerForm(request.headers.accept) === 'bcs') return parts.passThrough.serve(exchange, undefined);
    const body = await parts.latestReads.ledgerInfo(request.raw, exchange.signal);
    const head = ['Content-Type', 'application/json; charset=utf-8', 'Cache-Control', 'no-store'];
    parts.replier.write(exchange, 200, head, body);
    return undefined;
  });
}

/** A long poll: never kept and never shared, because each client waits on its own. */
function serveWait(parts: ServerParts, request: FastifyRequest, reply: FastifyReply): void {
  run(parts, 'wait_by_hash', request, reply, async (exchange) => {
    const read = transactionWait(hashOf(request), pathRead(request), parts.submissions);
    await giveRead(parts, exchange, await parts.reader.ask(read, exchange.signal));
  });
}

function serveRaw(parts: ServerParts, name: RouteName, request: FastifyRequest, reply: FastifyReply): void {
  const { passThrough } = parts;
  const isBodiless = request.method !== 'POST' && (isGet(request.method) || !announcesBody(request.raw));
  if (isBodiless) run(parts, name, request, reply, (exchange) => passThrough.serve(exchange, undefined));
  else runWithBody(parts, name, request, reply, (exchange, body) => passThrough.serve(exchange, body));
}

function servePreflight(parts: ServerParts, request: FastifyRequest, reply: FastifyReply): void {
  run(parts, 'none', request, reply, (exchange) => {
    const head = parts.cors.preflight(request.raw);
    if (head === undefined) throw notAllowed();
    exchange.response.writeHead(204, head).end();
    exchange.end();
  });
}

/** Takes the answer out of Fastify's hands and gives `serve` the exchange; whatever it throws becomes an error answer. */
function run(
  parts: ServerParts,
  name: RouteName,
  request: FastifyRequest,
  reply: FastifyReply,
  serve: (exchange: Exchange) => void | Promise<void>,
): void {
  reply.hijack();
  const exchange = new Exchange(request.raw, reply.raw, name, parts.observer);
  guard(parts, exchange, () => serve(exchange));
}

/** As `run`, when the body is there. */
function runWithBody(
  parts: ServerParts,
  name: RouteName,
  request: FastifyRequest,
  reply: FastifyReply,
  serve: (exchange: Exchange, body: Buffer) => void | Promise<void>,
): void {
  reply.hijack();
  takeBody(parts, name, { request: request.raw, response: reply.raw }, serve);
}

function fail(parts: ServerParts, name: RouteName, request: FastifyRequest, reply: FastifyReply, error: unknown): void {
  run(parts, name, request, reply, () => {
    throw asGatewayError(error);
  });
}

function pathRead(request: FastifyRequest): PathRead {
  return { target: request.raw.url ?? '', accept: request.headers.accept };
}

function hashOf(request: FastifyRequest): string {
  return (request.params as { hash: string }).hash;
}

function contentTypeOf(request: FastifyRequest): string | undefined {
  return request.headers['content-type'];
}

function isGet(method: string): boolean {
  return method === 'GET' || method === 'HEAD';
}
