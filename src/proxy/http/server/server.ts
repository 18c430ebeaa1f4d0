/**
 * The server of the clients' port. Fastify listens and closes; requests go from Node's server to `handle`, past Fastify's
 * router, body parsers and error texts, which would answer ahead of access control and in other words.
 */
import fastify, { type FastifyInstance } from 'fastify';
import { answerBrokenRequest } from './broken-request.ts';
import { createHttpServer, liveHeaders } from './listener.ts';
import { schemaController } from './lean-http.ts';
import type { ServerParts } from '../../routes/server-parts.ts';

/** Builds the server; `listen` and `close` are the caller's. */
export function createProxyServer(parts: ServerParts): FastifyInstance {
  return fastify({
    schemaController,
    serverFactory: () => createHttpServer(parts),
    clientErrorHandler: (error, socket) => {
      if (answerBrokenRequest(error, { socket, headers: () => liveHeaders(parts) })) parts.observer.metrics.broken();
    },
  });
}
