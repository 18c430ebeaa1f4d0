/** The operations port: liveness, readiness, metrics, administration. For operators and their tools, not for clients. */
import fastify, { type FastifyInstance } from 'fastify';
import type { AccessRules } from './admin-access.ts';
import { addAdminRoutes, type AdminFunctions } from './admin-routes.ts';

/** One node as readiness details show it; 64-bit numbers as text. */
export interface UpstreamStatus {
  readonly name: string;
  readonly url: string;
  readonly tier: 'full' | 'archival';
  readonly state: 'unproven' | 'usable' | 'down' | 'foreign';
  readonly chainId: number | undefined;
  readonly oldest: string | undefined;
  readonly head: string | undefined;
  /** Versions behind the head of the fleet. */
  readonly lag: string | undefined;
}

export interface OperationsParts {
  isReady(): boolean;
  isDraining(): boolean;
  status(): readonly UpstreamStatus[];
  /** Functions that nodes encode, because one of them once gave other bytes. */
  distrustedFunctions(): readonly string[];
  /** `undefined`: there is none. `trouble`: what is wrong with it now. */
  redis(): { readonly trouble: string | undefined } | undefined;
  metrics(): Promise<string>;
  readonly metricsContentType: string;
  readonly admin: AdminFunctions;
  readonly access: AccessRules;
}

/** Redis never decides whether the gateway is ready; what is wrong with it is shown all the same. */
function redisOf(parts: OperationsParts): { readonly state: string; readonly reason?: string } {
  const redis = parts.redis();
  if (redis === undefined) return { state: 'off' };
  return redis.trouble === undefined ? { state: 'up' } : { state: 'degraded', reason: redis.trouble };
}

export function createOperationsServer(parts: OperationsParts): FastifyInstance {
  const app = fastify({ forceCloseConnections: true, http: { maxHeaderSize: 64 * 1024 } });
  // Pages of other sites can send text without asking; they cannot send JSON.
  app.removeContentTypeParser('text/plain');
  app.get('/livez', () => ({ status: 'alive' }));
  app.get('/readyz', (_request, reply) => {
    const isReady = parts.isReady() && !parts.isDraining();
    const status = parts.isDraining() ? 'draining' : isReady ? 'ready' : 'no usable node is known';
    reply.code(isReady ? 200 : 503);
    // Addresses stay out of it: readiness is often published further than the configuration.
    const upstreams = parts.status().map(({ url: _url, ...shown }) => shown);
    return { status, upstreams, encode: { distrusted: parts.distrustedFunctions() }, redis: redisOf(parts) };
  });
  app.get('/metrics', async (_request, reply) => {
    reply.type(parts.metricsContentType);
    return parts.metrics();
  });
  addAdminRoutes(app, parts.admin, parts.access);
  return app;
}
