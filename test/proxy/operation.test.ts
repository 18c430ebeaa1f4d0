// What a request is charged and refused by is told before it is routed: it must be what the routes make of it.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import fastify from 'fastify';
import type { Operation } from '../../src/access/principal.ts';
import { operationOf } from '../../src/proxy/operation.ts';
import { addRoutes, routerOptions } from '../../src/proxy/routes.ts';
import { Submissions } from '../../src/proxy/submissions.ts';
import { fc } from '../support/fast-check.ts';

const operationOfRoute: Readonly<Record<string, Operation>> = {
  view: 'view',
  encode_submission: 'encode',
  pass_through: 'pass',
};

/** Inject would make a URL of the target, and with it another target. */
const rewriteUrl = ({ headers }: { headers: object }): string => (headers as { target: string }).target;

const takes = (operation: Operation | undefined) => (_request: unknown, reply: { send(text: string): void }) =>
  reply.send(operation ?? 'none');

/** Tells which operation the gateway's own routes take a request for; `undefined`: none of them takes it. */
function routesOf(t: TestContext, basePath: string) {
  const app = fastify({ exposeHeadRoutes: false, routerOptions, rewriteUrl });
  t.after(() => app.close());
  addRoutes(
    app,
    { basePath, submissions: new Submissions() },
    {
      read: () => takes('read'),
      view: takes('view'),
      raw: (name: string) => takes(operationOfRoute[name]),
      submit: takes('submit'),
      wait: () => takes('read'),
      ledgerInfo: takes('read'),
      preflight: takes(undefined),
    },
  );
  return async (method: 'GET' | 'POST' | 'PUT', target: string): Promise<string | undefined> => {
    const { statusCode, body } = await app.inject({ method, url: '/', headers: { host: 'a', target } });
    return statusCode === 200 ? body : undefined;
  };
}

const words = [
  'accounts',
  '0x1',
  'resource',
  'module',
  '0x1::a::B',
  'transactions',
  'by_hash',
  'wait_by_hash',
  'batch',
];
const more = [
  'encode_submission',
  'view',
  'balance',
  '',
  '.',
  '..',
  'v1',
  'TRANSACTIONS',
  'transactions;a',
  'simulate',
];
const known = ['', '/', '/view', '/view/', '/transactions', '/transactions/', '/transactions/batch'];
const deeper = ['/transactions/encode_submission', '/transactions/by_hash/0x1', '/transactions/wait_by_hash/0x1'];
const others = [
  '/accounts/0x1/resource/0x1::a::B',
  '/accounts/0x1/module/coin',
  '/accounts/0x1',
  '/accounts/0x1/module/',
  '/accounts/0x1/resource/',
  '/transactions/by_hash/',
  '/transactions/wait_by_hash/',
  '/accounts//module/a',
  '/transactions/batch/',
];
const paths = fc.oneof(
  fc.constantFrom(...known, ...deeper, ...others),
  fc.array(fc.constantFrom(...words, ...more), { maxLength: 5 }).map((parts) => `/${parts.join('/')}`),
);

/** Writes some characters in another spelling. */
const spelled = fc
  .tuple(paths, fc.array(fc.nat(60), { maxLength: 4 }), fc.constantFrom('', '?x=1', '#x', '?/view', ';x'))
  .map(([path, places, end]) => {
    const characters = path.split('');
    for (const place of places) {
      const code = characters[place]?.charCodeAt(0);
      if (code !== undefined) characters[place] = `%${code.toString(16).padStart(2, '0')}`;
    }
    return characters.join('') + end;
  });

for (const basePath of ['/v1', '']) {
  test(`the operation of a request is that of its route, in every spelling, below "${basePath}"`, async (t) => {
    const routed = routesOf(t, basePath);
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(fc.constantFrom('GET', 'POST', 'PUT'), spelled, async (method, path) => {
        const target = basePath + path;
        fc.pre(target.startsWith('/'));
        const route = await routed(method, target);
        if (route === undefined) return;
        const operation = operationOf(method, target, basePath);
        seen.add(operation);
        // Spellings that look like a submission count as one, even where it is for a node to say what they are.
        if (operation === 'submit' && route === 'pass') return;
        assert.equal(operation, route, `${method} ${target}`);
      }),
      { numRuns: 3_000 },
    );
    assert.deepEqual([...seen].sort(), ['encode', 'pass', 'read', 'submit', 'view']);
  });
}

const operations: readonly (readonly [method: string, target: string, Operation])[] = [
  ['GET', '/v1', 'read'],
  ['GET', '/v1?x', 'read'],
  ['POST', '/v1', 'pass'],
  ['GET', '/v1/', 'read'],
  ['POST', '/v1/', 'pass'],
  ['GET', '/v1//', 'pass'],
  ['GET', '/v1/accounts/0x1/resource/0x1::a::B?ledger_version=1', 'read'],
  ['HEAD', '/v1/accounts/0x1/module/a', 'read'],
  ['GET', '/v1/accounts/0x1/module/', 'read'],
  ['GET', '/v1/accounts//module/a', 'read'],
  ['GET', '/v1/transactions/by_hash/', 'read'],
  ['HEAD', '/v1/transactions/wait_by_hash/0x1', 'pass'],
  ['POST', '/v1/view', 'view'],
  ['GET', '/v1/view', 'pass'],
  ['POST', '/v1/%76iew', 'view'],
  ['POST', '/v1/transactions', 'submit'],
  ['POST', '/v1/transactions/', 'submit'],
  ['POST', '/v1/transactions#x', 'submit'],
  ['POST', '/v1/Transactions/BATCH//', 'submit'],
  ['POST', '/%76%31/%74ransactions', 'submit'],
  ['POST', '/v1/transactions%2f', 'pass'],
  ['POST', '/v1/%2574ransactions', 'pass'],
  ['POST', '/v1/transactions/simulate', 'pass'],
  ['GET', '/v1/transactions', 'pass'],
  ['POST', '/v1/%ff', 'pass'],
  ['GET', '*', 'pass'],
  ['GET', '/', 'pass'],
];

test('operations by method and target', () => {
  for (const [method, target, operation] of operations)
    assert.equal(operationOf(method, target, '/v1'), operation, target);
});
