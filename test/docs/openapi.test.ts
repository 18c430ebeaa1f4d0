// docs/openapi.yaml is valid, has the routes that there are, and tells of every answer what it is.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import fastify, { type FastifyReply, type FastifyRequest } from 'fastify';
import { createOperationsServer } from '../../src/proxy/health.ts';
import { addRoutes, routerOptions } from '../../src/proxy/routes.ts';
import { Submissions } from '../../src/proxy/submissions.ts';
import { documentFile, OpenApi, type Operation } from '../support/openapi.ts';

const document = new OpenApi();
const operations = document.operations.filter(({ tag }) => tag === 'operations');
const served = document.operations.filter(({ tag }) => tag !== 'operations');

test('the document is valid OpenAPI 3.1 of this version of the gateway', async () => {
  const validator = new Validator();
  const { valid, errors } = await validator.validate(documentFile);
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };

  assert.deepEqual([valid, errors, validator.version], [true, undefined, '3.1']);
  assert.equal((document.root['info'] as { version: string }).version, version);
  assert.equal(new Set(document.operations.map(({ id }) => id)).size, document.operations.length);
});

/** The path with its holes alike, whatever their names: a wildcard is the path that everything else comes under. */
function shapeOf(path: string): string {
  return path.replaceAll(/\{[^}]+\}|:[a-z]+|\*/g, '{}').replace(/^\{\}$/, '/v1/{}');
}

const named = (name: string) => (_request: FastifyRequest, reply: FastifyReply) => void reply.send(name);
const nobody = async (): Promise<never> => Promise.reject(new Error('nothing is asked'));

/** The gateway's own routes, each of which answers its name. */
function namedRoutes(t: TestContext) {
  const app = fastify({ exposeHeadRoutes: false, routerOptions });
  t.after(() => app.close());
  const urls: { readonly methods: readonly string[]; readonly url: string }[] = [];
  app.addHook('onRoute', ({ method, url }) => void urls.push({ methods: [method].flat(), url }));
  const handlers = { view: named('view'), submit: named('submit'), ledgerInfo: named('ledger_info') };
  addRoutes(
    app,
    { basePath: '/v1', submissions: new Submissions() },
    { ...handlers, read: named, raw: named, wait: () => named('wait_by_hash'), preflight: named('preflight') },
  );
  return { app, urls };
}

test('every operation of the document is taken by the route that it names', async (t) => {
  const { app } = namedRoutes(t);

  for (const { id, method, target, route } of served) {
    const headers = method === 'GET' || method === 'HEAD' ? {} : { 'content-type': 'application/json' };
    const reply = await app.inject({ method, url: target, headers });
    const length = String(route).length;
    const taken = method === 'HEAD' ? Number(reply.headers['content-length']) : reply.body;
    assert.equal(taken, method === 'HEAD' ? length : route, id);
  }
});

test('every route is in the document', (t) => {
  const { urls } = namedRoutes(t);
  const described = new Set(served.map(({ method, path }) => `${method} ${shapeOf(path)}`));

  const undescribed = urls.flatMap(({ methods, url }) =>
    methods.filter((method) => {
      // Other methods of the base path itself go to nodes, as those of other paths do.
      const isPassed = url === '/v1' && method !== 'GET' && method !== 'HEAD';
      // With a slash behind it, the base path is what it is without.
      const path = url === '/v1/' ? '/v1' : url;
      return !described.has(`${method} ${isPassed ? '/v1/{}' : shapeOf(path)}`);
    }),
  );

  assert.ok(urls.length > 10);
  assert.deepEqual(undescribed, []);
});

test('the operations port has the routes that the document tells of, and no others', async (t) => {
  const app = createOperationsServer({
    isDraining: () => false,
    readiness: nobody,
    metrics: nobody,
    status: nobody,
    log: { show: () => ({ status: 200, body: {} }), change: () => ({ status: 200, body: {} }) },
    admin: { purge: nobody, explain: nobody, usage: nobody },
    rules: () => ({ host: '127.0.0.1', readyInOutage: true }),
    reload: () => undefined,
  });
  t.after(() => app.close());
  await app.ready();
  const shown = app.printRoutes({ commonPrefix: false }).matchAll(/(\/\S*) \(([^)]+)\)/g);
  const routes = [...shown].flatMap(([, url = '', methods = '']) =>
    methods.split(', ').flatMap((method) => (method === 'HEAD' ? [] : [`${method} ${url}`])),
  );

  const described = operations.map(({ method, path }: Operation) => `${method} ${path}`);

  // The status page is for people; it has its own description.
  assert.deepEqual(routes.filter((route) => !route.startsWith('GET /status')).sort(), described.sort());
});
