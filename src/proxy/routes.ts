/**
 * Which route a request takes, and how what it asks for is read from it: the same for requests that are answered and
 * for those that are only explained.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { GatewayError } from '../ledger/errors.ts';
import type { RouteName } from '../metrics/http-metrics.ts';
import { moduleRead, type ModuleParameters } from './module.ts';
import type { PathRead } from './path-read.ts';
import type { Read } from './read.ts';
import { notAllowed, notFound } from './request-faults.ts';
import { resourceRead, type ResourceParameters } from './resource.ts';
import type { Submissions } from './submissions.ts';
import { longestTarget } from './target.ts';
import { transactionRead, transactionWait } from './transaction.ts';
import { viewRead } from './view.ts';

type Handler = (request: FastifyRequest, reply: FastifyReply) => void;

/** Parses what a read asks for; throws `GatewayError`. */
export type ParseRead = (request: FastifyRequest) => Read;

/** What is done with a request of each kind. */
export interface RouteHandlers {
  read(name: RouteName, parse: ParseRead): Handler;
  /** A view whose body can be read here: see `parseView`. */
  readonly view: Handler;
  /** Sent on as it came. */
  raw(name: RouteName): Handler;
  readonly submit: Handler;
  wait(parse: ParseRead): Handler;
  readonly ledgerInfo: Handler;
  readonly preflight: Handler;
}

export interface RouteParts {
  readonly basePath: string;
  readonly submissions: Submissions;
}

// Fastify matches a path parameter only up to 100 characters by default. Generic struct tags are longer and would
// silently become pass-through requests: correct answers, never cached.
export const routerOptions = { maxParamLength: longestTarget };

/** Adds all routes. Bodies are left to the handlers, so that all of them are within one bound. */
export function addRoutes(app: FastifyInstance, { basePath, submissions }: RouteParts, handlers: RouteHandlers): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  const methods = ['GET', 'HEAD'];
  const get = (name: RouteName, path: string, parse: ParseRead): void => {
    app.route({ method: methods, url: basePath + path, handler: handlers.read(name, parse) });
  };
  const transactionOf =
    (read: typeof transactionRead): ParseRead =>
    (request) =>
      read((request.params as { hash: string }).hash, pathRead(request), submissions);
  get('resource', '/accounts/:address/resource/:tag', (request) =>
    resourceRead(request.params as ResourceParameters, pathRead(request)),
  );
  get('module', '/accounts/:address/module/:name', (request) =>
    moduleRead(request.params as ModuleParameters, pathRead(request)),
  );
  get('transaction_by_hash', '/transactions/by_hash/:hash', transactionOf(transactionRead));
  app.route({
    method: 'POST',
    url: `${basePath}/view`,
    handler: (request, reply) => {
      // Nodes read compressed bodies; what is inside is theirs to see, and such a request is rare.
      const isPlain = request.headers['content-encoding'] === undefined;
      return isPlain ? handlers.view(request, reply) : rawView(request, reply);
    },
  });
  const rawView = handlers.raw('view');
  // Without an encoder, or under an unusual spelling of its target: nodes encode.
  app.post(`${basePath}/transactions/encode_submission`, handlers.raw('encode_submission'));
  for (const path of ['/transactions', '/transactions/batch']) app.post(basePath + path, handlers.submit);
  app.get(`${basePath}/transactions/wait_by_hash/:hash`, handlers.wait(transactionOf(transactionWait)));
  app.options('*', handlers.preflight);
  const others = ['POST', 'PUT', 'PATCH', 'DELETE'];
  for (const url of basePath === '' ? ['/'] : [basePath, `${basePath}/`]) {
    app.route({ method: methods, url, handler: handlers.ledgerInfo });
  }
  for (const url of basePath === '' ? ['/*'] : [basePath, `${basePath}/*`]) {
    const method = url === basePath ? others : [...methods, ...others];
    app.route({ method, url, handler: handlers.raw('pass_through') });
  }
}

/** What a request is told that no route takes. */
export function faultOfUnknown(basePath: string, request: FastifyRequest): GatewayError {
  const { url = '' } = request.raw;
  return url.startsWith(`${basePath}/`) ? notAllowed(url) : notFound();
}

/** The view that a request asks for; throws `GatewayError`. `digest`: of a large body, see `digestInTurns`. */
export function parseView(request: FastifyRequest, body: Buffer, digest?: string): Read {
  return viewRead({ ...pathRead(request), contentType: request.headers['content-type'], body, digest });
}

export function isGet(method: string): boolean {
  return method === 'GET' || method === 'HEAD';
}

function pathRead(request: FastifyRequest): PathRead {
  return { target: request.raw.url ?? '', accept: request.headers.accept };
}
