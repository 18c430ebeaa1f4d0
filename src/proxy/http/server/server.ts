/**
 * The server of the clients' port. Fastify listens and closes; Node's server passes requests to `handle`, past
 * Fastify's router, body parsers and error texts, which would answer ahead of access control.
 */
import fastify, { type FastifyInstance } from 'fastify';
import { answerBrokenRequest } from './broken-request.ts';
import { createHttpServer, liveHeaders } from './listener.ts';
import { schemaController } from './lean-http.ts';
import type { ServerParts } from '../../routes/server-parts.ts';

/** Builds the server; the caller calls `listen` and `close`. */
export function createProxyServer(parts: ServerParts): FastifyInstance {
  return fastify({
    schemaController,
    serverFactory: () => createHttpServer(parts),
    clientErrorHandler: (error, socket) => {
      if (answerBrokenRequest(error, { socket, headers: () => liveHeaders(parts) })) parts.observer.metrics.broken();
    },
  });
}
