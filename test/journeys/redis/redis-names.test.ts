/** The contents of Redis: answers byte for byte, their names, their lifetimes, and their ledger. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import { recordedTransactions } from '../../../src/sample/recorded.ts';
import { purge } from '../../support/admin.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { ledgerHeaders } from '../../support/ledger-info.ts';
import {
  pair,
  readProbe,
  replica,
  sourceOf,
  untilUp,
  written,
  readsThroughFault,
  sourcesOf,
  versions,
} from '../../support/redis-replica.ts';
import { noRedis, redisServer, type RedisServer, redisTest } from '../../support/redis-server.ts';
import { redisCluster } from '../../support/redis-topology.ts';

/** A node of a ledger with this first transaction; recorded ones have no hash. */
async function nodeOf(t: TestContext, genesis: string): Promise<FakeNode> {
  const node = await fakeNode(t);
  const body = JSON.stringify({ version: '0', hash: `0x${genesis.padEnd(64, '0')}` });
  const headers = ledgerHeaders({ version: 1000n, chainId: node.chainId });
  node.faults.add(
    { kind: 'answer', status: 200, body, headers },
    { when: ({ url }) => url.endsWith('/transactions/by_version/0') },
  );
  return node;
}

redisTest("a replica serves another's read from Redis, byte for byte", async (t, server) => {
  const node = await fakeNode(t);
  const [a, b] = await pair(t, server.url, { nodes: [node] });
  for (const [index, name] of ['Probe', 'Padded60000'].entries()) {
    const path = `/accounts/0x1/resource/0x1::ledgergate_sample::${name}?ledger_version=7`;
    const first = await a.get(path);
    assert.equal(sourceOf(first), 'node');
    await written(a, index + 1);
    const second = await b.get(path);
    assert.equal(second.headers['cache-status'], 'ledgergate; hit; detail=redis');
    assert.deepEqual(second.body, first.body);
    for (const header of ['etag', 'content-type', 'cache-control', 'ledgergate-served-version'])
      assert.equal(second.headers[header], first.headers[header]);
    assert.equal((await b.get(path)).headers['cache-status'], 'ledgergate; hit; detail=memory');
  }
  assert.equal(node.log.countOf('resource'), 2);
});

redisTest('a network created anew under its old chain id shares nothing with the old one', async (t, server) => {
  const [before, after] = [await nodeOf(t, 'aaaa1111'), await nodeOf(t, 'bbbb2222')];
  const a = await replica(t, server.url, { nodes: [before] });
  await readProbe(a, 7);
  await written(a, 1);
  const [b, c] = [await replica(t, server.url, { nodes: [after] }), await replica(t, server.url, { nodes: [before] })];
  await Promise.all([untilUp(b), untilUp(c)]);
  assert.deepEqual([sourceOf(await readProbe(b, 7)), sourceOf(await readProbe(c, 7))], ['node', 'redis']);
});

redisTest('every name is below the prefix, readable, and has an end', async (t, server) => {
  const nodes = [await nodeOf(t, 'aaaa1111')];
  const gateway = await replica(t, server.url, { nodes, keyPrefix: 'mine', ttlMs: 60_000 });
  await readProbe(gateway, 7);
  await gateway.post(
    '/view?ledger_version=7',
    '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}',
  );
  await written(gateway, 2);
  await server.run(async (client) => {
    const names = (await client.keys('mine:1:*')).filter((name) => !name.includes(':!'));
    const read =
      /^mine:1:aaaa1111:[0-9a-z]{8}:1\|(?:resource\|0x1\/0x1::ledgergate_sample::Probe\|json\|0|view\|0x1::ledgergate_sample::version\|[\w-]{43})$/;
    assert.deepEqual(
      names.filter((name) => !read.test(name) && !/^mine:1:aaaa1111:=[\w-]{22}$/.test(name)),
      [],
    );
    assert.equal(names.length, 4);
    assert.equal(await client.exists('mine:history:1.aaaa1111'), 1);
    for (const name of await client.keys('mine:*')) {
      // The ledger's epochs have no TTL: without them no stored answer could be used.
      if (name === 'mine:history:1.aaaa1111') continue;
      const ttl = await client.pttl(name);
      assert.ok(ttl === -2 || (ttl > 0 && ttl <= 60_000), `${name} lives for ${ttl} ms`);
    }
  });
});

redisTest('a committed transaction from Redis is kept no longer than its first reader may', async (t, server) => {
  const [a, b] = await pair(t, server.url, { nodes: [await fakeNode(t)], ttlMs: 1_000 });
  const { hash = '' } = recordedTransactions.find(({ version }) => version === 5n) ?? {};
  const path = `/transactions/by_hash/${hash}`;
  assert.equal((await a.get(path)).status, 200);
  await written(a, 1);
  assert.equal(sourceOf(await b.get(path)), 'redis');
  assert.equal(sourceOf(await b.get(path)), 'memory');
  // In memory alone it would be kept for ten minutes more.
  await until(async () => sourceOf(await b.get(path)) === 'node');
});

// A Redis that answers and takes no writes: what it has is used, nothing is added, and it is not pressed.

const refuses = 'Redis refuses writes: reads go on, no answer is added';
const takesAgain = 'Redis takes writes again';

/** The gateways' connections, by number. */
async function connectionsOf(server: RedisServer): Promise<readonly string[]> {
  const list = String(await server.run((client) => client.call('CLIENT', 'LIST')));
  const numbers = list.split('\n').flatMap((line) => /^id=(\d+) .*name=ledgergate /.exec(line)?.[1] ?? []);
  // The server lists them in an order of its own.
  return numbers.sort();
}

/** Replies of the server that began with this code. */
async function errorsOf(server: RedisServer, code: string): Promise<number> {
  const stats = await server.run((client) => client.info('errorstats'));
  return Number(new RegExp(`errorstat_${code}:count=(\\d+)`).exec(stats)?.[1] ?? 0);
}

test(
  'out of memory: reads go on from what is there, and writes are tried now and then only',
  { skip: noRedis },
  async (t) => {
    const server = await redisServer(t, ['--maxmemory-policy', 'noeviction']);
    const [a, b] = await pair(t, server.url, { nodes: [await fakeNode(t)] });
    await sourcesOf(a, versions(1, 5));
    await written(a, 5);
    await server.run((client) => client.config('SET', 'maxmemory', '1'));

    await readsThroughFault(a, versions(100, 50));
    assert.deepEqual(await sourcesOf(b, versions(1, 5)), new Set(['redis']));
    const [answers, pending] = ['ledgergate_redis_up', 'ledgergate_redis_pending_writes'];
    assert.deepEqual([await a.metric(answers), await a.metric(pending)], [1, 0]);
    assert.equal(await a.metric('ledgergate_redis_writable'), 0);
    const { status, redis } = await a.readiness();
    assert.deepEqual([status, redis.state], [200, 'degraded']);
    assert.equal(redis.reason, 'takes no writes: its memory is full');
    const refused = await errorsOf(server, 'OOM');
    assert.ok(refused > 0 && refused < 12, `${refused} refused writes for 50 reads`);

    await server.run((client) => client.config('SET', 'maxmemory', '0'));
    await until(async () => (await a.metric('ledgergate_redis_writable')) === 1);
    assert.deepEqual(a.redisLog, [refuses, takesAgain]);
    await sourcesOf(a, versions(200, 2));
    await written(a, 7);
    assert.deepEqual(await sourcesOf(b, versions(200, 2)), new Set(['redis']));
  },
);

test(
  'a read-only replica: its answers are used, and each gateway reads the others on its own',
  { skip: noRedis },
  async (t) => {
    const [primary, server] = [await redisServer(t, ['--repl-diskless-sync-delay', '0']), await redisServer(t)];
    const node = await fakeNode(t);
    const writer = await replica(t, primary.url, { nodes: [node] });
    await server.run((client) => client.replicaof('127.0.0.1', primary.port));
    await sourcesOf(writer, versions(1, 5));
    await written(writer, 5);
    await until(async () => (await server.run((client) => client.dbsize())) >= 6);

    const both = [await replica(t, server.url, { nodes: [node] }), await replica(t, server.url, { nodes: [node] })];
    for (const gateway of both) {
      await untilUp(gateway);
      assert.deepEqual(await sourcesOf(gateway, versions(1, 5)), new Set(['redis']));
      await readsThroughFault(gateway, versions(100, 30));
      await until(async () => (await gateway.metric('ledgergate_redis_writable')) === 0);
      await untilUp(gateway);
      assert.equal((await gateway.readiness()).status, 200);
    }
    assert.equal(node.requestsTo('resource'), 5 + 2 * 30);
    const refused = await errorsOf(server, 'READONLY');
    assert.ok(refused < 24, `${refused} refused writes for 60 reads`);

    // Connecting anew may find a new primary. It is done once, and not again with every write that is tried.
    const [connections, tried] = [await connectionsOf(server), await errorsOf(server, 'READONLY')];
    await until(async () => (await errorsOf(server, 'READONLY')) >= tried + 3);
    assert.deepEqual(await connectionsOf(server), connections);

    await server.run((client) => client.replicaof('NO', 'ONE'));
    for (const gateway of both) {
      await until(async () => (await gateway.metric('ledgergate_redis_writable')) === 1);
      assert.deepEqual(
        gateway.redisLog.filter((line) => line === refuses || line === takesAgain),
        [refuses, takesAgain],
      );
    }
  },
);

redisTest('a user that may only read: as good as a read-only server', async (t, server) => {
  const rules = ['on', '>secret', '~lg:*', '+@read', '+@connection'];
  await server.run((client) => client.call('ACL', 'SETUSER', 'reader', ...rules));
  const node = await fakeNode(t);
  const writer = await replica(t, server.url, { nodes: [node] });
  await sourcesOf(writer, versions(1, 5));
  await written(writer, 5);
  const reader = await replica(t, server.url.replace('//', '//reader:secret@'), { nodes: [node] });
  assert.deepEqual(await sourcesOf(reader, versions(1, 5)), new Set(['redis']));
  await readsThroughFault(reader, versions(100, 10));
  assert.deepEqual(reader.redisLog, [refuses]);
});

// The rights in docs/redis.md suffice.

const docs = readFileSync(new URL('../../../docs/redis.md', import.meta.url), 'utf8');
const [, rules = ''] = /^ACL SETUSER ledgergate (.+)$/m.exec(docs) ?? [];
const user = ['SETUSER', 'ledgergate', ...rules.replace('>PASSWORD', '>secret').split(' ')] as const;

redisTest('a user with the rights of docs/redis.md reads, writes and waits for others', async (t, server) => {
  await server.run((client) => client.call('ACL', ...user));
  const url = server.url.replace('//', '//ledgergate:secret@');
  const [a, b] = await pair(t, url, { nodes: [await fakeNode(t)] });
  await sourcesOf(a, versions(1, 10));
  await written(a, 10);
  assert.deepEqual(await sourcesOf(b, versions(1, 10)), new Set(['redis']));
  const padded = '/accounts/0x1/resource/0x1::ledgergate_sample::Padded60000?ledger_version=7';
  assert.equal((await a.get(padded)).status, 200);
  await written(a, 11);
  for (const scope of [{ account: '0x1' }, { read: { target: `/v1${padded}` } }, { everything: true }]) {
    assert.equal((await purge(a, scope)).complete, true);
  }
  const refused = await server.run((client) => client.info('errorstats'));
  // Clients introduce themselves with their version, which needs no answer.
  const log = (await server.run((client) => client.call('ACL', 'LOG'))) as unknown[][];
  assert.deepEqual(
    log.map((entry) => entry[entry.indexOf('object') + 1]).filter((what) => what !== 'client|setinfo'),
    [],
    refused,
  );
  assert.deepEqual([a.redisLog, b.redisLog], [[], []]);
});

test('the rights of docs/redis.md suffice in a cluster', { skip: noRedis }, async (t) => {
  const { servers, target } = await redisCluster(t);
  assert.ok(target.kind === 'cluster');
  for (const server of servers) await server.run((client) => client.call('ACL', ...user));
  const urls = target.urls.map((url) => url.replace('//', '//ledgergate:secret@'));
  const gateway = await replica(t, { kind: 'cluster', urls }, { nodes: [await fakeNode(t)] });
  await untilUp(gateway);
  await sourcesOf(gateway, versions(1, 10));
  await written(gateway, 10);
  assert.deepEqual(gateway.redisLog, []);
});
