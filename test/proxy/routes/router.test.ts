// One router decides the route and the operation of a request, in every spelling of its target.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { test, type TestContext } from 'node:test';
import fastify from 'fastify';
import { Registry } from 'prom-client';
import type { AccessOperation } from '../../../src/access/keys/principals.ts';
import { latestRoutes } from '../../../src/config/schema/staleness-overrides.ts';
import type { Exchange } from '../../../src/proxy/http/exchange.ts';
import { HeaderBlocks, readHead } from '../../../src/proxy/http/fast-path/request-head.ts';
import type { RouteKind } from '../../../src/proxy/http/message.ts';
import { ownCopy } from '../../../src/proxy/http/target-cache.ts';
import { longestTarget } from '../../../src/proxy/http/target.ts';
import { isOfLatest } from '../../../src/proxy/reads/policy.ts';
import type { ReadResult } from '../../../src/proxy/reads/read.ts';
import { Reader } from '../../../src/proxy/reads/reader.ts';
import type { Reads } from '../../../src/proxy/reads/reads.ts';
import { type PathRow, rows, type TableRoute } from '../../../src/proxy/routes/route-table.ts';
import { Router } from '../../../src/proxy/routes/router.ts';
import { Routes } from '../../../src/proxy/routes/routes.ts';
import { Submissions } from '../../../src/proxy/routes/submissions.ts';
import { fc } from '../../support/fast-check.ts';
import { heldBytes } from '../../support/heap.ts';

const routers = { '/v1': new Router('/v1'), '': new Router('') };

function operationOf(method: string, target: string, basePath: '/v1' | ''): AccessOperation {
  return routers[basePath].match(method, target).operation;
}

/** Inject would make a URL of the target, and with it another target. */
const rewriteUrl = ({ headers }: { headers: object }): string => (headers as { target: string }).target;

const sends = (kind: RouteKind, operation = '') => {
  return (_request: unknown, reply: { send(text: string): void }) => reply.send(`${kind} ${operation}`);
};

/**
 * Paths of the interface (interface specification 4; protocol 1) with what a request for them is, apart from the table of
 * the routes, and the operation that it counts as (docs/access.md).
 */
const interfacePaths: readonly (readonly ['GET' | 'POST', RouteKind, AccessOperation, paths: string])[] = [
  ['GET', 'ledger info', 'read', ''],
  ['GET', 'read', 'read', '/accounts/:a/resource/:type /accounts/:a/module/:name /transactions/by_hash/:hash'],
  ['GET', 'wait', 'read', '/transactions/wait_by_hash/:hash'],
  ['POST', 'posted', 'view', '/view'],
  ['POST', 'encode', 'encode', '/transactions/encode_submission'],
  ['POST', 'submit', 'submit', '/transactions /transactions/batch'],
  ['POST', 'posted', 'pass', '/tables/:handle/item /tables/:handle/raw_item'],
  ['GET', 'read', 'pass', '/accounts/:a /accounts/:a/balance/:asset /accounts/:a/resources /accounts/:a/modules'],
  ['GET', 'read', 'pass', '/accounts/:a/events/:number /accounts/:a/events/:handle/:field'],
  ['GET', 'read', 'pass', '/accounts/:a/transactions /accounts/:a/transaction_summaries'],
  ['GET', 'read', 'pass', '/transactions /transactions/by_version/:version /transactions/auxiliary_info'],
  ['GET', 'read', 'pass', '/blocks/by_height/:height /blocks/by_version/:version'],
  ['GET', 'read', 'pass', '/estimate_gas_price /spec /spec.json /spec.yaml /info'],
  ['GET', 'health', 'read', '/-/health'],
  ['GET', 'usage', 'read', '/-/usage'],
];

/** The route by which Fastify would answer a request, with one handler for each method and path. */
function fastifyRoutes(t: TestContext, basePath: string) {
  const app = fastify({ exposeHeadRoutes: false, routerOptions: { maxParamLength: longestTarget }, rewriteUrl });
  t.after(() => app.close());
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  for (const [method, kind, operation, paths] of interfacePaths) {
    for (const path of paths.split(' ')) {
      const urls = path === '' ? new Set([basePath || '/', `${basePath}/`]) : [basePath + path];
      for (const url of urls) app.route({ method, url, handler: sends(kind, operation) });
    }
  }
  // No node gets a request for a path of the gateway's own.
  for (const url of ['/-/health', '/-/usage'])
    app.route({ method: ['POST', 'PUT'], url: basePath + url, handler: sends('none') });
  if (basePath !== '') app.route({ method: ['POST', 'PUT'], url: basePath, handler: sends('passed') });
  app.route({ method: ['GET', 'HEAD', 'POST', 'PUT'], url: `${basePath}/*`, handler: sends('passed') });
  return async (method: 'GET' | 'POST' | 'PUT', target: string): Promise<string> => {
    const { statusCode, body } = await app.inject({ method, url: '/', headers: { host: 'a', target } });
    return statusCode === 200 ? body : 'none ';
  };
}

const segments = [
  'accounts 0x1 resource module 0x1::a::B transactions by_hash wait_by_hash batch encode_submission view balance . ..',
  'v1 TRANSACTIONS transactions;a simulate blocks by_height by_version events item tables resources',
].flatMap((line) => line.split(' '));
const known = ` / /view /view/ /transactions /transactions/ /transactions/batch /transactions/encode_submission
/transactions/by_hash/0x1 /transactions/wait_by_hash/0x1 /accounts/0x1/resource/0x1::a::B /accounts/0x1/module/coin
/accounts/0x1 /accounts/0x1/module/ /accounts/0x1/resource/ /transactions/by_hash/ /transactions/wait_by_hash/
/accounts//module/a /transactions/batch/ /accounts/0x1/ /accounts/0x1/balance/0xa /accounts/0x1/balance/
/accounts/0x1/resources /accounts/0x1/modules /accounts/0x1/events/5 /accounts/0x1/events/0x1::a::B/field
/accounts/0x1/transactions /accounts/0x1/transaction_summaries /tables/0x1/item /tables/0x1/raw_item
/transactions/by_version/5 /transactions/auxiliary_info /blocks/by_height/5 /blocks/by_version/5
/estimate_gas_price /spec /spec.json /spec.yaml /info /-/health /-/health/ /-/usage /-/healthy /-/usage/a
/set_failpoint`.split(/[ \n]/);
const paths = fc.oneof(
  fc.constantFrom(...known),
  fc.array(fc.constantFrom('', ...segments), { maxLength: 5 }).map((parts) => `/${parts.join('/')}`),
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

for (const basePath of ['/v1', ''] as const) {
  test(`a request takes the route that a server's router finds, in every spelling, below "${basePath}"`, async (t) => {
    const routed = fastifyRoutes(t, basePath);
    const [seen, reached] = [new Set<string>(), new Set<string>()];
    const methods = ['GET', 'POST', 'PUT'] as const;
    const compare = async (method: (typeof methods)[number], target: string): Promise<void> => {
      const { route, operation } = routers[basePath].match(method, target);
      // A passed path counts as what a node's router may fold it into.
      const own = route.kind === 'passed' || route.kind === 'none' ? '' : operation;
      assert.equal(`${route.kind} ${own}`, await routed(method, target), `${method} ${target}`);
      seen.add(operation);
      reached.add(`${method} ${route.template}`);
    };
    for (const path of known) for (const method of methods) await compare(method, basePath + path || '/');
    const templates = rows.flatMap(({ routes = {} }) =>
      Object.entries(routes).flatMap(([method, { template }]) => (method === 'HEAD' ? [] : [`${method} ${template}`])),
    );
    assert.deepEqual(
      templates.filter((each) => !reached.has(each)),
      [],
    );
    assert.deepEqual([...seen].sort(), ['encode', 'pass', 'read', 'submit', 'view']);
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...methods), spelled, async (method, path) => {
        fc.pre((basePath + path).startsWith('/'));
        await compare(method, basePath + path);
      }),
      { numRuns: 3_000 },
    );
  });
}

/** Beside the spellings of the property above, and of docs/access.md. */
const operations: readonly (readonly [method: string, target: string, AccessOperation])[] = [
  ['POST', '/v1', 'pass'],
  ['POST', '/v1/', 'pass'],
  ['GET', '/v1//', 'read'],
  ['HEAD', '/v1/accounts/0x1/module/a', 'read'],
  ['HEAD', '/v1/transactions/wait_by_hash/0x1', 'read'],
  ['GET', '/v1/view', 'pass'],
  ['POST', '/v1/transactions#x', 'submit'],
  ['POST', '/%76%31/%74ransactions', 'submit'],
  ['POST', '/v1/view;/../simulate', 'view'],
  // A dot above the i, which a comparison without case drops.
  ['POST', '/v1/vi%CC%87ew', 'view'],
  // A joiner, which normalisation drops.
  ['POST', '/v1/transac%E2%80%8Dtions', 'submit'],
  ['POST', '/v1/transactions;a/view', 'submit'],
  ['POST', '/v1/transactions;/simulate', 'submit'],
  ['POST', '/v1/transactions/simulate/', 'pass'],
  ['POST', '/v1/views', 'pass'],
  ['POST', '/v1/view/0x1', 'pass'],
  ['POST', '/v2/view', 'pass'],
  ['GET', '/v1/accounts/0x1/resources/', 'pass'],
  // A router that drops parameters reads a path that only `pass` allows.
  ['GET', '/v1/;a/accounts/0x1/resources', 'pass'],
  ['GET', '/v1/view/', 'pass'],
  ['POST', '/v1/transactions/simulate', 'pass'],
  ['HEAD', '/v1/blocks/by_height/5', 'pass'],
  ['POST', '/v1/%ff', 'pass'],
  ['GET', '*', 'pass'],
  ['GET', '/', 'pass'],
];

const strictest: readonly AccessOperation[] = ['submit', 'encode', 'view', 'pass', 'read'];

const plain: readonly (readonly [method: string, path: string, AccessOperation])[] = [
  ['GET', '', 'read'],
  ['GET', '/accounts/0x1/resource/0x1::a::B', 'read'],
  ['HEAD', '/accounts/0x1/module/coin', 'read'],
  ['GET', '/transactions/by_hash/0x1', 'read'],
  ['GET', '/transactions/wait_by_hash/0x1', 'read'],
  ['POST', '/view', 'view'],
  ['POST', '/transactions/encode_submission', 'encode'],
  ['POST', '/transactions', 'submit'],
  ['POST', '/transactions/batch', 'submit'],
];

/** Writes one letter of a path in another way. */
const letterSpellings: readonly ((letter: string) => string)[] = [
  (letter) => letter.toUpperCase(),
  (letter) => `%${letter.charCodeAt(0).toString(16)}`,
  (letter) => `%25${letter.charCodeAt(0).toString(16)}`,
  (letter) => `%2525${letter.charCodeAt(0).toString(16)}`,
  // The full-width form of the letter.
  (letter) => encodeURIComponent(String.fromCharCode(letter.charCodeAt(0) + 0xfee0)),
  (letter) => `${letter}%C2%AD`,
  (letter) => (letter === 'i' ? '%C4%B1' : letter),
];

/** Behind a segment, behind a path, and in the place of a slash. */
const suffixes = [';', ';a=b', ';a=b;c', '%3Ba', '?a', '%3fa', '#a', '%23', '.json', '.', '%20', '%09', '%00', '%00a'];
const ends = ['/', '//', '/.', '/%2e', '\\', '%5c', '%2F', '%252f', '/x/..', '/;a', '/%ff', '/%c2%a0'];
const slashes = ['//', '/./', '/;a/', '/%2e/', '/x/../', '\\', '%2f', '%252F', '%5C', '/%20/', '/~/'];

const few = <T>(one: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(one, { maxLength: 3 });
const spelledPath = fc
  .record({
    row: fc.constantFrom(...plain),
    letters: few(fc.tuple(fc.nat(60), fc.constantFrom(...letterSpellings))),
    suffix: few(fc.constantFrom(...suffixes)),
    end: few(fc.constantFrom(...ends)),
    slash: few(fc.tuple(fc.nat(60), fc.constantFrom(...slashes))),
  })
  .map(({ row: [method, path, operation], letters, suffix, end, slash }) => {
    const characters = path.split('');
    for (const [at, spell] of letters) characters[at] = characters[at]?.replace(/^[a-z]$/, spell) ?? '';
    const whole = characters.join('') + (path === '' ? '' : suffix.join('')) + end.join('');
    const spelled = slash.reduce((text, [at, by]) => text.slice(0, at) + text.slice(at).replace('/', by), whole);
    return { method, operation, spelled };
  });

test('a path in any spelling counts as the operation that it resembles', () => {
  fc.assert(
    fc.property(
      spelledPath,
      fc.constantFrom('/v1' as const, '' as const),
      ({ method, operation, spelled }, basePath) => {
        const counted = operationOf(method, basePath + spelled, basePath);
        // A router that stops at a parameter reads another path than one that drops it: the stricter of both counts.
        const isOneOfTwo = /[;?#]|%3[bf]|%23|%00/i.test(spelled);
        const allowed = isOneOfTwo ? strictest.slice(0, strictest.indexOf(operation) + 1) : [operation];
        assert.ok(allowed.includes(counted), `${method} ${spelled} counts as ${counted}`);
      },
    ),
    { numRuns: 20_000 },
  );
});

test('operations by method and target', () => {
  for (const [method, target, operation] of operations)
    assert.equal(operationOf(method, target, '/v1'), operation, target);
});

test('every spelling of a view in docs/access.md counts as a view', () => {
  const text = readFileSync(new URL('../../../docs/access.md', import.meta.url), 'utf8');
  const [, table = ''] = text.split('All of these count as `/view`:');
  const rows = (table.split('\n\n')[1] ?? '').split('\n');
  const spellings = rows.flatMap((row) =>
    [...(row.split('|')[2] ?? '').matchAll(/`([^`]+)`/g)].map(([, path]) => path),
  );
  assert.ok(spellings.length >= 18);
  for (const path of spellings) assert.equal(operationOf('POST', `/v1${path}`, '/v1'), 'view', path);
});

const allowed: readonly (readonly [target: string, methods: string])[] = [
  ['/v1/view', 'POST'],
  ['/v1/view/?x', 'POST'],
  ['/v1/vie%77', 'POST'],
  ['/v1/tables/0x1/raw_item', 'POST'],
  ['/v1/transactions/simulate', 'POST'],
  ['/v1/transactions/batch', 'POST'],
  ['/v1/transactions', 'GET, HEAD, POST'],
  ['/v1/transactions/by_hash/0x1', 'GET, HEAD'],
  ['/v1', 'GET, HEAD'],
  ['*', 'GET, HEAD'],
];

test('a 405 allows the methods of its target', () => {
  for (const [target, methods] of allowed)
    assert.deepEqual(routers['/v1'].notAllowed(target).headers, ['Allow', methods], target);
});

test('a refused request has a fault, and counts as the operation that a node would read', () => {
  const outside = routers['/v1'].match('GET', '/v2/accounts/0x1');
  const undecodable = routers['/v1'].match('POST', '/v1/view%ff');
  assert.deepEqual([outside.fault?.status, outside.route.name], [404, 'none']);
  assert.deepEqual([undecodable.fault?.status, undecodable.operation], [400, 'view']);
});

test('latest.overrides names the routes with reads of the latest state, and no other', () => {
  const parameters = { address: '0x1', type: '0x1::a::B', hash: `0x${'1'.repeat(64)}`, name: 'a' };
  const hasLatest = ({ isState = false }: PathRow, { kind, parse }: TableRoute): boolean => {
    if (isState || kind === 'ledger info') return true;
    if (kind !== 'read') return false;
    const read = parse?.(parameters, { target: '/v1', accept: undefined }, new Submissions());
    return read !== undefined && ('shared' in read ? read.shared === 'latest' : isOfLatest(read));
  };
  const names = rows.flatMap((row) => {
    const { GET, POST } = row.routes ?? {};
    return [GET, POST].flatMap((route) => (route !== undefined && hasLatest(row, route) ? [route.name] : []));
  });

  assert.deepEqual([...new Set(names)].sort(), [...latestRoutes].sort());
});

// Routes keep no text of the bytes that a request came with, and answer the ledger info at once.

const json = 'Host: a\r\nContent-Type: application/json\r\n';
const item = '{"key_type":"u64","value_type":"u64","key":"5"}';

function post(target: string, body: string): string {
  return `POST ${target} HTTP/1.1\r\n${json}Content-Length: ${body.length}\r\n\r\n${body}`;
}

const requestsOf: Readonly<Record<string, (index: number) => string>> = {
  'a table item': (index) => post(`/v1/tables/0x1${index.toString(16).padStart(63, '0')}/item`, item),
  'a view': (index) =>
    post('/v1/view', `{"function":"0x1::ledgergate_sample::f${index}","type_arguments":[],"arguments":[]}`),
  'a view that is sent byte for byte': (index) =>
    post('/v1/view', `{"function":"0x1::m::f${index}","type_arguments":[],"arguments":[{"a":1,"a":1}]}`),
  'a view at a version that is sent byte for byte': (index) =>
    post(
      '/v1/view?ledger_version=5',
      `{"function":"0x1::m::f${index}","type_arguments":[],"arguments":[{"a":1,"a":1}]}`,
    ),
  'a view above 8 kB': (index) =>
    post('/v1/view', `{"function":"0x1::m::f${index}","type_arguments":[],"arguments":["${'a'.repeat(8_192)}"]}`),
  'a resource under a plain type': (index) =>
    `GET /v1/accounts/0x1/resource/0x1::ledgergate_sample::T${index} HTTP/1.1\r\n${json}\r\n`,
  'an account': (index) => `GET /v1/accounts/0x1${index.toString(16).padStart(63, '0')} HTTP/1.1\r\n${json}\r\n`,
};

function routesOver(reads: Reads): Routes {
  const settings = { encode: { enabled: false, share: 0 } };
  return new Routes({ reads, settings, basePath: '/v1', registry: new Registry() } as never);
}

for (const [what, requestOf] of Object.entries(requestsOf)) {
  test(`${what} in 60 kB of pipelined requests keeps below 4 kB`, async () => {
    let answered = 0;
    const result = { entry: { lifetimeMs: Infinity } } as ReadResult;
    const memory = { find: () => result.entry };
    const tiers = { isProvisional: () => false };
    const metrics = { hitsOf: () => ({ inc: () => undefined }) };
    const reads = {
      reader: new Reader({ chainId: 4 } as never, { memory, tiers, metrics } as never, {} as never, {} as never),
      freshness: { findRead: () => result },
    } as unknown as Reads;
    const routes = routesOver(reads);
    const blocks = new HeaderBlocks();
    const [warm, count] = [100, 300];
    const send = async (index: number): Promise<void> => {
      const chunk = Buffer.from(requestOf(index).padEnd(60_000, 'GET /v1 HTTP/1.1\r\n'));
      const head = readHead(chunk.toString('latin1'), 0, blocks);
      assert.ok(head !== undefined);
      const { method, bodyFrom, end } = head;
      // As the fast path matches a new target.
      const target = ownCopy(head.target);
      const exchange = {
        request: { headers: { 'content-type': 'application/json' } },
        isWhole: true,
        isRestricted: false,
        requireFunction: () => undefined,
        answerRead: () => void (answered += 1),
      } as unknown as Exchange;
      await routes.serve(exchange, routes.match(method, target), chunk.subarray(bodyFrom, end));
    };
    // Compiled code of the first requests is no text of theirs.
    for (let index = 0; index < warm; index += 1) await send(index);
    const before = [heldBytes(), process.memoryUsage().arrayBuffers];
    for (let index = warm; index < warm + count; index += 1) await send(index);

    const after = [heldBytes(), process.memoryUsage().arrayBuffers];
    const [heap = 0, buffers = 0] = after.map((bytes, at) => (bytes - (before[at] ?? 0)) / count);
    assert.ok(heap < 4_096, `${Math.round(heap)} bytes`);
    // The collector frees buffers late; a slice of the received bytes would keep 60 kB of each request.
    assert.ok(buffers < 30_000, `${Math.round(buffers)} bytes of buffers`);
    assert.equal(answered, warm + count);
    assert.equal(routes.targets.find('/', 'json'), undefined);
  });
}

test('a shared state answers the ledger info without a wait: no timer, no listener', () => {
  const info = { body: Buffer.from('{}'), version: 900n };
  const routes = routesOver({ reader: {}, freshness: { findLedgerInfo: () => info } } as unknown as Reads);
  let answered: unknown;
  const exchange = {
    request: { headers: {} },
    get signal() {
      return assert.fail('the exchange waits');
    },
    answerInfo: (found: unknown) => void (answered = found),
  } as unknown as Exchange;

  void routes.serve(exchange, routes.match('GET', '/v1'), undefined);

  assert.equal(answered, info);
});
