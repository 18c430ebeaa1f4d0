/**
 * The listening port: what is done with each kind of request. Every answer, framework faults included, is written by `Replier`,
 * so that all of them carry the live ledger headers and errors have the specified body.
 */
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { digestInTurns } from '../cache/digest-in-turns.ts';
import { bodyBounds } from '../ledger/body-bounds.ts';
import type { RouteName } from '../metrics/http-metrics.ts';
import { answerRead, giveRead, guard, requireTime, takeBody, type Bodied } from './answer-read.ts';
import { answerBrokenRequest } from './broken-request.ts';
import { seeThrough } from './connection-state.ts';
import { Exchange } from './exchange.ts';
import { createHttpServer, headersNow } from './listener.ts';
import { answerForm } from './negotiate.ts';
import { passedPath } from './passed-path.ts';
import { announcesBody } from './request-body.ts';
import { endWhereHttpDoes } from './reply.ts';
import { schemaController } from './no-schemas.ts';
import { asGatewayError, notAllowed } from './request-faults.ts';
import {
  addRoutes,
  faultOfUnknown,
  isGet,
  parseView,
  routerOptions,
  type ParseRead,
  type RouteHandlers,
} from './routes.ts';
import type { ServerParts } from './server-parts.ts';
import { viewContentType } from './view.ts';

/** Builds the server; `listen` and `close` are the caller's. */
export function createProxyServer(parts: ServerParts): FastifyInstance {
  const app = fastify({
    exposeHeadRoutes: false,
    schemaController,
    // Whoever got a request in while the gateway leaves is answered.
    return503OnClosing: false,
    routerOptions,
    serverFactory: (handler) => createHttpServer(handler, parts),
    clientErrorHandler: (error, socket) => {
      if (answerBrokenRequest(error, { socket, headers: () => headersNow(parts) })) parts.observer.metrics.broken();
    },
    frameworkErrors: (error, request, reply) => fail(parts, 'none', request, reply, error),
  });
  app.setErrorHandler((error, request, reply) => fail(parts, 'none', request, reply, error));
  app.setNotFoundHandler((request, reply) =>
    fail(parts, 'none', request, reply, faultOfUnknown(parts.basePath, request)),
  );
  addRoutes(app, parts, handlersOf(parts));
  return app;
}

/** What is done with a request of each kind. */
function handlersOf(parts: ServerParts): RouteHandlers {
  const { passThrough } = parts;
  return {
    read: (name, parse) => serveRead(parts, name, parse),
    view: (request, reply) => serveView(parts, request, reply),
    raw: (name) => (request, reply) => serveRaw(parts, name, request, reply),
    submit: (request, reply) =>
      runWithBody(parts, 'submit', { request, reply }, (exchange, body) => {
        seeThrough(exchange.response);
        return passThrough.submit(exchange, body);
      }),
    wait: (parse) => (request, reply) => serveWait(parts, parse, request, reply),
    ledgerInfo: (request, reply) => serveLedgerInfo(parts, request, reply),
    preflight: (request, reply) => servePreflight(parts, request, reply),
  };
}

/** A read by path: from memory at once, or from the fleet. */
function serveRead(parts: ServerParts, name: RouteName, parse: ParseRead) {
  return (request: FastifyRequest, reply: FastifyReply): void =>
    run(parts, name, request, reply, (exchange) => {
      const read = parse(request);
      parts.aliases.learn(exchange.target, { route: name, read });
      return answerRead(parts, exchange, read);
    });
}

function serveView(parts: ServerParts, request: FastifyRequest, reply: FastifyReply): void {
  const serve = (exchange: Exchange, body: Buffer): void | Promise<void> => {
    const answer = (digest?: string) => answerRead(parts, exchange, parseView(request, body, digest));
    return body.length > bodyBounds.bytes ? digestInTurns(body).then(answer) : answer();
  };
  const check = (): void => void viewContentType(request.headers['content-type']);
  runWithBody(parts, 'view', { request, reply, check }, serve);
}

function serveLedgerInfo(parts: ServerParts, request: FastifyRequest, reply: FastifyReply): void {
  run(parts, 'ledger_info', request, reply, async (exchange) => {
    if (answerForm(request.headers.accept) === 'bcs') {
      requireTime(parts);
      return parts.passThrough.ledgerInfo(exchange);
    }
    const { body, version } = await parts.freshness.ledgerInfo(request.raw, exchange.signal);
    exchange.version = version;
    const { vary } = parts.replier;
    const head = ['Content-Type', 'application/json; charset=utf-8', 'Vary', vary, 'Cache-Control', 'no-store'];
    head.push('Ledgergate-Served-Version', String(version));
    parts.replier.write(exchange, 200, head, body);
    return undefined;
  });
}

/** A long poll: never kept and never shared, because each client waits on its own. */
function serveWait(parts: ServerParts, parse: ParseRead, request: FastifyRequest, reply: FastifyReply): void {
  run(parts, 'wait_by_hash', request, reply, async (exchange) => {
    const read = parse(request);
    requireTime(parts);
    await giveRead(parts, exchange, await parts.reader.ask(read, exchange));
  });
}

function serveRaw(parts: ServerParts, name: RouteName, request: FastifyRequest, reply: FastifyReply): void {
  const { passThrough } = parts;
  const serve = (exchange: Exchange, body: Buffer | undefined): Promise<void> => {
    if (passThrough.isRead(exchange)) requireTime(parts);
    return passThrough.serve(exchange, body);
  };
  const target = request.raw.url ?? '';
  const isBodiless = request.method !== 'POST' && (isGet(request.method) || !announcesBody(request.raw));
  if (isBodiless) run(parts, name, request, reply, (exchange) => serve(exchange, undefined));
  else runWithBody(parts, name, { request, reply, check: () => void passedPath(parts.basePath, target) }, serve);
}

function servePreflight(parts: ServerParts, request: FastifyRequest, reply: FastifyReply): void {
  run(parts, 'none', request, reply, (exchange) => {
    const head = parts.cors.preflight(request.raw);
    if (head === undefined) throw notAllowed(exchange.target);
    endWhereHttpDoes(exchange, head);
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
  void guard(parts, exchange, () => serve(exchange));
}

/** As `run`, when the body is there. */
function runWithBody(
  parts: ServerParts,
  name: RouteName,
  { request, reply, check }: { readonly request: FastifyRequest; readonly reply: FastifyReply } & Pick<Bodied, 'check'>,
  serve: (exchange: Exchange, body: Buffer) => void | Promise<void>,
): void {
  reply.hijack();
  takeBody(parts, name, { request: request.raw, response: reply.raw, check }, serve);
}

function fail(parts: ServerParts, name: RouteName, request: FastifyRequest, reply: FastifyReply, error: unknown): void {
  run(parts, name, request, reply, () => {
    throw asGatewayError(error);
  });
}
