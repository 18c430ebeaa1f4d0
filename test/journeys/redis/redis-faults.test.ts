/** Reads while Redis fails: it may cost one wait, and never an answer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import calculateSlot from 'cluster-key-slot';
import type { Redis } from 'ioredis';
import { delayProxy } from '../../support/delay-proxy.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { freePort } from '../../support/free-port.ts';
import {
  pair,
  readProbe,
  readsThroughFault,
  replica,
  sourceOf,
  sourcesOf,
  untilUp,
  versions,
  written,
  type Replica,
} from '../../support/redis-replica.ts';
import { noRedis, RedisServer, redisServer } from '../../support/redis-server.ts';
import { redisCluster, watchedServers, type TestCluster } from '../../support/redis-topology.ts';

const circuitOpen = 'Redis circuit open: answers are not shared until Redis answers again';
const answersAgain = 'Redis answers again';

/** Both gateways share what they read, in this direction. */
async function sharing(a: Replica, b: Replica, version: number): Promise<void> {
  const before = await a.metric('ledgergate_redis_writes_total{outcome="written"}');
  await readProbe(a, version);
  await written(a, before + 1);
  assert.equal(sourceOf(await readProbe(b, version)), 'redis');
}

/** From one answer of Redis over its failure to the next answer: what every fault of the whole server must look like. */
async function fault(
  [a, b]: readonly [Replica, Replica],
  steps: { readonly fail: () => Promise<unknown> | void; readonly heal: () => Promise<unknown> | void },
): Promise<void> {
  await sharing(a, b, 1);
  await steps.fail();
  await Promise.all([readsThroughFault(a, versions(10, 20)), readsThroughFault(b, versions(20, 20))]);
  for (const gateway of [a, b]) {
    await untilUp(gateway, false);
    assert.deepEqual([gateway.redisLog, (await gateway.readiness()).status], [[circuitOpen], 200]);
    assert.equal((await gateway.readiness()).redis.state, 'degraded');
  }
  await steps.heal();
  for (const gateway of [a, b]) {
    await untilUp(gateway);
    assert.deepEqual(gateway.redisLog, [circuitOpen, answersAgain]);
    assert.deepEqual((await gateway.readiness()).redis, { state: 'up' });
  }
  await sharing(b, a, 2);
}

test('Redis is killed and started again', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  await fault(await pair(t, server.url, { nodes: [await fakeNode(t)] }), {
    fail: () => server.kill(),
    heal: () => server.start(),
  });
});

test('Redis hangs, and goes on', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const both = await pair(t, server.url, { nodes: [await fakeNode(t)] });
  await fault(both, { fail: () => server.pause(), heal: () => server.resume() });
});

test('Redis answers 500 ms late, and then in time again', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const proxy = await delayProxy(t, server.port);
  const both = await pair(t, `redis://127.0.0.1:${proxy.port}`, { nodes: [await fakeNode(t)] });
  await fault(both, { fail: () => void (proxy.delayMs = 500), heal: () => void (proxy.delayMs = 0) });
});

test('the password is changed, and changed back', { skip: noRedis }, async (t) => {
  const server = await redisServer(t, ['--requirepass', 'right']);
  const both = await pair(t, server.url.replace('//', '//:right@'), { nodes: [await fakeNode(t)] });
  const setPassword = (from: string, to: string): Promise<unknown> =>
    server.run(
      async (client) => {
        await client.config('SET', 'requirepass', to);
        await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      },
      { password: from },
    );
  await fault(both, { fail: () => setPassword('right', 'other'), heal: () => setPassword('other', 'right') });
});

test('a gateway starts without Redis, reports it, and uses it once it is there', { skip: noRedis }, async (t) => {
  const server = new RedisServer(await freePort(), ['--bind', '127.0.0.1', '--save', '']);
  t.after(() => server.kill());
  const nodes = [await fakeNode(t)];
  const a = await replica(t, server.url, { nodes });

  // No request is needed for it.
  await untilUp(a, false);
  assert.deepEqual([a.redisLog, (await a.readiness()).status], [[circuitOpen], 200]);
  assert.deepEqual((await a.readiness()).redis, { state: 'degraded', reason: 'connection refused' });
  await readsThroughFault(a, versions(10, 10));

  await server.start();
  await untilUp(a);
  assert.deepEqual(a.redisLog, [circuitOpen, answersAgain]);
  await sharing(a, await replica(t, server.url, { nodes }), 1);
});

test('a gateway starts before a Redis that hangs, for longer than connections last', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  server.pause();
  const a = await replica(t, server.url, { nodes: [await fakeNode(t)] });
  await readsThroughFault(a, versions(10, 10));
  assert.equal((await a.readiness()).redis.state, 'degraded');
  await until(() => a.redisLog.length === 1);
  server.resume();
  await untilUp(a);
  assert.deepEqual(a.redisLog, [circuitOpen, answersAgain]);
});

test('with a wrong password every gateway reads on its own', { skip: noRedis }, async (t) => {
  const server = await redisServer(t, ['--requirepass', 'right']);
  const a = await replica(t, server.url.replace('//', '//:wrong@'), { nodes: [await fakeNode(t)] });
  await untilUp(a, false);
  await readsThroughFault(a, versions(10, 10));
  assert.deepEqual(a.redisLog, [circuitOpen]);
  assert.match((await a.readiness()).redis.reason ?? '', /^it refuses user or password$/);
});

test('Redis is emptied: both gateways work on, and reads are written anew', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const [a, b] = await pair(t, server.url, { nodes: [await fakeNode(t)] });
  await sourcesOf(a, versions(1, 5));
  await written(a, 5);
  assert.deepEqual(await sourcesOf(b, versions(1, 3)), new Set(['redis']));

  await server.run((client) => client.flushall());

  assert.deepEqual(await sourcesOf(b, versions(1, 3)), new Set(['memory']));
  assert.deepEqual(await sourcesOf(b, versions(4, 2)), new Set(['node']));
  await written(b, 2);
  // The name of the history is lost as well, until one of them publishes it again.
  await until(() => server.run(async (client) => (await client.hlen('lg:history:1.nogenesis')) > 0));
  const c = await replica(t, server.url, { nodes: [await fakeNode(t)] });
  assert.deepEqual(await sourcesOf(c, versions(4, 2)), new Set(['redis']));
  assert.deepEqual([a.redisLog, b.redisLog], [[], []]);
});

// Foreign or damaged entries under our names in Redis: a miss, counted, replaced, and never an answer.

/** Names of what one read left in Redis: its page, the page's field, and its answer. */
interface Names {
  readonly page: string;
  readonly field: string;
  readonly answer: string;
}

interface Damage {
  readonly what: string;
  readonly make: (client: Redis, names: Names) => Promise<unknown>;
}

/** Changes the stored answer. */
function answer(what: string, change: (record: Buffer) => Buffer): Damage {
  return {
    what: `an answer that ${what}`,
    make: async (client, { answer: name }) => client.set(name, change((await client.getBuffer(name))!)),
  };
}

/** Changes the reference that the read finds. */
function reference(what: string, change: (text: string) => string): Damage {
  return {
    what: `a reference that ${what}`,
    make: async (client, { page, field }) => client.hset(page, field, change((await client.hget(page, field))!)),
  };
}

function flipped(record: Buffer, at: number): Buffer {
  const copy = Buffer.from(record);
  copy[at]! ^= 1;
  return copy;
}

const damages: readonly Damage[] = [
  answer('has another byte at its end', (record) => flipped(record, record.length - 1)),
  answer('has another byte in its head', (record) => flipped(record, 5)),
  answer('is cut off', (record) => record.subarray(0, -10)),
  answer('is empty', () => Buffer.alloc(0)),
  answer('is of another program', () => Buffer.from('{"status":200,"body":"hello"}')),
  answer('is of an older format', (record) => Buffer.from(record).fill(0, 2, 3)),
  reference('is cut off', (text) => text.slice(0, -1)),
  reference('is of another program', () => 'hello'),
  {
    what: 'the reference of another version in its place',
    make: async (client, { page, field }) => client.hset(page, field, (await client.hget(page, '777'))!),
  },
  {
    what: 'the answer of another version in its place',
    make: async (client, { page, answer: name }) => {
      const [digest = ''] = (await client.hget(page, '777'))!.split('.');
      return client.copy(name.replace(/=.*$/, `=${digest}`), name, 'REPLACE');
    },
  },
  {
    what: 'a page of another type',
    make: (client, { page }) => client.multi().del(page).lpush(page, 'a').exec(),
  },
  {
    what: 'an answer of another type',
    make: (client, { answer: name }) => client.multi().del(name).hset(name, 'a', 'b').exec(),
  },
];

test('a damaged entry is a miss, is counted, and is replaced', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const node = await fakeNode(t);
  const [writer, reader] = await pair(t, server.url, { nodes: [node] });
  const next = await replica(t, server.url, { nodes: [node] });
  await untilUp(next);
  for (const [index, { what, make }] of damages.entries()) {
    await t.test(what, async () => {
      // An account of which sample nodes have state, with pages of its own.
      const account = `0x5a${(index + 1).toString(16).padStart(6, '0')}`;
      const asked = node.requestsTo('resource');
      await readProbe(writer, 777, account);
      await readProbe(writer, 7, account);
      await written(writer, 2 * (index + 1));
      await server.run(async (client) => make(client, await namesOf(client, '7', account)));

      assert.equal(sourceOf(await readProbe(reader, 7, account)), 'node');
      assert.equal(await reader.metric('ledgergate_redis_lookups_total{outcome="damaged"}'), index + 1);
      assert.equal((await reader.readiness()).redis.state, 'up');
      await until(async () => (await reader.metric('ledgergate_redis_pending_writes')) === 0);

      assert.equal(sourceOf(await readProbe(next, 7, account)), 'redis');
      assert.equal(node.requestsTo('resource'), asked + 3);
    });
  }
});

async function namesOf(client: Redis, field: string, account = '0x1'): Promise<Names> {
  const [page = ''] = await client.keys(`lg:*|resource|${account}/*`);
  const [digest = ''] = (await client.hget(page, field))!.split('.');
  const [answer = ''] = await client.keys(`lg:*:=${digest}`);
  return { page, field, answer };
}

test('an answer that Redis evicted is absent, not damaged, and is written again', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const nodes = [await fakeNode(t)];
  const writer = await replica(t, server.url, { nodes });
  await readProbe(writer, 7);
  await written(writer, 1);
  await server.run(async (client) => client.del((await namesOf(client, '7')).answer));
  const reader = await replica(t, server.url, { nodes });
  await untilUp(reader);
  assert.equal(sourceOf(await readProbe(reader, 7)), 'node');
  assert.equal(sourceOf(await readProbe(reader, 8)), 'node');
  assert.equal(await reader.metric('ledgergate_redis_lookups_total{outcome="damaged"}'), 0);
  assert.equal(await reader.metric('ledgergate_redis_lookups_total{outcome="absent"}'), 2);
  await written(reader, 2);
  const next = await replica(t, server.url, { nodes });
  await untilUp(next);
  assert.equal(sourceOf(await readProbe(next, 7)), 'redis');
});

// Redis Cluster: names spread over its servers, slots that move, and one server that hangs.

/** Accounts of which sample nodes have state. */
const accounts = Array.from({ length: 40 }, (_, index) => `0x5a${(index + 1).toString(16).padStart(6, '0')}`);
const version = 7;

/** The epoch that replicas agree on: recorded nodes do not report the ledger's first transaction. */
async function epochIn(cluster: TestCluster): Promise<string> {
  const name = 'lg:history:1.nogenesis';
  const owner = await cluster.ownerOf(calculateSlot(name));
  const [epoch] = await owner.run((client) => client.hkeys(name));
  return epoch ?? 'none';
}

/** Name in Redis of an account's page. */
const pageOf = (history: string, account: string) =>
  `lg:1:nogenesis:${history}:1|resource|${account}/0x1::ledgergate_sample::Probe|json|0`;

test('names spread over the slots, and a slot that moves costs no answer', { skip: noRedis }, async (t) => {
  const cluster = await redisCluster(t);
  const node = await fakeNode(t);
  // No fault here: a long duration means a busy machine.
  const patient = { nodes: [node], timeoutMs: 3_000 };
  const [a, b] = await pair(t, cluster.target, patient);
  for (const account of accounts) await readProbe(a, version, account);
  await written(a, accounts.length);
  for (const server of cluster.servers) {
    const count = await server.run((client) => client.dbsize());
    assert.ok(count > 2 * accounts.length * 0.15, `${count} names on one of three servers`);
  }
  const [first = ''] = accounts;
  assert.equal(sourceOf(await readProbe(b, version, first)), 'redis');

  // Every step of the way is read through: keys here, keys there, and the slot's new owner.
  const slot = calculateSlot(pageOf(await epochIn(cluster), first));
  const from = await cluster.ownerOf(slot);
  const to = cluster.servers.find((server) => server !== from)!;
  let step = 0;
  await cluster.move(slot, to, async () => {
    const fresh = await replica(t, cluster.target, patient);
    await untilUp(fresh);
    assert.equal(sourceOf(await readProbe(fresh, version, first)), 'redis', `step ${step}`);
    await readProbe(a, 1_000 - (step += 1), first);
    await readProbe(b, 900 - step, first);
  });
  assert.ok(step >= 3);
  assert.equal(await cluster.ownerOf(slot), to);
  const before = await a.metric('ledgergate_redis_writes_total{outcome="written"}');
  await readProbe(a, 500, first);
  await written(a, before + 1);
  assert.equal(sourceOf(await readProbe(b, 500, first)), 'redis');
  assert.deepEqual([a.redisLog, b.redisLog], [[], []]);
});

test('one server of a cluster hangs: what the others hold still comes from Redis', { skip: noRedis }, async (t) => {
  const cluster = await redisCluster(t);
  // A busy machine alone makes reads of a healthy server as slow as the usual bound.
  const timeoutMs = 1_000;
  const [a, b] = await pair(t, cluster.target, { nodes: [await fakeNode(t)], timeoutMs });
  for (const account of accounts) await readProbe(a, version, account);
  await written(a, accounts.length);
  const [hung] = cluster.servers;
  const history = await epochIn(cluster);
  const held = new Set(await hung!.run((client) => client.keys('*')));
  hung!.pause();

  const sources = { page: new Set<string>(), neither: new Set<string>() };
  let slow = 0;
  for (const account of accounts) {
    const start = performance.now();
    const source = sourceOf(await readProbe(b, version, account));
    if (performance.now() - start >= timeoutMs) slow += 1;
    if (held.has(pageOf(history, account))) sources.page.add(source);
    else sources.neither.add(source);
  }
  b.stalls.judge(slow <= 1, `${slow} reads waited`);
  assert.deepEqual(sources.page, new Set(['node']));
  assert.ok(sources.neither.has('redis'));
  const fromRedis = await b.metric('ledgergate_redis_lookups_total{outcome="hit"}');
  assert.ok(fromRedis > accounts.length * 0.2, `${fromRedis} answers from the other servers`);
  assert.deepEqual([(await b.readiness()).status, (await b.readiness()).redis.state], [200, 'degraded']);
  assert.equal(b.redisLog.length, 1);

  hung!.resume();
  await untilUp(b);
  await until(() => b.redisLog.length === 2);
});

// Redis behind sentinels: a primary dies, and its successor is used.

test('failover: reads go on, and writes go to the new primary', { skip: noRedis }, async (t) => {
  const { target, primary, second } = await watchedServers(t);
  const [a, b] = await pair(t, target, { nodes: [await fakeNode(t)] });
  await sourcesOf(a, versions(1, 5));
  await written(a, 5);
  assert.deepEqual(await sourcesOf(b, versions(1, 2)), new Set(['redis']));
  await until(async () => (await second.run((client) => client.dbsize())) >= 6);

  await primary.kill();
  await Promise.all([readsThroughFault(a, versions(100, 20)), readsThroughFault(b, versions(200, 20))]);
  await untilUp(a, false);
  await until(async () => (await second.run((client) => client.role()))[0] === 'master');
  await Promise.all([untilUp(a), untilUp(b)]);

  // Entries that the old primary had replicated are still found, and new ones are shared.
  assert.deepEqual(await sourcesOf(b, versions(3, 3)), new Set(['redis']));
  const before = await a.metric('ledgergate_redis_writes_total{outcome="written"}');
  await readProbe(a, 300);
  await written(a, before + 1);
  assert.equal(sourceOf(await readProbe(b, 300)), 'redis');
  assert.ok((await second.run((client) => client.keys('lg:*|resource|*'))).length > 0);
  assert.equal((await a.readiness()).redis.state, 'up');
});
