/** The operations port: liveness, readiness, metrics, status, administration. For operators and their tools, not for clients. */
import type { RequestListener, ServerResponse } from 'node:http';
import fastify, { type FastifyInstance } from 'fastify';
import type { AdminAccessRules } from './admin-access.ts';
import type { Exposition } from '../../metrics/exposition.ts';
import type { ReloadResult } from '../../metrics/reload-metrics.ts';
import type { StatusFacts } from './status/facts.ts';
import type { Disagreement } from '../reads/audits.ts';
import { answerBrokenRequest } from '../http/server/broken-request.ts';
import { takeTurn } from '../http/server/connection-state.ts';
import { addAdminRoutes, addLogRoutes, type AdminFunctions, type LogFunctions } from './admin-routes.ts';
import { createServer, schemaController } from '../http/server/lean-http.ts';
import { findHostRefusal, type HostRefusal, type HostRules } from './operations-hosts.ts';
import { addStatusRoutes } from './status-routes.ts';

/** One node as readiness details show it; 64-bit numbers as text. */
export interface UpstreamStatus {
  readonly name: string;
  readonly url: string;
  readonly tier: 'full' | 'archival';
  readonly state: 'unproven' | 'usable' | 'down' | 'foreign';
  /** Why it is `foreign`. */
  readonly reason?: 'other chain';
  readonly chainId: number | undefined;
  readonly oldest: string | undefined;
  readonly head: string | undefined;
  /** Versions behind the head of the fleet. */
  readonly lag: string | undefined;
  /** Of several workers, how many call it usable; the rest is the best one's word. */
  readonly usableBy?: number;
}

/** No node answers that did before: what is known of the ledger stands still. */
export interface OutageStatus {
  /** ISO 8601. */
  readonly since: string;
  /** The version that headers go on telling. */
  readonly head: string | undefined;
}

/** Whether the gateway can answer, and what it knows. */
export interface Readiness {
  /** Whether a node is known that can be asked. */
  readonly isReady: boolean;
  readonly outage: OutageStatus | undefined;
  readonly upstreams: readonly UpstreamStatus[];
  /** Functions that nodes encode, because one of them once gave other bytes. */
  readonly distrusted: readonly string[];
  readonly disagreements: readonly Disagreement[];
  /** `undefined`: there is none. `trouble`: what is wrong with it now. */
  readonly redis: { readonly trouble: string | undefined } | undefined;
  /** Where several processes serve. */
  readonly workers?: WorkersStatus;
}

export interface WorkersStatus {
  readonly wanted: number;
  /** Those that serve and answered in time. */
  readonly answering: number;
  readonly ready: number;
}

/** The last time that the config was read again. */
export interface ReloadStatus {
  /** ISO 8601. */
  readonly at: string;
  readonly result: ReloadResult;
  /** Keys whose new values wait for a restart. */
  readonly needsRestart: readonly string[];
}

/** What the config says of the operations port; asked at each request, for it may change. */
export interface OperationsRules extends AdminAccessRules, HostRules {
  /** Whether an outage leaves readiness on: pinned answers that are held are still given. */
  readonly readyInOutage: boolean;
}

export interface OperationsParts {
  isDraining(): boolean;
  readiness(): Readiness | Promise<Readiness>;
  /** What a scrape is given. `accept`: the header. */
  metrics(accept: string | undefined): Promise<Exposition>;
  readonly admin: AdminFunctions;
  readonly log: LogFunctions;
  rules(): OperationsRules;
  /** `undefined` since the start. */
  reload(): ReloadStatus | undefined;
  status(): StatusFacts | Promise<StatusFacts>;
}

/**
 * Requests arrive within these bounds or lose their connection: with several workers the process that answers here also
 * accepts clients, and must not run out of descriptors.
 */
const httpOptions = {
  maxHeaderSize: 64 * 1024,
  headersTimeout: 5_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 1_000,
  keepAliveTimeout: 72_000,
  // Node would take the first of two Host or Authorization headers; joined they are neither.
  joinDuplicateHeaders: true,
};

/** Redis never decides whether the gateway is ready; what is wrong with it is shown all the same. */
function redisOf({ redis }: Readiness): { readonly state: string; readonly reason?: string } {
  if (redis === undefined) return { state: 'off' };
  return redis.trouble === undefined ? { state: 'up' } : { state: 'degraded', reason: redis.trouble };
}

function statusOf({ isReady, outage }: Readiness): string {
  if (isReady) return 'ready';
  return outage === undefined ? 'no usable node is known' : 'outage';
}

export function createOperationsServer(parts: OperationsParts): FastifyInstance {
  const app = fastify({
    forceCloseConnections: true,
    schemaController,
    clientErrorHandler: (error, socket) => void answerBrokenRequest(error, { socket, headers: () => [] }),
    serverFactory: (handler) =>
      createServer(
        httpOptions,
        answerKnownHosts(handler, () => parts.rules()),
      ),
  });
  app.addHook('onRequest', (request, reply, done) => {
    if (request.raw.url?.includes('#') !== true) return done();
    void reply.code(400).send({ message: 'a request target has no fragment (#)' });
  });
  // Pages of other sites can send text without asking; they cannot send JSON.
  app.removeContentTypeParser('text/plain');
  app.get('/livez', () => ({ status: 'alive' }));
  app.get('/readyz', async (_request, reply) => {
    const readiness = await parts.readiness();
    const { workers, distrusted, outage, disagreements } = readiness;
    const status = parts.isDraining() ? 'draining' : statusOf(readiness);
    const isReady = status === 'ready' || (status === 'outage' && parts.rules().readyInOutage);
    reply.code(isReady ? 200 : 503);
    // Addresses stay out of it: readiness is often published further than the configuration.
    const upstreams = readiness.upstreams.map(({ url: _url, ...shown }) => shown);
    const redis = redisOf(readiness);
    const reload = parts.reload();
    return { status, outage, upstreams, audit: { disagreements }, encode: { distrusted }, redis, workers, reload };
  });
  app.get('/metrics', async (request, reply) => {
    const { contentType, text } = await parts.metrics(request.headers.accept);
    reply.header('Vary', 'Accept').type(contentType);
    return text;
  });
  addStatusRoutes(app, () => parts.status());
  addAdminRoutes(app, parts.admin, () => parts.rules());
  addLogRoutes(app, parts.log, () => parts.rules());
  return app;
}

/** The one place ahead of every route, of what no route takes, and of targets that the router cannot read. */
function answerKnownHosts(handler: RequestListener, rules: () => HostRules): RequestListener {
  return (request, response) => {
    // A refusal of malformed bytes stands behind the answers to the requests before them.
    const turn = takeTurn(request.socket, response);
    if (turn === 'ignore') return;
    if (turn === 'last') response.shouldKeepAlive = false;
    const { headers, url = '', httpVersion } = request;
    const refusal = findHostRefusal(rules(), { host: headers.host, target: url, httpVersion });
    if (refusal === undefined) handler(request, response);
    else refuse(response, refusal);
  };
}

/** The connection ends, so that a body that may follow is not read. */
function refuse(response: ServerResponse, { status, message }: HostRefusal): void {
  const body = Buffer.from(JSON.stringify({ message }));
  const head = ['Content-Type', 'application/json; charset=utf-8', 'Content-Length', `${body.length}`];
  response.writeHead(status, [...head, 'Connection', 'close']).end(body);
}
