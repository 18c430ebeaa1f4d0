/**
 * The table of kept and shared reads: the node calls and the cache's report of each route, asked in each way. Every answer is
 * compared with that of a node byte for byte.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Agent, request as send } from 'undici';
import { distortingNode } from '../../support/distorting-node.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, nodeAndGateway, patient, testGateway } from '../../support/gateway.ts';
import { heldBytes } from '../../support/heap.ts';
import { keptLedger, type KeptRoute, keptRoutes } from '../../support/kept-routes.ts';
import {
  address,
  flag,
  json,
  type KeptRequest,
  number,
  spellRequest,
  tag,
  type,
  word,
} from '../../support/kept-spellings.ts';
import { Draw, type StructTag } from '../../support/spellings.ts';
import { rowsIn } from '../../support/tables.ts';

const crowd = 8;
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
async function nodesOf(t: TestContext): Promise<() => Promise<World>> {
  const full = await fakeNode(t, keptLedger);
  const archival = await fakeNode(t, { ...keptLedger, archival: true });
  const twin = await fakeNode(t, { ...keptLedger, archival: true });
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
    const { url } = await testGateway(t, { full: [full], archival: [archival], config });
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
  for (const name of ['x-node-cursor', 'x-node-gas-used']) {
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

/** A source that is not `memory` shows that the cache keeps no such answer. */
const expected = rowsIn(`
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
`);

// In the other dialect public-sdk.test.ts counts the calls of each kind of read.
test('each kept route costs the node calls of the table', async (t) => {
  const start = await nodesOf(t);
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

// Requests in many spellings over real sockets: one node call, and the bytes that a node answers to the same
// spelling.

const account = address('5a000001');
const struct = (module: string, name: string): StructTag => ({
  kind: 'struct',
  address: '1',
  module,
  name,
  arguments: [],
});
const at = [['ledger_version', number(600n)]] as const;
const limit = ['limit', number(5n)] as const;
const probe = tag(struct('ledgergate_sample', 'Probe'));
const coin = tag(struct('aptos_coin', 'AptosCoin'));

const requests: Readonly<Record<string, Partial<KeptRequest> & Pick<KeptRequest, 'path' | 'query'>>> = {
  account: { path: ['accounts', account], query: at },
  balance: { path: ['accounts', account, 'balance', coin], query: at },
  resource: { path: ['accounts', address('1'), 'resource', probe], query: at },
  resources: { path: ['accounts', address('1'), 'resources'], query: [...at, limit] },
  'table item': {
    method: 'POST',
    path: ['tables', account, 'item'],
    query: at,
    body: [
      ['key_type', type({ kind: 'vector', element: struct('string', 'String') })],
      ['value_type', type({ kind: 'primitive', name: 'u64' })],
      ['key', json(['a"\u00e9/', { number: '1.0' }])],
    ],
  },
  'transaction by version': { path: ['transactions', 'by_version', number(600n)], query: [] },
  transactions: { path: ['transactions'], query: [['start', number(600n)], limit] },
  block: { path: ['blocks', 'by_height', number(30n)], query: [['with_transactions', flag(true)]] },
  events: { path: ['accounts', account, 'events', probe, word('events')], query: [['start', number(30n)], limit] },
};

test('six spellings of one request cost one node call, and answer as a node does', async (t) => {
  const node = await fakeNode(t, { head: 999n });
  const twin = await fakeNode(t, { head: 999n });
  const gateway = await testGateway(t, { full: [node] });
  for (const [index, [kind, request]] of Object.entries(requests).entries()) {
    for (let seed = 0; seed < 6; seed += 1) {
      const spelled = spellRequest(new Draw(seed), { kind, method: 'GET', form: 'json', ...request });
      const { method, target, accept = '*/*', body } = spelled;
      const headers = { accept, ...(method === 'POST' ? { 'content-type': 'application/json' } : {}) };
      const options = { method, headers, body: method === 'POST' ? body : null };
      const own = await fetchReply(new URL(twin.url).origin + target, options);
      const reply = await fetchReply(new URL(gateway.url).origin + target, options);
      assert.deepEqual([reply.status, own.status], [200, 200], `${target} ${reply.text} ${own.text}`);
      assert.ok(reply.body.equals(own.body), `${target} ${body}: ${reply.text}, not ${own.text}`);
    }
    assert.equal(node.reads, index + 1, kind);
  }
});

// Bounds of short shares: of their memory, of their time, and of the requests in flight.

const mebibyte = 1024 * 1024;

test('shares hold at most 16 MiB, the most recent ones', async (t) => {
  const node = await fakeNode(t, { head: 9_999n });
  const large = await distortingNode(t, node, (said, { isLook }) =>
    isLook ? said : { ...said, body: Buffer.concat([said.body, Buffer.alloc(mebibyte, ' ')]) },
  );
  const config = { latest: { maxStalenessMs: hour }, upstream: patient };
  const gateway = await testGateway(t, { full: [large], config });
  const read = async (account: number) => {
    const address = `0x5a${account.toString(16).padStart(6, '0')}`;
    const { headers, body } = await gateway.get(`/accounts/${address}/transactions?limit=5`);
    return { isHeld: headers['cache-status'] === 'ledgergate; hit; detail=memory', bytes: body.length };
  };
  const accounts = 20;
  for (let account = 0; account < accounts; account += 1) assert.ok((await read(account)).bytes > mebibyte);

  let held = 0;
  // Backward, because a read of an answer that is gone displaces another one.
  for (let account = accounts - 1; account >= 0; account -= 1) {
    const { isHeld, bytes } = await read(account);
    if (!isHeld) break;
    held += bytes;
  }

  t.diagnostic(`${(held / mebibyte).toFixed(1)} MiB are held`);
  assert.ok(held <= 16 * mebibyte && held > 12 * mebibyte, `${held} bytes`);
});

test('a small share holds its own bytes alone, not the buffer that it arrived in', async (t) => {
  const { gateway } = await nodeAndGateway(t, { config: { latest: { maxStalenessMs: hour } } });
  // What lies between two shares goes with its request, and is too large for the rest of a pooled buffer.
  const between = '/accounts/0x1/resource/0x1::ledgergate_sample::Padded31000';
  const shares = 50;
  await gateway.get('/accounts/0x5a000000/transactions?limit=1');
  heldBytes();
  const before = process.memoryUsage().arrayBuffers;
  for (let limit = 1; limit <= shares; limit += 1) {
    await gateway.get(`/accounts/0x5a000001/transactions?start=${limit % 40}&limit=${1 + Math.floor(limit / 40)}`);
    await gateway.get(between, { 'ledgergate-max-staleness': '0' });
    await gateway.get(between, { 'ledgergate-max-staleness': '0' });
  }
  let grown = Infinity;
  // V8 frees the memory of collected buffers in a thread of its own.
  await until(() => {
    heldBytes();
    grown = process.memoryUsage().arrayBuffers - before;
    return grown < mebibyte;
  });
  t.diagnostic(`${shares} shares hold ${Math.round(grown / 1024)} KiB`);
});

test('an answer above 2 MiB is shared by those who wait for it, and not held', async (t) => {
  const node = await fakeNode(t);
  const large = await distortingNode(t, node, (said, { isLook }) => {
    return isLook ? said : { ...said, body: Buffer.alloc(3 * mebibyte, 'a'), afterMs: 200 };
  });
  const gateway = await testGateway(t, { full: [large] });
  const together = [gateway.get('/spec'), gateway.get('/spec'), gateway.get('/spec')];

  for (const { body } of await Promise.all(together)) assert.equal(body.length, 3 * mebibyte);
  const before = large.reads;
  await gateway.get('/spec');

  assert.deepEqual([before, large.reads], [1, 2]);
});

test('a gas price is shared for its time, then read again; with a time of 0 it is shared in flight alone', async (t) => {
  const config = { cache: { gasPriceTtlMs: 60 } };
  const { node, gateway } = await nodeAndGateway(t, { config });
  const never = await testGateway(t, { full: [node], config: { cache: { gasPriceTtlMs: 0 } } });
  await gateway.get('/estimate_gas_price');
  await until(async () => {
    await gateway.get('/estimate_gas_price');
    return node.requestsTo('estimateGasPrice') === 2;
  }, 20);

  for (let count = 3; count < 6; count += 1) {
    assert.equal(
      (await never.get('/estimate_gas_price')).headers['cache-status'],
      'ledgergate; fwd=miss; detail=full-0',
    );
    assert.equal(node.requestsTo('estimateGasPrice'), count);
  }
});

test('a caller that takes no stale answer gets the newest list from a node, each time', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { latest: { maxStalenessMs: hour } } });
  const path = '/accounts/0x5a000001/transactions?limit=5';
  await gateway.get(path);
  node.clock.head = 999n;

  const fresh = [
    await gateway.get(path, { 'ledgergate-max-staleness': '0' }),
    await gateway.get(path, { 'ledgergate-max-staleness': '0' }),
  ];
  const own = await (await fetch(node.url + path)).text();

  assert.deepEqual(
    fresh.map(({ text }) => text),
    [own, own],
  );
});
