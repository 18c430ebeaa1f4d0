/** `/admin/log` on the operations port: what is logged, shown and changed. */
import type { FastifyInstance } from 'fastify';
import type { AccessRules } from './admin-access.ts';
import { answer, guard } from './admin-routes.ts';
import type { AdminAnswer } from './admin.ts';

export interface LogFunctions {
  show(): AdminAnswer;
  /** `from`: the address of who asks. */
  change(request: unknown, from: string): AdminAnswer;
}

export function addLogRoutes(app: FastifyInstance, log: LogFunctions, rules: () => AccessRules): void {
  const onRequest = guard(rules);
  app.get('/admin/log', { onRequest }, (_request, reply) => answer(reply, log.show()));
  app.put('/admin/log', { onRequest }, (request, reply) => answer(reply, log.change(request.body, request.ip)));
}
