// Limits, keys and usage in a Redis of their own: the cache's one may evict, or die, without a change of any limit.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import type { AccessConfig } from '../../../src/config/config.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import {
  fetchReply,
  patient,
  testGateway,
  type LogLine,
  type TestGateway,
  nodeAndGateway,
} from '../../support/gateway.ts';
import { bearer } from '../../support/keyed-gateway.ts';
import { accessConfig, planConfig, type TestKey, testKey } from '../../support/keys.ts';
import { changedKey, createdKey } from '../../support/keys-api.ts';
import { untilUp } from '../../support/redis-replica.ts';
import { noRedis, redisAt, type RedisServer, redisServer } from '../../support/redis-server.ts';

/** A Redis with the user that a document has. */
function serverOf(t: TestContext, document: string): Promise<RedisServer> {
  const text = readFileSync(new URL(`../../../docs/${document}`, import.meta.url), 'utf8');
  const [, rights = ''] = /^ACL SETUSER ledgergate on >PASSWORD (.+)$/m.exec(text) ?? [];
  return redisServer(t, ['--user', 'ledgergate', 'on', '>secret', ...rights.split(' ')]);
}

/** By its user; its time-out is so long that a busy machine is not taken for a Redis that is away. */
function configOf({ url }: RedisServer) {
  return redisAt(url.replace('//', '//ledgergate:secret@'), { timeoutMs: 5_000 });
}

/** A read whose answer never changes. */
const path = (version: number): string => `/accounts/0x1/module/coin?ledger_version=${version}`;

/** `count` numbers from `first` on. */
function from(first: number, count: number): readonly number[] {
  return Array.from({ length: count }, (_, at) => first + at);
}

/** Names in a Redis, by their first word behind the prefix, each once. */
function namesIn(server: RedisServer): Promise<readonly string[]> {
  return server.run(async (client) => [
    ...new Set((await client.keys('*')).map((name) => name.split(':').slice(0, 2).join(':'))),
  ]);
}

/** Names of answers in a Redis. */
async function pagesIn(server: RedisServer): Promise<readonly string[]> {
  const names = await server.run((client) => client.keys('lg:1:*|module|*'));
  return names.filter((name) => !name.includes(':!'));
}

function fallbacksOf(replicas: readonly TestGateway[]): Promise<readonly number[]> {
  return Promise.all(replicas.map((replica) => replica.metric('ledgergate_limits_fallback_total{choice="local"}')));
}

/** Commands that the user had no right to. */
async function deniedBy(server: RedisServer): Promise<readonly unknown[]> {
  const log = (await server.run((client) => client.call('ACL', 'LOG'))) as unknown[][];
  // Clients introduce themselves with their version, which needs no answer.
  return log.map((entry) => entry[entry.indexOf('object') + 1]).filter((what) => what !== 'client|setinfo');
}

/** A node, a Redis of answers, a Redis of counts with the keys in it, and two replicas that know the keys. */
async function world(t: TestContext, keys: readonly TestKey[]) {
  const node = await fakeNode(t, { head: 1_000_000n });
  const [cache, counts] = [await serverOf(t, 'redis.md'), await serverOf(t, 'limits.md')];
  await counts.run(async (client) => {
    for (const { entry } of keys) {
      const { sha256, ...record } = entry;
      await client.hset('lg:access:keys', String(sha256), JSON.stringify(record));
    }
  });
  const { ttlMs: _, ...redis } = configOf(counts);
  const plans = { hundred: planConfig({ windowMs: 60_000, requests: 100 }) };
  const access = accessConfig({ keys: { redis: true }, redis, plans });
  const lines: LogLine[] = [];
  const options = { full: [node], access, config: { cache: { redis: configOf(cache) }, upstream: patient } };
  const start = () => testGateway(t, { ...options, onLog: (line) => lines.push(line) });
  const replicas = [await start(), await start()] as const;
  /** The statuses of reads of `versions` by turns at both replicas, as `status: count`. */
  const ask = async (key: TestKey, versions: readonly number[]) => {
    const replies = versions.map((version, at) => replicas[at % 2]!.get(path(version), bearer(key)));
    const counted: Record<number, number> = {};
    for (const { status } of await Promise.all(replies)) counted[status] = (counted[status] ?? 0) + 1;
    return counted;
  };
  /** Applies another choice for a Redis that is away. */
  const choose = async (whenRedisIsDown: AccessConfig['whenRedisIsDown']): Promise<void> => {
    for (const { reloads } of replicas) {
      await reloads.take({ ...reloads.config, access: { ...access, whenRedisIsDown } });
      assert.equal(reloads.status?.result, 'applied');
    }
  };
  for (const replica of replicas) await untilUp(replica);
  return { cache, counts, replicas, lines, ask, choose };
}

test('answers are in the one Redis, keys, limits and usage in the other', { skip: noRedis }, async (t) => {
  const [first, second, third] = [
    testKey('a', { plan: 'hundred' }),
    testKey('b', { plan: 'hundred' }),
    testKey('c', { plan: 'hundred' }),
  ];
  const { cache, counts, replicas, lines, ask, choose } = await world(t, [first, second, third]);
  const [one, other] = replicas;
  const ofCounts = ['lg:access', 'lg:limits', 'lg:usage'];

  await t.test('each has its names alone, with the rights that the documents give it', async () => {
    assert.deepEqual(await ask(first, [5, 6, 7, 8]), { 200: 4 });
    await until(async () => (await namesIn(cache)).includes('lg:1'));
    await until(async () => (await namesIn(counts)).length === ofCounts.length);
    // A key that one replica makes is served at the other, shows its use there, and is refused once it is revoked.
    const made = await createdKey(one, { name: 'made', plan: 'hundred' });
    const statusOf = async (target: string) => (await other.get(target, bearer(made))).status;
    await until(async () => (await statusOf(path(5))) === 200);
    assert.equal(await statusOf('/-/usage'), 200);
    await changedKey(one, 'made', { tenant: 'acme' });
    await changedKey(one, 'made');
    await until(async () => (await statusOf(path(5))) === 401);
    assert.deepEqual((await namesIn(counts)).toSorted(), ofCounts);
    assert.deepEqual(
      (await namesIn(cache)).filter((name) => /access|limits|usage/.test(name)),
      [],
    );
    assert.deepEqual([await deniedBy(cache), await deniedBy(counts)], [[], []]);
  });

  await t.test('without its Redis, access follows whenRedisIsDown', async () => {
    assert.deepEqual(await ask(second, from(1, 60)), { 200: 60 });
    // Each replica has admitted 30 that Redis counted: 70 more are within the plan as it sees it.
    await counts.kill();
    assert.deepEqual(await ask(second, from(61, 300)), { 200: 140, 429: 160 });
    assert.deepEqual(await fallbacksOf(replicas), [150, 150]);
    assert.equal(lines.filter(({ msg }) => String(msg).startsWith('limits are not counted in Redis')).length, 2);
    assert.equal(await one.metric('ledgergate_access_redis_up'), 0);
    await choose('refuse');
    assert.deepEqual(await ask(second, from(61, 10)), { 503: 10 });
    await choose('allow');
    assert.deepEqual(await ask(second, from(61, 300)), { 200: 300 });

    // Answers of the one replica reach the other meanwhile.
    const before = await pagesIn(cache);
    await ask(second, [999_000]);
    await until(async () => (await pagesIn(cache)).some((name) => !before.includes(name)));
    const shared = await other.get(path(999_000), bearer(second));
    assert.match(shared.headers['cache-status'] ?? '', /hit; detail=redis/);

    // It returns empty: the keys of before stay, and both replicas count in it again.
    await choose('refuse');
    await counts.start();
    await until(() => lines.filter(({ msg }) => msg === 'limits are counted in Redis again').length === 2);
    assert.equal(await one.metric('ledgergate_access_redis_up'), 1);
    assert.deepEqual(await ask(second, from(1, 200)), { 200: 100, 429: 100 });
  });

  await t.test('the death of the Redis of answers changes no limit and no key', async () => {
    assert.deepEqual(await ask(third, from(1, 60)), { 200: 60 });
    const before = await fallbacksOf(replicas);
    await cache.kill();
    assert.deepEqual(await ask(third, from(61, 80)), { 200: 40, 429: 40 });
    assert.deepEqual(await fallbacksOf(replicas), before);
    for (const replica of replicas) await untilUp(replica, false);
    const { text } = await fetchReply(`${one.operationsUrl}/admin/usage?key=c`, { method: 'GET' });
    assert.equal((JSON.parse(text) as { source: string }).source, 'redis');
  });
});

test('a reload changes its bound of time, and a restart its address', { skip: noRedis }, async (t) => {
  const counts = await redisServer(t);
  const lines: LogLine[] = [];
  const plans = { free: planConfig({ requests: 100, windowMs: 60_000 }) };
  const { ttlMs: _, ...servers } = redisAt(counts.url, { timeoutMs: 30_000 });
  const access = accessConfig({ anonymous: 'free', plans, redis: servers });
  const { gateway } = await nodeAndGateway(t, { access, onLog: (line) => lines.push(line) });
  const left = async () => (await gateway.get(path(5))).headers['ratelimit']?.slice(0, 15);
  assert.equal(await left(), '"requests";r=99');

  const { config } = gateway.reloads;
  const target = { kind: 'single', url: 'redis://127.0.0.1:1' } as const;
  await gateway.reloads.take({ ...config, access: { ...access, redis: { ...servers, target, timeoutMs: 300 } } });

  assert.deepEqual(gateway.reloads.status?.needsRestart, ['access.redis']);
  assert.equal(await left(), '"requests";r=98');
  counts.pause();
  assert.equal((await gateway.get(path(5))).status, 200);
  const trouble = lines.find(({ msg }) => String(msg).startsWith('limits are not counted in Redis'));
  assert.equal(trouble?.['reason'], 'no answer within 300 ms');
});
