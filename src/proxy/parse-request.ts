/**
 * Parses a request that is only spoken of: it takes the routes that clients' requests take, and is answered by
 * nobody.
 */
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { InjectOptions } from 'fastify';
import { GatewayError } from '../ledger/errors.ts';
import type { RouteName } from '../metrics/http-metrics.ts';
import type { Need } from '../upstream/need.ts';
import { answerForm } from './negotiate.ts';
import { schemaController } from './no-schemas.ts';
import { isReadOfLatest, needOfPath, passedPath } from './passed-path.ts';
import type { Read } from './read.ts';
import { Bodies } from './request-body.ts';
import { asGatewayError, faultOfHead } from './request-faults.ts';
import { addRoutes, faultOfUnknown, parseView, routerOptions, type RouteHandlers, type RouteParts } from './routes.ts';
import { originForm } from './target.ts';

/** A client's request in plain data. */
export interface DescribedRequest {
  /** With the base path and the query, percent-encoded as clients send it. */
  readonly target: string;
  /** Default: GET, or POST with a body. */
  readonly method?: string | undefined;
  readonly accept?: string | undefined;
  /** Default: JSON, with a body. */
  readonly contentType?: string | undefined;
  readonly body?: string | undefined;
}

/** What becomes of a request. `read`: looked for in the cache. */
export type Parsed =
  | { readonly kind: 'read' | 'wait'; readonly route: RouteName; readonly read: Read }
  | { readonly kind: 'passed'; readonly route: RouteName; readonly need: Need; readonly isLatest: boolean }
  | { readonly kind: 'ledger info' | 'submission' | 'preflight'; readonly route: RouteName }
  | { readonly kind: 'refused'; readonly error: GatewayError };

const targetHeader = 'ledgergate-described-target';

export class RequestParser {
  readonly #parts: RouteParts;
  /** Built for the first request: hardly any process is ever asked. */
  #app: FastifyInstance | undefined;
  readonly #parsed = new WeakMap<object, Parsed>();

  constructor(parts: RouteParts) {
    this.#parts = parts;
  }

  async parse({ target, body, ...given }: DescribedRequest): Promise<Parsed> {
    const unreadable = refusal(new GatewayError('malformed', 'this is no HTTP request'));
    if (!/^[\x21-\x7e]+$/.test(target)) return unreadable;
    const { method = body === undefined ? 'GET' : 'POST', accept } = given;
    const { contentType = body === undefined ? undefined : 'application/json' } = given;
    const options: InjectOptions = {
      method,
      url: '/',
      headers: {
        [targetHeader]: target,
        ...(accept === undefined ? {} : { accept }),
        ...(contentType === undefined ? {} : { 'content-type': contentType }),
      },
      ...(body === undefined ? {} : { payload: body }),
    };
    // Methods that HTTP does not know are not even tried.
    const routed = await this.#route(options).catch(() => undefined);
    return (routed === undefined ? undefined : this.#parsed.get(routed)) ?? unreadable;
  }

  async #route(options: InjectOptions): Promise<object> {
    this.#app ??= this.#build();
    return (await this.#app.inject(options)).raw.req;
  }

  #build(): FastifyInstance {
    const parts = this.#parts;
    const app = fastify({
      exposeHeadRoutes: false,
      schemaController,
      routerOptions,
      // Past any URL parser, which would write targets anew.
      rewriteUrl: (request) => originForm(String(request.headers[targetHeader])),
      frameworkErrors: (error, request, reply) => this.#end(request, reply, refusal(error)),
    });
    app.addHook('onRequest', (request, _reply, done) => done(faultOfHead(request.raw)));
    app.setErrorHandler((error, request, reply) => this.#end(request, reply, refusal(error)));
    app.setNotFoundHandler((request, reply) => {
      this.#end(request, reply, { kind: 'refused', error: faultOfUnknown(parts.basePath, request) });
    });
    addRoutes(app, parts, this.#handlers(parts.basePath));
    return app;
  }

  #handlers(basePath: string): RouteHandlers {
    const take = (parse: (request: FastifyRequest) => Parsed) => (request: FastifyRequest, reply: FastifyReply) =>
      this.#end(
        request,
        reply,
        parsedOr(() => parse(request)),
      );
    const raw = (route: RouteName) =>
      take(({ method, raw: { url = '' } }) => {
        const path = passedPath(basePath, url);
        return { kind: 'passed', route, need: needOfPath(path), isLatest: isReadOfLatest(method, path) };
      });
    const passedInfo = raw('ledger_info');
    const info = take(() => ({ kind: 'ledger info', route: 'ledger_info' }));
    const bodies = new Bodies();
    return {
      read: (route, parse) => take((request) => ({ kind: 'read', route, read: parse(request) })),
      view: (request, reply) => {
        bodies.read({ request: request.raw, response: reply.raw, client: 'operator' }, (body) => {
          const parse = (): Parsed => {
            if (!Buffer.isBuffer(body)) throw body;
            return { kind: 'read', route: 'view', read: parseView(request, body) };
          };
          this.#end(request, reply, parsedOr(parse));
        });
      },
      raw,
      submit: take(() => ({ kind: 'submission', route: 'submit' })),
      wait: (parse) => take((request) => ({ kind: 'wait', route: 'wait_by_hash', read: parse(request) })),
      ledgerInfo: (request, reply) =>
        (answerForm(request.headers.accept) === 'bcs' ? passedInfo : info)(request, reply),
      preflight: take(() => ({ kind: 'preflight', route: 'none' })),
    };
  }

  #end(request: FastifyRequest, reply: FastifyReply, parsed: Parsed): void {
    this.#parsed.set(request.raw, parsed);
    reply.hijack();
    reply.raw.end();
  }
}

function parsedOr(parse: () => Parsed): Parsed {
  try {
    return parse();
  } catch (error) {
    return refusal(error);
  }
}

/** What a client would be told. */
function refusal(error: unknown): Parsed {
  const known = asGatewayError(error);
  return {
    kind: 'refused',
    error: known instanceof GatewayError ? known : new GatewayError('internal', 'internal error', { cause: error }),
  };
}
