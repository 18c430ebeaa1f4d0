/** The operations port, for operators and their tools: liveness, readiness, metrics, status, administration. */
import type { RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { findHostRefusal } from './operations-access.ts';
import { bodyTurns } from '../../ledger/index.ts';
import type { Config } from '../../config/index.ts';
import { expose, type FamilyData } from '../../metrics/index.ts';
import type { GatewayStatus, NodeStatus, ProcessStatus, Readiness, WorkersFacts } from './status/report.ts';
import { factsOf, tierFacts, type StatusFacts } from './status/present.ts';
import { tableViewOf } from './status/page/fleet.ts';
import { policy, runbookPage, statusPage } from './status/page/page.ts';
import { createGuardedServer } from '../http/index.ts';
import { addAdminRoutes, type AdminFunctions, type Audit } from './admin-routes.ts';
import { createLogAdmin, type LogAdminParts } from './log-admin.ts';

/** Readiness of all processes together. */
interface GatewayReadiness extends Readiness {
  /** Absent with one process. */
  readonly workers?: WorkersFacts & { readonly ready: number };
}

/** The report of all processes; `undefined` while none answers. */
interface Report {
  readonly status: ProcessStatus | undefined;
  /** Absent with one process. */
  readonly workers?: WorkersFacts;
}

/** The view of operators: one serving process, or several as one. */
export interface OperationsSource extends AdminFunctions {
  /** The nodes, as last reported. */
  nodes(): readonly NodeStatus[];
  readiness(): GatewayReadiness | Promise<GatewayReadiness>;
  report(): Report | Promise<Report>;
  /** The families of metrics at a scrape. */
  families(): Promise<readonly FamilyData[]>;
}

interface OperationsParts {
  readonly version: string;
  readonly source: OperationsSource;
  readonly isDraining: () => boolean;
  /** The config in force, read at each request, because a reload may change it. */
  readonly rules: () => Omit<Config['operations'], 'port'>;
  /** `undefined` since the start. */
  reload(): GatewayStatus['reload'];
  readonly audit: Audit;
}

/** Slow requests lose their connection: the primary process also accepts clients and must not run out of descriptors. */
const httpOptions = {
  maxHeaderSize: 64 * 1024,
  headersTimeout: 5_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 1_000,
  keepAliveTimeout: 72_000,
  // Node would take the first of two Host or Authorization headers; joined, they match nothing.
  joinDuplicateHeaders: true,
};

/** In bytes: a parse takes up to 3 ms. */
const largestBody = 128 * 1024;

function statusOf({ isReady, outage }: Readiness): string {
  if (isReady) return 'ready';
  return outage === undefined ? 'no usable node is known' : 'outage';
}

/** One node in the details. No address: readiness is often published further than the config. */
function publishedNode(node: NodeStatus) {
  const { name, tier, state, reason, since, warning, lower, chainId, oldest, head, lag, lagSeconds, usableBy } = node;
  // Classes of reads that it is passed over for, though it is usable.
  const ejected = node.ejected.length === 0 ? undefined : node.ejected;
  const ledger = { warning, lower, chainId, oldest, head, lag, lagSeconds };
  return { name, tier, state, reason, since, ejected, ...ledger, usableBy, isDrained: node.isDrained };
}

/** The operations port with all its routes, which does not listen yet. */
export function createOperations(parts: OperationsParts & LogAdminParts) {
  const log = createLogAdmin(parts);
  const { source } = parts;
  const status = async (): Promise<StatusFacts> => {
    const { status, workers } = await source.report();
    const { version } = parts;
    return factsOf(status, {
      version,
      nowMs: Date.now(),
      isDraining: parts.isDraining(),
      reload: parts.reload(),
      workers,
    });
  };
  const app = createGuardedServer({ forceCloseConnections: true, bodyLimit: largestBody }, httpOptions, (handler) =>
    answerKnownHosts(handler, parts.rules),
  );
  app.addHook('onRequest', (request, reply, done) => {
    if (request.raw.url?.includes('#') !== true) return done();
    void reply.code(400).send({ message: 'a request target has no fragment (#)' });
  });
  // A browser sends a foreign page's text without a CORS preflight, but not its JSON.
  app.removeContentTypeParser('text/plain');
  addBodyParser(app);
  app.get('/livez', () => ({ status: 'alive' }));
  app.get('/readyz', async (_request, reply) => {
    const readiness = await source.readiness();
    const { workers, distrusted, outage, disagreements, certificateRefused } = readiness;
    const status = parts.isDraining() ? 'draining' : statusOf(readiness);
    const isReady = status === 'ready' || (status === 'outage' && parts.rules().readyInOutage);
    reply.code(isReady ? 200 : 503);
    return {
      status,
      outage,
      upstreams: readiness.nodes.map(publishedNode),
      lost: readiness.lost,
      audit: { disagreements },
      encode: { distrusted },
      // Details only: a tier never decides on readiness.
      store: tierFacts(readiness.store),
      redis: tierFacts(readiness.redis),
      certificate: certificateRefused === undefined ? undefined : { refused: certificateRefused },
      workers,
      reload: parts.reload(),
    };
  });
  app.get('/metrics', async (request, reply) => {
    const { contentType, text } = expose(await source.families(), request.headers.accept);
    reply.header('Vary', 'Accept').type(contentType);
    return text;
  });
  app.get('/', (_request, reply) => reply.redirect('status'));
  app.get('/status', async (request, reply) => {
    const page = statusPage(await status(), tableViewOf(request.query));
    return live(reply)
      .type('text/html; charset=utf-8')
      .header('content-security-policy', policy)
      .header('referrer-policy', 'no-referrer')
      .send(page);
  });
  app.get('/runbook', (_request, reply) =>
    live(reply).type('text/html; charset=utf-8').header('content-security-policy', policy).send(runbookPage()),
  );
  app.get('/status.json', async (_request, reply) => live(reply).send(await status()));
  addAdminRoutes(app, source, log, parts);
  return {
    app,
    /** Resolves with the port. */
    async listen({ host, port }: { readonly host: string; readonly port: number }): Promise<number> {
      await app.listen({ host, port });
      return (app.server.address() as AddressInfo).port;
    },
    close: () => app.close(),
    /** A config is in force: its log settings replace those of an operator. */
    reloadLog: (config: Config['log']) => log.reload(config),
  };
}

/** Clients are answered by the same event loop, where it is no primary's: a body is parsed in a turn of its operator. */
function addBodyParser(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, body, done) => {
    void bodyTurns.run(request.ip, () => parse(request, body, done));
  });
}

function live(reply: FastifyReply): FastifyReply {
  return reply.header('cache-control', 'no-store').header('x-content-type-options', 'nosniff');
}

/** Checks the Host ahead of routing, so that unknown routes and malformed targets are covered, too. */
function answerKnownHosts(handler: RequestListener, rules: OperationsParts['rules']): RequestListener {
  return (request, response) => {
    const refusal = findHostRefusal(rules(), request);
    if (refusal === undefined) return handler(request, response);
    const body = Buffer.from(JSON.stringify({ message: refusal.message }));
    const head = ['Content-Type', 'application/json; charset=utf-8', 'Content-Length', `${body.length}`];
    // Closed, so that the server reads no body that may follow.
    response.writeHead(refusal.status, [...head, 'Connection', 'close']).end(body);
  };
}
