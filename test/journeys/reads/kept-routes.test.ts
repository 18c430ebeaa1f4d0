/**
 * The table of kept and shared reads: the node calls and the cache's report of each route, asked in each way, in both
 * dialects. Every answer is compared with that of a node byte for byte.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Agent, request as send } from 'undici';
import type { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, patient, testGateway } from '../../support/gateway.ts';
import { keptLedger, keptRoutes, type KeptRoute } from '../../support/kept-routes.ts';
import { spellRequest, type KeptRequest, type Value } from '../../support/kept-spellings.ts';
import { Draw, type StructTag } from '../../support/spellings.ts';

const crowd = 100;
const hour = 3_600_000;

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: Buffer;
}

interface Asking {
  readonly method?: 'HEAD';
  readonly headers?: Readonly<Record<string, string>>;
}

type Ask = (route: KeptRoute, path: string, asking?: Asking) => Promise<Answer>;

interface World {
  readonly ask: Ask;
  /** Asks a node of the same ledger, which the gateway does not know. */
  readonly askNode: Ask;
  /** Reads at the gateway's nodes so far. */
  readonly calls: () => number;
}

/** Nodes of one ledger, and as many gateways with empty caches as a test starts. */
async function nodesOf(t: TestContext, dialect: Dialect['name']): Promise<() => Promise<World>> {
  const full = await fakeNode(t, { ...keptLedger, dialect });
  const archival = await fakeNode(t, { ...keptLedger, archival: true, dialect });
  const twin = await fakeNode(t, { ...keptLedger, archival: true, dialect });
  const agent = new Agent({ connections: crowd, pipelining: 1 });
  t.after(() => agent.close());
  const askAt =
    (url: string): Ask =>
    async ({ body, isBcsAlone = false }, path, { method = body === undefined ? 'GET' : 'POST', headers = {} } = {}) => {
      const own: Record<string, string> = { ...headers };
      if (body !== undefined) own['content-type'] = 'application/json';
      if (isBcsAlone) own['accept'] = 'application/x-bcs';
      const reply = await send(url + path, { dispatcher: agent, method, headers: own, body: body ?? null });
      const bytes = Buffer.from(await reply.body.arrayBuffer());
      return { status: reply.statusCode, headers: reply.headers as Answer['headers'], body: bytes };
    };
  return async () => {
    // One bound lasts for the whole test, so that the version of "latest" stays.
    const config = {
      latest: { maxStalenessMs: hour, waitForVersionMs: 1 },
      cache: { gasPriceTtlMs: hour },
      upstream: patient,
    };
    const { url } = await testGateway(t, { full: [full], archival: [archival], config }, dialect);
    return { ask: askAt(url), askNode: askAt(twin.url), calls: () => full.reads + archival.reads };
  };
}

/** Asks one way; resolves with the last answer. */
type Way = (world: World, route: KeptRoute) => Promise<Answer> | undefined;

const bcs = { headers: { accept: 'application/x-bcs' } } as const;

/** The same request twice; both answers are those of a node. */
function twice(path: string | undefined, asking?: Asking): Way {
  return (world, route) => (path === undefined ? undefined : askTwice(world, route, path, asking));
}

async function askTwice(world: World, route: KeptRoute, path: string, asking?: Asking): Promise<Answer> {
  const expected = await world.askNode(route, path, asking);
  const first = await world.ask(route, path, asking);
  const second = await world.ask(route, path, asking);
  for (const answer of [first, second]) sameAnswer(answer, expected, `${route.name} ${path}`);
  return second;
}

function sameAnswer(answer: Answer, expected: Answer, of: string): void {
  assert.equal(answer.status, expected.status, of);
  assert.equal(answer.headers['content-type'], expected.headers['content-type'], of);
  assert.ok(answer.body.equals(expected.body), `${of}: ${answer.body.toString()} is not ${expected.body.toString()}`);
  for (const name of ['x-node-cursor', 'x-aptos-cursor', 'x-node-gas-used', 'x-aptos-gas-used']) {
    assert.equal(answer.headers[name], expected.headers[name], `${of}: ${name}`);
  }
}

async function together(world: World, route: KeptRoute, path: string): Promise<Answer> {
  const expected = await world.askNode(route, path);
  const answers = await Promise.all(Array.from({ length: crowd }, () => world.ask(route, path)));
  for (const answer of answers) sameAnswer(answer, expected, `${route.name} ${path}`);
  return world.ask(route, path);
}

async function headThenGet(world: World, route: KeptRoute, path: string): Promise<Answer> {
  const head = await world.ask(route, path, { method: 'HEAD' });
  const get = await world.ask(route, path);
  assert.deepEqual([head.status, head.body.length], [get.status, 0]);
  assert.equal(head.headers['content-length'], String(get.body.length));
  assert.equal(head.headers['etag'], get.headers['etag']);
  return get;
}

async function revalidated(world: World, route: KeptRoute, path: string): Promise<Answer> {
  const { headers } = await world.ask(route, path);
  assert.ok(headers['etag'], `${route.name} has a tag`);
  const again = await world.ask(route, path, { headers: { 'if-none-match': headers['etag'] } });
  assert.deepEqual([again.status, again.body.length, again.headers['etag']], [304, 0, headers['etag']]);
  return again;
}

/** The final answer; of a route without one, the latest. */
function onItem(ask: (world: World, route: KeptRoute, path: string) => Promise<Answer>): Way {
  return (world, route) => {
    const path = route.final ?? route.latest;
    return path === undefined ? undefined : ask(world, route, path);
  };
}

function ofGet(way: Way): Way {
  return (world, route) => (route.body === undefined ? way(world, route) : undefined);
}

const ways: Readonly<Record<string, Way>> = {
  final: (world, route) => twice(route.final)(world, route),
  latest: (world, route) => twice(route.latest)(world, route),
  crowd: onItem(together),
  pruned: (world, route) => twice(route.pruned)(world, route),
  missing: (world, route) => twice(route.missing)(world, route),
  above: (world, route) => twice(route.above)(world, route),
  HEAD: ofGet(onItem(headThenGet)),
  BCS: onItem((world, route, path) => askTwice(world, route, path, bcs)),
  'If-None-Match': ofGet(onItem(revalidated)),
};

/** `1 memory`: node calls, and the source of the last answer; behind them its status, unless it is 200. */
async function cell(world: World, route: KeptRoute, way: Way): Promise<string> {
  const before = world.calls();
  const asked = way(world, route);
  if (asked === undefined) return '-';
  const { status, headers } = await asked;
  const report = headers['cache-status'] ?? '';
  const source = /detail=(memory|full|archive)/.exec(report)?.[1] ?? 'passed';
  return `${world.calls() - before} ${source}${status === 200 ? '' : ` ${status}`}`;
}

/** Of both dialects. A source that is not `memory` shows that the cache keeps no such answer. */
const expected = `
route                           | final    | latest   | crowd    | pruned   | missing       | above      | HEAD     | BCS      | If-None-Match
resource                        | 1 memory | 1 memory | 1 memory | 1 memory | 1 memory 404  | 4 full 404 | 1 memory | 1 memory | 1 memory 304
module                          | 1 memory | 1 memory | 1 memory | 1 memory | 1 memory 404  | 4 full 404 | 1 memory | 1 memory | 1 memory 304
view                            | 1 memory | 1 memory | 1 memory | 1 memory | -             | 4 full 404 | -        | 1 memory | -
account                         | 1 memory | 1 memory | 1 memory | 1 memory | 2 full 404    | 4 full 404 | 1 memory | 1 memory | 1 memory 304
balance                         | 1 memory | 1 memory | 1 memory | 1 memory | -             | 4 full 404 | 1 memory | 1 memory | 1 memory 304
resources                       | 1 memory | 1 memory | 1 memory | 1 memory | 2 full 404    | 4 full 404 | 1 memory | 1 memory | 1 memory 304
modules                         | 1 memory | 1 memory | 1 memory | 1 memory | 2 full 404    | 4 full 404 | 1 memory | 1 memory | 1 memory 304
table item                      | 1 memory | 1 memory | 1 memory | 1 memory | 1 memory 404  | 4 full 404 | -        | 1 memory | -
raw table item                  | 1 memory | 1 memory | 1 memory | 1 memory | 1 memory 404  | 4 full 404 | -        | 1 memory | -
transaction by hash             | 1 memory | -        | 1 memory | 2 memory | 4 archive 404 | -          | 1 memory | 1 memory | 1 memory 304
wait by hash                    | 1 memory | -        | 1 memory | 2 memory | 4 archive 404 | -          | 1 memory | 1 memory | 1 memory 304
transaction by version          | 1 memory | -        | 1 memory | 1 memory | -             | 4 full 404 | 1 memory | 1 memory | 1 memory 304
transactions                    | 1 memory | 1 memory | 1 memory | 1 memory | -             | 2 full 400 | 1 memory | 1 memory | 1 memory 304
auxiliary info                  | 1 memory | -        | 1 memory | 1 memory | -             | 2 full 400 | 1 memory | 1 memory | 1 memory 304
block by height                 | 1 memory | -        | 1 memory | 1 memory | -             | 2 full 404 | 1 memory | 1 memory | 1 memory 304
block by version                | 1 memory | -        | 1 memory | 1 memory | -             | 4 full 404 | 1 memory | 1 memory | 1 memory 304
block by height, transactions   | 1 memory | -        | 1 memory | 1 memory | -             | 2 full 404 | 1 memory | 1 memory | 1 memory 304
block by version, transactions  | 1 memory | -        | 1 memory | 1 memory | -             | 4 full 404 | 1 memory | 1 memory | 1 memory 304
events by number                | 1 memory | 1 memory | 1 memory | 2 memory | 2 full 404    | 2 full     | 1 memory | 1 memory | 1 memory 304
events by handle                | 1 memory | 1 memory | 1 memory | 2 memory | 2 full 404    | 2 full     | 1 memory | 1 memory | 1 memory 304
account transactions            | -        | 1 memory | 1 memory | 2 memory | 2 full 404    | -          | 1 memory | 1 memory | 1 memory 304
transaction summaries           | -        | 1 memory | 1 memory | 2 memory | 2 full 404    | -          | 1 memory | 1 memory | 1 memory 304
gas price                       | -        | 1 memory | 1 memory | -        | -             | -          | 1 memory | 1 memory | 1 memory 304
/spec                           | -        | 1 memory | 1 memory | -        | -             | -          | 1 memory | 1 memory | 1 memory 304
/spec.json                      | -        | 1 memory | 1 memory | -        | -             | -          | 1 memory | 1 memory | 1 memory 304
/spec.yaml                      | -        | 1 memory | 1 memory | -        | -             | -          | 1 memory | 1 memory | 1 memory 304
/info                           | -        | 1 memory | 1 memory | -        | -             | -          | 1 memory | 1 memory | 1 memory 304
`
  .trim()
  .split('\n')
  .map((line) => line.split('|').map((text) => text.trim()));

for (const dialect of ['node', 'aptos'] as const) {
  test(`each kept route costs the node calls of the table (${dialect})`, async (t) => {
    const start = await nodesOf(t, dialect);
    const table = [['route', ...Object.keys(ways)], ...keptRoutes.map(({ name }) => [name])];
    for (const way of Object.values(ways)) {
      const world = await start();
      for (const [at, route] of keptRoutes.entries()) table[at + 1]?.push(await cell(world, route, way));
    }

    for (const [name = '', ...cells] of table) {
      t.diagnostic(name.padEnd(32) + cells.map((text) => text.padEnd(14)).join(''));
    }
    assert.deepEqual(table, expected);
  });
}

// Requests in many spellings over real sockets: one node call, and the bytes that a node answers to the same
// spelling.

const account: Value = { of: 'address', digits: '5a000001' };
const number = (value: bigint): Value => ({ of: 'number', number: value });
const struct = (module: string, name: string): StructTag => ({
  kind: 'struct',
  address: '1',
  module,
  name,
  arguments: [],
});
const at = [['ledger_version', number(600n)]] as const;
const probe: Value = { of: 'tag', tag: struct('ledgergate_sample', 'Probe') };
const coin: Value = { of: 'tag', tag: struct('aptos_coin', 'AptosCoin') };

const requests: Readonly<Record<string, Partial<KeptRequest> & Pick<KeptRequest, 'path' | 'query'>>> = {
  account: { path: ['accounts', account], query: at },
  balance: { path: ['accounts', account, 'balance', coin], query: at },
  resource: { path: ['accounts', { of: 'address', digits: '1' }, 'resource', probe], query: at },
  resources: {
    path: ['accounts', { of: 'address', digits: '1' }, 'resources'],
    query: [...at, ['limit', number(5n)]],
  },
  'table item': {
    method: 'POST',
    path: ['tables', account, 'item'],
    query: at,
    body: [
      ['key_type', { kind: 'vector', element: struct('string', 'String') }],
      ['value_type', { kind: 'primitive', name: 'u64' }],
      ['key', ['a"\u00e9/', { number: '1.0' }]],
    ],
  },
  'transaction by version': { path: ['transactions', 'by_version', number(600n)], query: [] },
  transactions: {
    path: ['transactions'],
    query: [
      ['start', number(600n)],
      ['limit', number(5n)],
    ],
  },
  block: { path: ['blocks', 'by_height', number(30n)], query: [['with_transactions', { of: 'flag', isOn: true }]] },
  events: {
    path: ['accounts', account, 'events', probe, { of: 'word', word: 'events' }],
    query: [
      ['start', number(30n)],
      ['limit', number(5n)],
    ],
  },
};

for (const [kind, request] of Object.entries(requests)) {
  test(`twenty spellings of one request cost one node call, and answer as a node does (${kind})`, async (t) => {
    const node = await fakeNode(t, { head: 999n });
    const twin = await fakeNode(t, { head: 999n });
    const gateway = await testGateway(t, { full: [node] });
    for (let seed = 0; seed < 20; seed += 1) {
      const spelled = spellRequest(new Draw(seed), { kind, method: 'GET', form: 'json', ...request });
      const { method, target, accept = '*/*', body } = spelled;
      const headers = { accept, ...(method === 'POST' ? { 'content-type': 'application/json' } : {}) };
      const options = { method, headers, body: method === 'POST' ? body : null };
      const own = await fetchReply(new URL(twin.url).origin + target, options);
      const reply = await fetchReply(new URL(gateway.url).origin + target, options);
      assert.deepEqual([reply.status, own.status], [200, 200], `${target} ${reply.text} ${own.text}`);
      assert.ok(reply.body.equals(own.body), `${target} ${body}: ${reply.text}, not ${own.text}`);
    }
    assert.equal(node.reads, 1);
  });
}
