// docs/openapi.yaml is valid, has the routes that there are, and describes every answer.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { createOperations } from '../../src/proxy/operations/operations-server.ts';
import { rows } from '../../src/proxy/routes/route-table.ts';
import { Router } from '../../src/proxy/routes/router.ts';
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

const nobody = async (): Promise<never> => Promise.reject(new Error('nothing is asked'));

test('every operation of the document is taken by the route that it names', () => {
  const router = new Router('/v1');

  for (const { id, method, target, route } of served) {
    const { kind, name } = router.match(method, target).route;
    assert.equal(kind === 'preflight' ? kind : name, route, id);
  }
});

test('every route is in the document', () => {
  const described = new Set(served.map(({ method, path }) => `${method} ${shapeOf(path)}`));
  const own = rows.flatMap(({ path, routes = {} }) =>
    Object.keys(routes).map((method) => `${method} ${shapeOf(`/v1${path}`)}`),
  );
  const passed = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].map((method) => `${method} /v1/{}`);

  assert.ok(own.length > 10);
  assert.deepEqual(
    [...own, ...passed].filter((route) => !described.has(route)),
    [],
  );
});

/** The routes of Fastify's tree, in which a path is shown below the path that it continues. */
function routesOf(tree: string): readonly string[] {
  const paths: string[] = [];
  return tree.split('\n').flatMap((line) => {
    const [, indent = '', part = '', methods = ''] = /^([│├└─ ]*)(\S*)(?: \(([^)]+)\))?/.exec(line) ?? [];
    const depth = indent.length / 4;
    const path = (depth > 1 ? (paths[depth - 1] ?? '') : '') + part;
    paths[depth] = path;
    const named = path.replace(/:(\w+)/g, '{$1}');
    return methods.split(', ').flatMap((method) => (method === '' || method === 'HEAD' ? [] : [`${method} ${named}`]));
  });
}

test('the operations port has the routes of the document, and no others', async (t) => {
  const { app } = createOperations({
    version: '1.2.3',
    source: {
      nodes: () => [],
      readiness: nobody,
      report: nobody,
      families: nobody,
      purge: nobody,
      setDrained: nobody,
      explain: nobody,
      usage: nobody,
      keys: nobody,
    },
    log: undefined as never,
    setLog: () => undefined,
    isDraining: () => false,
    rules: () => ({ host: '127.0.0.1', readyInOutage: true }),
    reload: () => undefined,
    audit: () => undefined,
  });
  t.after(() => app.close());
  await app.ready();
  const routes = routesOf(app.printRoutes({ commonPrefix: false }));

  const described = operations.map(({ method, path }: Operation) => `${method} ${path}`);

  // `/` only leads to the status page.
  assert.deepEqual(routes.filter((route) => route !== 'GET /').sort(), described.sort());
});
