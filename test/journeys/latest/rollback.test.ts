/**
 * Ledgers that go back, fork or are replaced behind the same address: no client gets an answer of the earlier ledger, from
 * memory or Redis. `LEDGERGATE_ROLLBACK_READS`: pinned reads of each order of events.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { syntheticTransactionHash } from '../../../src/sample/synthetic.ts';
import { until } from '../../support/eventually.ts';
import { type FakeNode, fakeNode } from '../../support/fake-node.ts';
import { fall, forkedReplica, growBack, historyOf, oldAnswers, oldNode, rollBack } from '../../support/forked-fleet.ts';
import {
  fetchReply,
  type LogLine,
  nodeAndGateway,
  probe,
  probeAt,
  type Reply,
  type TestGateway,
  testGateway,
} from '../../support/gateway.ts';
import { written } from '../../support/redis-replica.ts';
import { noRedis, redisServer, type RedisServer, redisTest } from '../../support/redis-server.ts';

const hour = 3_600_000;

test('after a node moved to another chain with a lower head, reads of latest continue from its head', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { latest: { maxStalenessMs: hour } } }, { chainId: 1 });
  await gateway.get(probe);
  const asked = node.requestsTo('resource');

  node.clock.head = 500n;
  node.fault = { kind: 'wrong chain id', chainId: 2 };
  await gateway.get('/accounts/0x1/module/coin?ledger_version=400');
  const latest = await gateway.get(probe);

  assert.deepEqual([latest.status, latest.headers['ledgergate-served-version']], [200, '500']);
  assert.equal(latest.headers['x-node-ledger-version'], '500');
  assert.equal(node.requestsTo('resource'), asked + 1);
});

test('a chain that returns is read again: no earlier answer is used', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { chainId: 1 });
  const read = () => gateway.get(`${probe}?ledger_version=400`);
  await read();
  const news = () => gateway.get('/accounts/0x1/module/coin?ledger_version=401', { accept: 'text/html' });
  node.fault = { kind: 'wrong chain id', chainId: 2 };
  await news();
  node.fault = undefined;
  await gateway.get('/accounts/0x1/module/coin?ledger_version=402');

  const again = await read();

  assert.equal(again.headers['cache-status'], 'ledgergate; fwd=miss; detail=full-0');
  assert.equal((await read()).headers['cache-status'], 'ledgergate; hit; detail=memory');
});

function isRead({ url }: { readonly url: string }): boolean {
  return url.endsWith('ledger_version=400');
}

/** Moves the node to another chain and back, for all requests but those that `isHeld` selects. */
async function leaveAndReturn(
  node: FakeNode,
  gateway: TestGateway,
  isHeld: (request: { readonly url: string }) => boolean = () => false,
  away: () => void = () => undefined,
): Promise<void> {
  const isOn = async (chainId: number): Promise<boolean> => {
    await gateway.get('/accounts/0x1/module/coin?ledger_version=401', { accept: 'text/html' });
    return gateway.fleet()[0]?.chainId === chainId;
  };
  node.faults.add({ kind: 'wrong chain id', chainId: 2 }, { when: (request) => !isHeld(request) });
  await until(() => isOn(2));
  away();
  node.faults.clear();
  await until(() => isOn(1));
}

test('an answer of the earlier ledger reaches its waiting clients, and is not stored', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { chainId: 1 });
  const release = node.hold({ when: isRead });
  const asked = node.log.next();
  const waiting = gateway.get(`${probe}?ledger_version=400`);
  await asked;
  // Another chain, and the first one again: the ledger may be another one under the same id.
  await leaveAndReturn(node, gateway, isRead);
  release();

  const { status, headers } = await waiting;
  assert.deepEqual([status, headers['cache-control'], headers['etag']], [200, 'no-store', undefined]);
  const again = await gateway.get(`${probe}?ledger_version=400`);
  assert.equal(again.headers['cache-status'], 'ledgergate; fwd=miss; detail=full-0');
  assert.match(again.headers['cache-control'] ?? '', /immutable/);
});

function isAtHead({ url }: { readonly url: string }): boolean {
  return url.endsWith('ledger_version=900');
}

test('a read of latest whose version its node lost meanwhile is answered at the version that it has now', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { chainId: 1 });
  const release = node.hold({ when: isAtHead });
  const asked = node.log.next();
  const waiting = gateway.get(probe);
  await asked;
  // Another chain, and then a ledger of the first one that does not have version 900 yet.
  node.clock.head = 500n;
  await leaveAndReturn(node, gateway, isAtHead);
  release();

  const { status, headers, text } = await waiting;
  assert.deepEqual([status, headers['ledgergate-served-version']], [200, '500'], text);
});

// No kind of read is answered from the earlier ledger.

const account = '/accounts/0x5a000001';
const bcs = 'application/x-bcs';
const item = '{"key_type":"u64","value_type":"u64","key":"7"}';

interface Asked {
  readonly path: string;
  readonly body?: string;
}

/** A read of each kind around `version`, which is above the fork; each body shows the history. */
function readsAt(version: bigint): readonly Asked[] {
  const block = version / 20n;
  const at = `ledger_version=${version}`;
  return [
    { path: `/accounts/0x1/resource/0x1::ledgergate_sample::Probe?${at}` },
    { path: `/accounts/0x1/resources?${at}` },
    { path: `${account}/balance/0x1::aptos_coin::AptosCoin?${at}` },
    { path: `/tables/0x5a000001/item?${at}`, body: item },
    { path: `/tables/0x5a000001/raw_item?${at}`, body: '{"key":"0x07"}' },
    { path: `/transactions/by_version/${version}` },
    { path: `/transactions?start=${version}&limit=5` },
    { path: `/transactions/by_hash/${syntheticTransactionHash(version)}` },
    { path: `/transactions/wait_by_hash/${syntheticTransactionHash(version)}` },
    { path: `/blocks/by_height/${block}` },
    { path: `/blocks/by_height/${block}?with_transactions=true` },
    { path: `/blocks/by_version/${version}` },
    { path: `/blocks/by_version/${version}?with_transactions=true` },
    { path: `${account}/events/3?start=${block}&limit=5` },
    { path: `${account}/events/0x1::ledgergate_sample::Probe/events?start=${block}&limit=5` },
  ];
}

/** Routes whose newest answers are shared. */
const shared: readonly Asked[] = [
  { path: '/transactions?limit=3' },
  { path: `${account}/events/3?limit=3` },
  { path: `${account}/transactions?limit=3` },
  { path: `${account}/transaction_summaries?limit=3` },
];

function ask(url: string, { path, body }: Asked, accept: string): Promise<Reply> {
  const headers = { accept, 'content-type': 'application/json' };
  return fetchReply(url + path, { method: body === undefined ? 'GET' : 'POST', headers, body: body ?? null });
}

/** Each answer of the gateway is the node's own, byte for byte. */
async function assertOf(gateway: TestGateway, node: FakeNode, asked: readonly Asked[]): Promise<readonly Reply[]> {
  const replies: Reply[] = [];
  for (const one of asked) {
    for (const accept of ['application/json', bcs]) {
      const [own, reply] = [await ask(node.url, one, accept), await ask(gateway.url, one, accept)];
      assert.equal(reply.status, own.status, one.path);
      assert.ok(reply.body.equals(own.body), `${one.path} ${accept}: ${reply.text}, not ${own.text}`);
      replies.push(reply);
    }
  }
  return replies;
}

test('after a chain was replaced and came back as a fork no kind of read is of the earlier ledger', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { chainId: 1, head: 999n });
  const reads = readsAt(800n);
  const before = await assertOf(gateway, node, [...reads, ...shared]);

  await leaveAndReturn(node, gateway, undefined, () => node.clock.fork(700n, 'fork'));
  const after = await assertOf(gateway, node, [...reads, ...shared]);

  const same = after.filter(
    (reply, at) => reply.status === 200 && reply.body.equals(before[at]?.body ?? Buffer.alloc(0)),
  );
  assert.deepEqual(
    same.map(({ text }) => text),
    [],
  );
});

redisTest('after a rollback Redis answers no kind of read of the earlier ledger', async (t, server) => {
  const node = await oldNode(t);
  const gateway = await forkedReplica(t, server, [node]);
  const reads = readsAt(fall.before - 200n);
  assert.equal(await historyOf(gateway, fall.before), '');
  await assertOf(gateway, node, reads);
  await written(gateway, reads.length);

  await rollBack(node);
  growBack(node);
  await until(async () => (await historyOf(gateway, fall.before)) === 'fork', 150);
  await assertOf(gateway, node, reads);
  const third = await forkedReplica(t, server, [node]);
  await until(async () => (await third.metric('ledgergate_redis_up')) === 1, 100);

  await assertOf(third, node, reads);
});

// The same first transaction, and another history from a version on: Redis holds answers of the earlier one.

const forkedReads = Number(process.env['LEDGERGATE_ROLLBACK_READS'] ?? 8);

/** Versions above the fork that existed before the rollback, spread evenly. */
function forkedVersions(): readonly bigint[] {
  const step = (fall.before - fall.fork) / BigInt(forkedReads);
  assert.ok(step >= 1n);
  return Array.from({ length: forkedReads }, (_, index) => fall.before - BigInt(index) * step);
}

interface World {
  readonly server: RedisServer;
  readonly nodes: readonly [FakeNode, FakeNode];
  /** Closes the replica of this number, where it is there. */
  leave(index: number): Promise<void>;
  /** Starts the replica of this number anew. */
  come(index: number): Promise<void>;
  readonly replicas: () => readonly TestGateway[];
}

/** Two replicas with a node each or both, one Redis that holds `forkedVersions` of the ledger before the rollback. */
async function worldOf(t: TestContext, split = false): Promise<World> {
  const server = await redisServer(t);
  const nodes = [await oldNode(t), await oldNode(t)] as const;
  const nodesOf = (index: number) => (split ? nodes.slice(index, index + 1) : nodes);
  const running = [await forkedReplica(t, server, nodesOf(0)), await forkedReplica(t, server, nodesOf(1))];
  const present = new Map(running.entries());
  const [a] = running;
  assert.ok(a);
  assert.equal(await oldAnswers(a, forkedVersions()), forkedReads);
  const sample = 'ledgergate_redis_writes_total{outcome="written"}';
  await until(async () => (await a.metric(sample)) >= forkedReads, 50);
  return {
    server,
    nodes,
    async leave(index) {
      await present.get(index)?.close();
      present.delete(index);
    },
    async come(index) {
      const gateway = await forkedReplica(t, server, nodesOf(index));
      present.set(index, gateway);
      // It has never seen the old course, so that nothing excuses an answer of it: not even the first.
      const isBack = nodes.every((node) => node.clock.head >= fall.before);
      if (isBack) assert.equal(await oldAnswers(gateway, forkedVersions()), 0);
    },
    replicas: () => [...present.values()],
  };
}

/** Every replica has detected the rollback and uses Redis again: then no answer is of the earlier ledger. */
async function assertForgotten(t: TestContext, { replicas, server, nodes }: World): Promise<void> {
  for (const gateway of replicas()) {
    await until(async () => (await historyOf(gateway, fall.before)) === 'fork', 150);
  }
  for (const gateway of replicas()) {
    await until(async () => (await gateway.metric('ledgergate_redis_up')) === 1, 100);
    assert.equal(await oldAnswers(gateway, forkedVersions()), 0);
  }
  // Memory has answered some of these: a replica that has none is answered by Redis.
  const third = await forkedReplica(t, server, nodes);
  await until(async () => (await third.metric('ledgergate_redis_up')) === 1, 100);
  assert.equal(await oldAnswers(third, forkedVersions()), 0);
  assert.ok(
    (await third.metric('ledgergate_redis_lookups_total{outcome="hit"}')) > forkedReads / 2,
    'the new course is shared',
  );
}

async function rollAllBack(nodes: readonly FakeNode[]): Promise<void> {
  for (const node of nodes) await rollBack(node);
}

type Order = (world: World) => Promise<void>;

const orders: Readonly<Record<string, Order>> = {
  'node by node, both replicas there, Redis kept': async ({ nodes: [one, other] }) => {
    await rollBack(one);
    growBack(one);
    await rollBack(other);
    growBack(other);
  },
  'the other node first, one replica away until it is over': async (world) => {
    const [one, other] = world.nodes;
    await world.leave(1);
    await rollBack(other);
    await rollBack(one);
    growBack(one);
    growBack(other);
    await world.come(1);
  },
  'all replicas away, so that no replica sees it': async (world) => {
    await world.leave(0);
    await world.leave(1);
    await rollAllBack(world.nodes);
    for (const node of world.nodes) growBack(node);
    await world.come(0);
    await world.come(1);
  },
  'a replica starts while the nodes are below the fork': async (world) => {
    await world.leave(0);
    await world.leave(1);
    await rollAllBack(world.nodes);
    await world.come(0);
    for (const node of world.nodes) growBack(node);
    await world.come(1);
  },
  'Redis flushed meanwhile': async (world) => {
    await rollAllBack(world.nodes);
    await world.server.run((client) => client.flushall());
    for (const node of world.nodes) growBack(node);
  },
  'Redis down meanwhile, and started anew with what it held': async (world) => {
    await world.server.run((client) => client.save());
    await world.server.kill();
    await rollAllBack(world.nodes);
    for (const node of world.nodes) growBack(node);
    await world.server.start();
  },
};

for (const [order, run] of Object.entries(orders)) {
  test(`after a rollback Redis serves nothing of the earlier ledger: ${order}`, { skip: noRedis }, async (t) => {
    const world = await worldOf(t);
    await run(world);
    await assertForgotten(t, world);
  });
}

test('replicas on two forks at once share nothing above the fork', { skip: noRedis }, async (t) => {
  const world = await worldOf(t, true);
  const [one, other] = world.nodes;
  await rollBack(other);
  growBack(other);
  const [a, b] = world.replicas();
  assert.ok(a && b);
  await until(async () => (await historyOf(b, fall.before)) === 'fork', 150);
  const versions = forkedVersions();
  for (const node of [one, other]) node.clock.head = fall.after;
  const above = versions.map((version) => version - 1n).filter((version) => version > fall.fork);
  assert.equal(await oldAnswers(b, [...versions, ...above]), 0);
  assert.equal(await oldAnswers(a, [...versions, ...above]), versions.length + above.length);
  assert.equal(await oldAnswers(b, [...versions, ...above]), 0);
});

// Nodes whose histories differ: reported by name and version, and their answers are not kept.

test('answers of nodes that differ are dropped and not kept from the fork on, until the nodes agree', async (t) => {
  const nodes = [await fakeNode(t), await fakeNode(t)] as const;
  const lines: LogLine[] = [];
  const forkTimes = { intervalMs: 10, pauseMs: 0 };
  const gateway = await testGateway(t, { full: nodes, forkTimes, onLog: (line) => lines.push(line) });
  const count = () => nodes.reduce((sum, { log }) => sum + log.countOf('resource'), 0);
  const readsOf = async (...versions: readonly number[]): Promise<number> => {
    const before = count();
    for (const version of versions) assert.equal((await gateway.get(probeAt(version))).status, 200);
    return count() - before;
  };
  const areMarked = (mark: string | undefined) => gateway.fleet().every(({ forkedAt }) => forkedAt === mark);
  assert.equal(await readsOf(900, 900), 1);

  nodes[1].clock.fork(799n, 'fork');
  await until(() => areMarked('800'));

  assert.equal(await readsOf(900, 900, 800), 3);
  assert.equal(await readsOf(799, 799), 1);
  const { text } = await fetchReply(`${gateway.operationsUrl}/status.json`, { method: 'GET' });
  const { problems } = JSON.parse(text) as { readonly problems: readonly string[] };
  const problem = '2 nodes have another history than others from version 800 on (full-0, full-1)';
  assert.deepEqual(problems, [problem]);
  assert.equal(await gateway.metric('ledgergate_upstream_forked{upstream="full-1"}'), 1);
  const logged = lines.filter(({ level }) => level === 50);
  assert.deepEqual(
    logged.map(({ upstream, other, version }) => `${String(upstream)} ${String(other)} ${String(version)}`),
    ['full-0 full-1 800', 'full-1 full-0 800'],
  );

  nodes[1].clock.fork(10_000n, '');
  await until(() => areMarked(undefined));
  assert.equal(await readsOf(900, 900), 1);
  assert.equal(await gateway.metric('ledgergate_upstream_forked{upstream="full-1"}'), 0);
});

test('of three nodes, only answers of the one that differs are not kept', async (t) => {
  const nodes = [await fakeNode(t), await fakeNode(t), await fakeNode(t)] as const;
  nodes[2].clock.fork(799n, 'fork');
  const gateway = await testGateway(t, { full: nodes, forkTimes: { intervalMs: 10, pauseMs: 0 } });
  await until(() => gateway.fleet()[2]?.forkedAt === '800');
  const versions = Array.from({ length: 60 }, (_, at) => 900 + at);
  const count = () => nodes.map(({ log }) => log.countOf('resource'));

  for (const version of versions) await gateway.get(probeAt(version));
  const [, , forked = 0] = count();
  const before = count();
  for (const version of versions) await gateway.get(probeAt(version));

  assert.equal(
    count().reduce((sum, reads, at) => sum + reads - (before[at] ?? 0), 0),
    forked,
  );
});
