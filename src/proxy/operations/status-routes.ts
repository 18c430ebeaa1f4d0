/** The status page and its JSON. As open as the metrics, because neither reveals more. */
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { StatusFacts } from './status/facts.ts';
import { pagePolicy, statusPage } from './status/page/page.ts';

/** Adds `/status` and `/status.json`. */
export function addStatusRoutes(app: FastifyInstance, facts: () => StatusFacts | Promise<StatusFacts>): void {
  app.get('/status', async (_request, reply) => {
    const page = statusPage(await facts());
    return live(reply)
      .type('text/html; charset=utf-8')
      .header('content-security-policy', pagePolicy)
      .header('referrer-policy', 'no-referrer')
      .send(page);
  });
  app.get('/status.json', async (_request, reply) => live(reply).send(await facts()));
}

function live(reply: FastifyReply): FastifyReply {
  return reply.header('cache-control', 'no-store').header('x-content-type-options', 'nosniff');
}
