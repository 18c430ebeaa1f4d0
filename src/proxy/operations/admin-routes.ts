/** `/admin/*` on the operations port, and the audit log of its calls. */
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import { type KeysRequest, parseBearer } from '../../access/index.ts';
import { type AdminAnswer, orFault } from './admin-request.ts';
import { keyNameOf, parseKeysRequest } from './keys-admin.ts';
import type { LogAdmin } from './log-admin.ts';
import type { ProcessOperations } from './process.ts';
import { rowsOf, usageCsv } from './usage-report.ts';
import { type AccessRules, findOperator, type Operator, type Refusal } from './operations-access.ts';

/** Administration behind the routes; with several workers it runs in other processes. */
export type AdminFunctions = Pick<ProcessOperations, 'purge' | 'setDrained' | 'explain' | 'usage' | 'keys'>;

/** Writes one line of the audit log. `call`: no secrets and no texts of operators that were not checked. */
export type Audit = (call: {
  readonly operator: string;
  /** The operator's address. */
  readonly from: string;
  /** Words for the route, such as `purge`. */
  readonly action: string;
  /** Status of the answer. */
  readonly status: number;
  readonly [subject: string]: unknown;
}) => void;

/** `subject`: fields of its line in the audit log, no text of an operator that was not checked. */
interface AuditedAnswer extends AdminAnswer {
  readonly subject?: Readonly<Record<string, unknown>>;
}

interface AdminRoute {
  readonly method: HTTPMethods;
  readonly url: string;
  /** Its name in the audit log; absent: the call changes nothing and has no line. */
  readonly action?: string;
  readonly run: (request: FastifyRequest) => AuditedAnswer | Promise<AuditedAnswer>;
  /** Writes the answer otherwise than as JSON. */
  readonly write?: (reply: FastifyReply, answer: AdminAnswer, request: FastifyRequest) => FastifyReply;
}

/** Adds `/admin/*`. `rules`: of the config in force, read at each request. */
export function addAdminRoutes(
  app: FastifyInstance,
  admin: AdminFunctions,
  log: Pick<LogAdmin, 'show' | 'change'>,
  { audit, rules }: { readonly audit: Audit; readonly rules: () => AccessRules },
): void {
  const routes: readonly AdminRoute[] = [
    {
      method: 'POST',
      url: '/admin/purge',
      action: 'purge',
      // The kind: a read has a path and a query.
      run: async ({ body, ip }) =>
        about(await admin.purge({ request: body, from: ip }), { purge: Object.keys(Object(body) as object)[0] }),
    },
    ...(['drain', 'resume'] as const).map((action): AdminRoute => {
      const isDrained = action === 'drain';
      return {
        method: 'POST',
        url: `/admin/upstreams/:upstream/${action}`,
        action,
        run: async (request) => {
          const upstream = paramOf(request, 'upstream');
          return about(await admin.setDrained({ upstream, isDrained, from: request.ip }), { upstream });
        },
      };
    }),
    { method: 'GET', url: '/admin/explain', run: ({ query }) => admin.explain({ ...(query as object) }) },
    {
      method: 'GET',
      url: '/admin/usage',
      run: ({ query }) => admin.usage({ ...(query as object) }),
      write: (reply, used, { query }) => {
        const { format } = query as Readonly<Record<string, unknown>>;
        if (used.status !== 200 || format !== 'csv') return answer(reply, used);
        return reply.type('text/csv; charset=utf-8; header=present').send(usageCsv(rowsOf(used.body)));
      },
    },
    ...keysRoutes.map(([method, url, action]): AdminRoute => ({
      method,
      url,
      action: `keys ${action}`,
      run: (request) =>
        orFault(async (): Promise<AuditedAnswer> => {
          const parsed = parseKeysRequest(action, paramOf(request, 'name'), request.body);
          return { ...(await admin.keys(parsed)), subject: { key: keyNameOf(parsed) } };
        }),
      // That to a creation has the key itself.
      write: (reply, answered) =>
        answer(answered.status < 300 ? reply.header('cache-control', 'no-store') : reply, answered),
    })),
    { method: 'GET', url: '/admin/log', run: () => log.show() },
    {
      method: 'PUT',
      url: '/admin/log',
      action: 'log',
      run: ({ body, ip }) => {
        const changed = log.change(body, ip);
        return about(changed, { logLevel: changed.body['level'] });
      },
    },
  ];
  for (const route of routes) addRoute(app, route, audit, rules);
}

const keysRoutes: readonly (readonly [HTTPMethods, url: string, KeysRequest['action']])[] = [
  ['GET', '/admin/keys', 'list'],
  ['POST', '/admin/keys', 'create'],
  ['PATCH', '/admin/keys/:name', 'change'],
  ['DELETE', '/admin/keys/:name', 'revoke'],
];

/** Leaves the subject out of a refused request: it may be any text. */
function about(answered: AdminAnswer, subject: Readonly<Record<string, unknown>>): AuditedAnswer {
  return answered.status === 200 ? { ...answered, subject } : answered;
}

function paramOf({ params }: FastifyRequest, name: string): string {
  return (params as Readonly<Record<string, string>>)[name] ?? '';
}

function addRoute(app: FastifyInstance, route: AdminRoute, audit: Audit, rules: () => AccessRules): void {
  const { method, url, action, run, write = answer } = route;
  const operators = new WeakMap<FastifyRequest, Operator>();
  const note = (request: FastifyRequest, status: number, subject = {}): void => {
    const operator = operators.get(request)?.name;
    if (action !== undefined && operator !== undefined)
      audit({ operator, from: request.ip, action, ...subject, status });
  };
  app.route({
    method,
    url,
    // Ahead of the body.
    onRequest: async (request, reply) => {
      const found = findOperator(rules(), request.headers);
      if ('status' in found) return refuse(request, reply, found);
      operators.set(request, found);
      if (found.role === 'admin' || method === 'GET') return undefined;
      note(request, 403);
      return refuse(request, reply, { status: 403, message: `the token of ${found.name} may only read (role: read)` });
    },
    handler: async (request, reply) => {
      // Not at the end of the response, which an operator who hangs up does not wait for.
      try {
        const answered = await run(request);
        note(request, answered.status, answered.subject);
        return write(reply, answered, request);
      } catch (error) {
        note(request, 500);
        throw error;
      }
    },
  });
}

function refuse({ headers }: FastifyRequest, reply: FastifyReply, { status, message }: Refusal): FastifyReply {
  // RFC 6750 3.1: a request without credentials gets no error code.
  const isToken = parseBearer(headers.authorization ?? '') !== undefined;
  if (status === 401) reply.header('WWW-Authenticate', isToken ? 'Bearer error="invalid_token"' : 'Bearer');
  return reply.code(status).send({ message });
}

/** Indented for people. */
function answer(reply: FastifyReply, { status, body }: AdminAnswer): FastifyReply {
  return reply
    .code(status)
    .type('application/json')
    .send(`${JSON.stringify(body, null, 2)}\n`);
}
