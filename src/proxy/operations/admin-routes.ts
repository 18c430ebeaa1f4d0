/** `/admin/*` on the operations port. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { parseBearer } from '../../access/index.ts';
import type { DrainRequest, OperatorPurge } from './process.ts';
import type { AdminAnswer } from './admin-request.ts';
import type { LogAdmin } from './log-admin.ts';
import { rowsOf, usageCsv } from './usage-report.ts';
import { type AccessRules, findRefusal } from './operations-access.ts';

/** Administration behind the routes; with several workers it runs in other processes. */
export interface AdminFunctions {
  purge(purge: OperatorPurge): Promise<AdminAnswer>;
  setDrained(request: DrainRequest): Promise<AdminAnswer>;
  explain(request: unknown): Promise<AdminAnswer>;
  usage(request: unknown): Promise<AdminAnswer>;
}

/** Adds `/admin/*`. */
export function addAdminRoutes(
  app: FastifyInstance,
  admin: AdminFunctions,
  log: Pick<LogAdmin, 'show' | 'change'>,
  rules: () => AccessRules,
): void {
  const onRequest = guard(rules);
  app.post('/admin/purge', { onRequest }, async (request, reply) =>
    answer(reply, await admin.purge({ request: request.body, from: request.ip })),
  );
  for (const action of ['drain', 'resume']) {
    app.post(`/admin/upstreams/:upstream/${action}`, { onRequest }, async (request, reply) => {
      const { upstream } = request.params as { readonly upstream: string };
      return answer(reply, await admin.setDrained({ upstream, isDrained: action === 'drain', from: request.ip }));
    });
  }
  app.get('/admin/explain', { onRequest }, async (request, reply) =>
    answer(reply, await admin.explain({ ...(request.query as object) })),
  );
  app.get('/admin/usage', { onRequest }, async (request, reply) => {
    const query = { ...(request.query as Readonly<Record<string, unknown>>) };
    const used = await admin.usage(query);
    if (used.status !== 200 || query['format'] !== 'csv') return answer(reply, used);
    return reply.type('text/csv; charset=utf-8; header=present').send(usageCsv(rowsOf(used.body)));
  });
  app.get('/admin/log', { onRequest }, (_request, reply) => answer(reply, log.show()));
  app.put('/admin/log', { onRequest }, (request, reply) => answer(reply, log.change(request.body, request.ip)));
}

/** Refuses a request without access before its body is read. */
function guard(rules: () => AccessRules) {
  return async ({ headers }: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> => {
    const refusal = findRefusal(rules(), headers);
    if (refusal === undefined) return undefined;
    // RFC 6750 3.1: a request without credentials gets no error code.
    const isToken = parseBearer(headers.authorization ?? '') !== undefined;
    const challenge = isToken ? 'Bearer error="invalid_token"' : 'Bearer';
    if (refusal.status === 401) reply.header('WWW-Authenticate', challenge);
    return reply.code(refusal.status).send({ message: refusal.message });
  };
}

/** Indented for people. */
function answer(reply: FastifyReply, { status, body }: AdminAnswer): FastifyReply {
  return reply
    .code(status)
    .type('application/json')
    .send(`${JSON.stringify(body, null, 2)}\n`);
}
