/** Operators take answers out of the cache: afterwards the next read is answered by a node. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { askPurge, purge } from '../../support/admin.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { type LogLine, nodeAndGateway, testGateway, type TestGateway } from '../../support/gateway.ts';
import { replica, sourceOf, untilUp, written } from '../../support/redis-replica.ts';
import { noRedis, redisServer, redisTest } from '../../support/redis-server.ts';
import { redisCluster } from '../../support/redis-topology.ts';
import type { Ending } from '../../support/temporary-folder.ts';

const probeOf = (address: string, version: number) =>
  `/accounts/${address}/resource/0x1::ledgergate_sample::Probe?ledger_version=${version}`;
const coin = '/accounts/0x1/module/coin?ledger_version=7';
const viewBody = '{"function":"0x1::coin::balance","type_arguments":[],"arguments":["0x1"]}';

/** A gateway that has found its Redis. */
async function replicaOf(t: Ending, where: Parameters<typeof replica>[1], node: FakeNode): Promise<TestGateway> {
  const gateway = await replica(t, where, { nodes: [node], timeoutMs: 500 });
  await untilUp(gateway);
  return gateway;
}

async function sourceAt(gateway: TestGateway, path: string): Promise<string> {
  const reply = path.startsWith('/view') ? await gateway.post(path, viewBody) : await gateway.get(path);
  assert.ok(reply.status === 200 || reply.status === 404, reply.text);
  return sourceOf(reply);
}

/** The present source of each answer. */
async function sources(gateway: TestGateway, paths: readonly string[]): Promise<readonly string[]> {
  const found: string[] = [];
  for (const path of paths) found.push(await sourceAt(gateway, path));
  return found;
}

/** A read that the node holds until it is released; resolves once the node has it. */
async function heldRead(node: FakeNode, gateway: TestGateway, path: string) {
  const released = Promise.withResolvers<void>();
  const isAsked = ({ url, route }: { url: string; route: string }) => route === 'resource' || url.endsWith(path);
  node.faults.add({ kind: 'hold', until: released.promise }, { when: isAsked, times: 1 });
  const arrived = node.log.next(isAsked);
  const reply = gateway.get(path);
  await arrived;
  return { reply, release: released.resolve };
}

/** Two replicas on one Redis and one node. */
async function pair(t: Ending) {
  const server = await redisServer(t);
  const node = await fakeNode(t, { head: 10_000n });
  const [a, b] = [await replicaOf(t, server.url, node), await replicaOf(t, server.url, node)];
  return { server, node, a, b };
}

const everything = [probeOf('0x1', 7), probeOf('0x1', 9000), probeOf('0x10', 7), coin, '/view?ledger_version=7'];

const scopes: readonly (readonly [string, object, readonly string[]])[] = [
  ['one read', { read: { target: `/v1${probeOf('0x0001', 7)}` } }, ['node', 'memory', 'memory', 'memory', 'memory']],
  [
    'one read at every version',
    { read: { target: `/v1${probeOf('0x1', 7).split('?', 1)[0]}` } },
    ['node', 'node', 'memory', 'memory', 'memory'],
  ],
  [
    'one read in another form',
    { read: { target: `/v1${probeOf('0x1', 7)}`, accept: 'application/x-bcs' } },
    ['memory', 'memory', 'memory', 'memory', 'memory'],
  ],
  [
    'a view, however its body is written',
    { read: { target: '/v1/view?ledger_version=7', body: viewBody.replaceAll(',', ' , ') } },
    ['memory', 'memory', 'memory', 'memory', 'node'],
  ],
  ['an account', { account: '0x01' }, ['node', 'node', 'memory', 'node', 'node']],
  ['everything', { everything: true }, ['node', 'node', 'node', 'node', 'node']],
];

/** For each scope in turn. */
const both = noRedis === false ? await pair({ after }) : undefined;
const alone = await nodeAndGateway({ after }, {}, { head: 10_000n });

for (const [name, request, expected] of scopes) {
  test(`purged from memory: ${name}`, async () => {
    const { gateway } = alone;
    const purges = `ledgergate_purges_total{scope="${Object.keys(request)[0]}"}`;
    await sources(gateway, everything);
    assert.deepEqual(
      await sources(gateway, everything),
      everything.map(() => 'memory'),
    );

    const before = await gateway.metric(purges);
    const answer = await purge(gateway, request);

    const gone = expected.filter((source) => source === 'node').length;
    assert.deepEqual([answer.complete, answer.memory, answer.redis, answer.replicas], [true, gone, 'off', 'off']);
    assert.deepEqual(await sources(gateway, everything), expected);
    assert.equal(await gateway.metric(purges), before + 1);
  });
}

test('a purge of everything drops short shares, also of a request in flight', async () => {
  const { node, gateway } = alone;
  const build = '/info';
  assert.deepEqual(await sources(gateway, [build, build]), ['node', 'memory']);

  await purge(gateway, { everything: true });
  const held = await heldRead(node, gateway, build);
  await purge(gateway, { everything: true });
  held.release();

  assert.equal(sourceOf(await held.reply), 'node');
  assert.deepEqual(await sources(gateway, [build, build]), ['node', 'memory']);
});

test('each of many purges in a row is in the log: client, scope and result', async (t) => {
  const lines: LogLine[] = [];
  const gateway = await testGateway(t, { full: [await fakeNode(t)], onLog: (line) => lines.push(line) });
  await sourceAt(gateway, probeOf('0x1', 7));
  const accounts = Array.from({ length: 30 }, (_, index) => `0x${index + 1}`);

  for (const account of accounts) await purge(gateway, { account });

  assert.deepEqual(
    lines
      .filter(({ msg }) => msg === 'purged')
      .map(({ from, purge: what, memory, level }) => [from, what, memory, level]),
    accounts.map((account, index) => ['127.0.0.1', `account 1 ${account}`, index === 0 ? 1 : 0, 30]),
  );
});

test('a read in flight is answered, and neither stored nor joined by later ones', async () => {
  const { node, gateway } = alone;
  await purge(gateway, { everything: true });
  const before = node.requestsTo('resource');
  const path = probeOf('0x1', 7);
  const [held, other] = [await heldRead(node, gateway, path), await heldRead(node, gateway, probeOf('0x10', 7))];

  await purge(gateway, { account: '0x1' });
  assert.equal(await sourceAt(gateway, path), 'node');
  // A read of another account is stored.
  other.release();
  await other.reply;
  assert.equal(await sourceAt(gateway, probeOf('0x10', 7)), 'memory');
  await purge(gateway, { everything: true });
  held.release();

  assert.equal((await held.reply).status, 200);
  assert.equal(node.requestsTo('resource'), before + 3);
  assert.equal(await sourceAt(gateway, path), 'node');
});

/** Without the checkpoints of the ledger's epoch, for which each replica reads its newest transaction now and then. */
const clientReads = (node: FakeNode): number => node.reads - node.requestsTo('byVersion');

for (const [name, request, expected] of scopes) {
  test(`purged at one replica, gone at both and in Redis: ${name}`, { skip: noRedis }, async () => {
    assert.ok(both !== undefined);
    const { node, a, b } = both;
    await purge(a, { everything: true });
    const before = await a.metric('ledgergate_redis_writes_total{outcome="written"}');
    await sources(a, everything);
    await written(a, before + everything.length);
    assert.deepEqual(
      await sources(b, everything),
      everything.map(() => 'redis'),
    );
    const asked = clientReads(node);

    const answer = await purge(a, request);

    const gone = expected.filter((source) => source === 'node').length;
    assert.deepEqual([answer.complete, answer.memory], [true, gone]);
    assert.deepEqual(answer.replicas, { told: 1, cleared: 1 });
    assert.ok(typeof answer.redis === 'number' && answer.redis >= gone);
    assert.deepEqual(await sources(b, everything), expected);
    // The read of b reaches a as well, and nothing older.
    assert.equal(clientReads(node) - asked, gone);
  });
}

test('a read in flight at another replica does not return after the purge', { skip: noRedis }, async () => {
  assert.ok(both !== undefined);
  const { server, node, a, b } = both;
  await purge(a, { everything: true });
  const path = probeOf('0x1', 7);
  const held = await heldRead(node, b, path);

  const answer = await purge(a, { everything: true });
  held.release();

  assert.deepEqual(answer.replicas, { told: 1, cleared: 1 });
  assert.equal((await held.reply).status, 200);
  assert.deepEqual(await server.run((client) => client.keys('lg:1:nogenesis:????????:1|*')), []);
  assert.equal(await sourceAt(b, path), 'node');
});

test('everything else in the same Redis stays', { skip: noRedis }, async () => {
  assert.ok(both !== undefined);
  const { server, a } = both;
  const others = ['lg:2:nogenesis:x', 'lg:1:otherone:1|resource|0x1/a|json|0', 'xlg:1:nogenesis:x', 'lg'];
  await server.run((client) => client.mset(...[...others, 'lg:1:nogenesis:=own'].flatMap((name) => [name, 'x'])));

  await purge(a, { everything: true });

  const left = await server.run((client) => client.keys('*'));
  assert.deepEqual(
    left.filter((name) => !/^lg:(?:state|purge|history):1\.nogenesis(?::\w+)?$/.test(name)).sort(),
    others.sort(),
  );
});

test('thousands of keys go in steps, and reads are served meanwhile', { skip: noRedis }, async () => {
  assert.ok(both !== undefined);
  const { server, a: gateway } = both;
  await server.run(async (client) => {
    for (let index = 0; index < 20_000; index += 1000) {
      const names = Array.from({ length: 1000 }, (_, step) => `lg:1:nogenesis:1|resource|0x${index + step}/a|json|0`);
      await client.mset(...names.flatMap((name) => [name, 'x']));
    }
  });
  const purged = purge(gateway, { everything: true });
  let reads = 0;
  const progress = { isDone: false };
  void purged.finally(() => (progress.isDone = true));
  do {
    assert.equal((await gateway.get(probeOf('0x1', reads % 1000))).status, 200);
    reads += 1;
  } while (!progress.isDone);
  const { redis, complete } = await purged;
  assert.ok(complete && typeof redis === 'number' && redis >= 20_000, JSON.stringify(await purged));
  assert.ok(reads > 1);
});

redisTest('with Redis away memory is purged, and the answer is marked incomplete', async (t, server) => {
  const gateway = await replicaOf(t, server.url, await fakeNode(t));
  const path = probeOf('0x1', 7);
  await sourceAt(gateway, path);
  await written(gateway, 1);
  await server.kill();

  for (const request of [{ read: { target: `/v1${path}` } }, { account: '0x1' }, { everything: true }]) {
    await sourceAt(gateway, path);
    const { complete, memory, redis, replicas } = await purge(gateway, request);
    assert.deepEqual([complete, memory, redis, replicas], [false, 1, 'unavailable', 'unavailable']);
  }
});

test('a key of another type in the place of a page is cleared as well', { skip: noRedis }, async () => {
  assert.ok(both !== undefined);
  const { server, a: gateway } = both;
  await purge(gateway, { everything: true });
  const [history] = await server.run((client) => client.hkeys('lg:history:1.nogenesis'));
  const name = `lg:1:nogenesis:${history}:1|resource|0x1/0x1::ledgergate_sample::Probe|json|0`;
  await server.run((client) => client.set(name, 'of another type'));
  const { complete, redis } = await purge(gateway, { read: { target: `/v1${probeOf('0x1', 7)}` } });
  assert.deepEqual([complete, redis], [true, 1]);
  assert.equal(await server.run((client) => client.exists(name)), 0);
});

test('in a cluster every primary is cleared, and replicas receive it over any server', { skip: noRedis }, async (t) => {
  const { servers, target } = await redisCluster(t);
  const node = await fakeNode(t);
  const [a, b] = [await replicaOf(t, target, node), await replicaOf(t, target, node)];
  const paths = Array.from({ length: 40 }, (_, index) => probeOf(`0x${index + 1}`, 7));
  await sources(a, paths);
  await written(a, paths.length);
  assert.deepEqual(
    await sources(b, paths),
    paths.map(() => 'redis'),
  );
  for (const server of servers) assert.ok((await server.run((client) => client.keys('lg:1:*'))).length > 4);

  const { complete, memory, replicas } = await purge(a, { everything: true });

  assert.deepEqual([complete, memory, replicas], [true, 40, { told: 1, cleared: 1 }]);
  for (const server of servers) assert.deepEqual(await server.run((client) => client.keys('lg:1:*')), []);
  assert.deepEqual(
    await sources(b, paths),
    paths.map(() => 'node'),
  );
});

const mistakes: readonly (readonly [string, RegExp])[] = [
  ['{}', /exactly one of/],
  ['[]', /JSON object/],
  ['null', /JSON object/],
  ['{"account": "0x1", "everything": true}', /exactly one of/],
  ['{"all": true}', /unknown field \\"all\\"/],
  ['{"everything": false}', /must be true/],
  ['{"account": 1}', /as text/],
  ['{"account": "0xzz"}', /no address/],
  ['{"account": "0x1*"}', /no address/],
  ['{"read": "/v1"}', /must be an object/],
  ['{"read": {"target": "/v1/view", "body": "\\ud800"}}', /read\.body: must be text that UTF-8 can hold/],
  ['{"read": {}}', /read\.target: is needed, such as/],
  ['{"read": {"target": "/v1", "version": 5}}', /unknown field \\"version\\"/],
  ['{"read": {"target": 5}}', /as text/],
  ['{"read": {"target": "/v1"}}', /never kept/],
  ['{"read": {"target": "/v1/accounts/0x1?x=1"}}', /never kept/],
  ['{"read": {"target": "/v1/estimate_gas_price"}}', /never kept/],
  ['{"read": {"target": "/v1/accounts/0xzz/module/coin"}}', /a client would get 400/],
  ['{"read": {"target": "/elsewhere"}}', /a client would get 404/],
  ['{', /JSON/],
];

test('a malformed request is refused, and purges nothing', async () => {
  const { gateway } = alone;
  await sourceAt(gateway, probeOf('0x1', 7));
  for (const [body, message] of mistakes) {
    const reply = await askPurge(gateway, body);
    assert.equal(reply.status, 400, body);
    assert.match(reply.text, message, body);
  }
  assert.equal((await askPurge(gateway, '{"everything": true}', { 'content-type': 'text/plain' })).status, 415);
  assert.equal(await sourceAt(gateway, probeOf('0x1', 7)), 'memory');
});
