// Limits, keys and usage in a Redis of their own: the cache's one may evict, or die, without a change of any limit.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import { eventually, until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, testGateway, type LogLine } from '../../support/gateway.ts';
import { type GatewayProcess, gatewayProcess } from '../../support/gateway-process.ts';
import { accessConfig, planConfig, type TestKey, testKey } from '../../support/keys.ts';
import { changedKey, createdKey } from '../../support/keys-api.ts';
import { noRedis, redisAt, type RedisServer, redisServer } from '../../support/redis-server.ts';
import { metric } from '../../support/workers.ts';

/** A Redis with the user that a document has. */
function serverOf(t: TestContext, document: string): Promise<RedisServer> {
  const text = readFileSync(new URL(`../../../docs/${document}`, import.meta.url), 'utf8');
  const [, rights = ''] = /^ACL SETUSER ledgergate on >PASSWORD (.+)$/m.exec(text) ?? [];
  return redisServer(t, ['--user', 'ledgergate', 'on', '>secret', ...rights.split(' ')]);
}

function withUser({ url }: RedisServer): string {
  return url.replace('//', '//ledgergate:secret@');
}

/** Long enough that a busy machine is not taken for a Redis that is away. */
const timeout = '5s';
const plan = { window: '60s', requests: 100 };

interface World {
  readonly cache: RedisServer;
  readonly counts: RedisServer;
  readonly key: TestKey;
  readonly replicas: readonly [GatewayProcess, GatewayProcess];
}

/** The sections of the config file. */
function sections({ cache, counts }: Pick<World, 'cache' | 'counts'>, access: Readonly<Record<string, unknown>> = {}) {
  return {
    log: { level: 'info' },
    cache: { redis: { url: withUser(cache), timeout } },
    access: {
      keys: { redis: true },
      redis: { url: withUser(counts), timeout },
      plans: { hundred: plan },
      ...access,
    },
  };
}

/** A node, a Redis of answers, a Redis of counts with one key in it, and two replicas that know the key. */
async function world(t: TestContext, access: Readonly<Record<string, unknown>> = {}): Promise<World> {
  const node = await fakeNode(t, { head: 1_000_000n });
  const [cache, counts] = [await serverOf(t, 'redis.md'), await serverOf(t, 'limits.md')];
  const key = testKey('wallet-a', { plan: 'hundred' });
  const { sha256, ...entry } = key.entry;
  await counts.run((client) => client.hset('lg:access:keys', String(sha256), JSON.stringify(entry)));
  const config = sections({ cache, counts }, access);
  const start = () => gatewayProcess(t, { full: [node], config });
  const replicas = [await start(), await start()] as const;
  for (const replica of replicas) {
    await until(async () => (await metric(replica, 'ledgergate_redis_up')) === 1);
    assert.doesNotMatch(replica.err(), /keys in Redis are unreadable/);
  }
  return { cache, counts, key, replicas };
}

/** A read whose answer never changes. */
function path(version: number): string {
  return `/accounts/0x1/module/coin?ledger_version=${version}`;
}

/** The statuses of reads of `versions` by turns at both replicas. */
async function ask({ replicas, key }: World, versions: readonly number[]): Promise<readonly number[]> {
  const headers = { authorization: `Bearer ${key.text}` };
  const replies = versions.map((version, at) =>
    fetchReply(replicas[at % 2]!.url + path(version), { method: 'GET', headers }),
  );
  return (await Promise.all(replies)).map(({ status }) => status);
}

function countOf(statuses: readonly number[], status: number): number {
  return statuses.filter((one) => one === status).length;
}

/** `count` numbers from `first` on. */
function from(first: number, count: number): readonly number[] {
  return Array.from({ length: count }, (_, at) => first + at);
}

/** Names in a Redis, by their first word behind the prefix. */
function namesIn(server: RedisServer): Promise<readonly string[]> {
  return server.run(async (client) => (await client.keys('*')).map((name) => name.split(':').slice(0, 2).join(':')));
}

/** A key that one replica makes is served at the other, shows its use there, and is refused once it is revoked. */
async function createsAndRevokes({ replicas: [maker, other] }: World): Promise<void> {
  const headers = { authorization: `Bearer ${await createdKey(maker, { name: 'wallet-b', plan: 'hundred' })}` };
  const statusOf = async (target: string) => (await fetchReply(other.url + target, { method: 'GET', headers })).status;
  await until(async () => (await statusOf(path(5))) === 200);
  assert.equal(await statusOf('/-/usage'), 200);
  await changedKey(maker, 'wallet-b', { tenant: 'acme' });
  await changedKey(maker, 'wallet-b');
  await until(async () => (await statusOf(path(5))) === 401);
}

/** Commands that the user had no right to. */
async function deniedBy(server: RedisServer): Promise<readonly unknown[]> {
  const log = (await server.run((client) => client.call('ACL', 'LOG'))) as unknown[][];
  // Clients introduce themselves with their version, which needs no answer.
  return log.map((entry) => entry[entry.indexOf('object') + 1]).filter((what) => what !== 'client|setinfo');
}

const fallback = (choice: string) => `ledgergate_limits_fallback_total{choice="${choice}"}`;

test('answers are in the one Redis, keys, limits and usage in the other', { skip: noRedis }, async (t) => {
  const stage = await world(t);
  assert.deepEqual(await ask(stage, [5, 6, 7, 8]), [200, 200, 200, 200]);

  await eventually(
    () => namesIn(stage.cache),
    (names) => names.includes('lg:1'),
  );
  const counted = ['lg:access', 'lg:limits', 'lg:usage'];
  await eventually(
    () => namesIn(stage.counts),
    (names) => counted.every((name) => names.includes(name)),
  );
  await createsAndRevokes(stage);
  const [ofCache, ofCounts] = [await namesIn(stage.cache), await namesIn(stage.counts)];
  assert.deepEqual([...new Set(ofCounts)].sort(), counted);
  assert.deepEqual(
    [...new Set(ofCache)].filter((name) => /access|limits|usage/.test(name)),
    [],
  );
  assert.deepEqual([await deniedBy(stage.cache), await deniedBy(stage.counts)], [[], []]);
});

test('the death of the Redis of answers changes no limit and no key', { skip: noRedis }, async (t) => {
  const stage = await world(t);
  assert.equal(countOf(await ask(stage, from(1, 60)), 200), 60);

  await stage.cache.kill();

  const later = await ask(stage, from(61, 80));
  assert.deepEqual([countOf(later, 200), countOf(later, 429)], [40, 40]);
  for (const replica of stage.replicas) {
    assert.equal((await metric(replica, fallback('local'))) ?? 0, 0);
    await until(async () => (await metric(replica, 'ledgergate_redis_up')) === 0);
  }
  const { text } = await fetchReply(`${stage.replicas[0].operationsUrl}/admin/usage?key=wallet-a`, { method: 'GET' });
  assert.equal((JSON.parse(text) as { source: string }).source, 'redis');
});

test('without its Redis, access follows whenRedisIsDown', { skip: noRedis }, async (t) => {
  const stage = await world(t);
  const { counts, replicas } = stage;
  assert.equal(countOf(await ask(stage, from(1, 60)), 200), 60);

  // Each replica has admitted 30 that Redis counted: 70 more are within the plan as it sees it.
  await counts.kill();
  const alone = await ask(stage, from(61, 300));
  assert.deepEqual([countOf(alone, 200), countOf(alone, 429)], [140, 160]);

  const choose = async (whenRedisIsDown: string, ahead: number): Promise<void> => {
    const applied = 'ledgergate_config_reloads_total{result="applied"}';
    for (const replica of replicas) {
      replica.reconfigure(sections(stage, { whenRedisIsDown }));
      replica.hangUp();
      await until(async () => ((await metric(replica, applied)) ?? 0) >= ahead);
    }
  };
  await choose('refuse', 1);
  assert.equal(countOf(await ask(stage, from(61, 10)), 503), 10);
  await choose('allow', 2);
  assert.equal(countOf(await ask(stage, from(61, 300)), 200), 300);

  // Answers of the one replica reach the other meanwhile.
  const pages = async () => {
    const names = await stage.cache.run((client) => client.keys('lg:1:*|module|*'));
    return names.filter((name) => !name.includes(':!'));
  };
  const before = await pages();
  await ask(stage, [999_000]);
  await until(async () => (await pages()).some((name) => !before.includes(name)));
  const headers = { authorization: `Bearer ${stage.key.text}` };
  const shared = await fetchReply(replicas[1].url + path(999_000), { method: 'GET', headers });
  assert.match(shared.headers['cache-status'] ?? '', /hit; detail=redis/);

  // It returns empty: the keys of before stay, and both replicas count in it again.
  await choose('refuse', 3);
  await counts.start();
  for (const replica of replicas) await until(() => replica.err().includes('limits are counted in Redis again'));
  const together = await ask(stage, from(1, 200));
  assert.deepEqual([countOf(together, 200), countOf(together, 429)], [100, 100]);
});

test('a reload changes its bound of time, and a restart its address', { skip: noRedis }, async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const counts = await redisServer(t);
  const lines: LogLine[] = [];
  const plans = { free: planConfig({ requests: 100, windowMs: 60_000 }) };
  const { ttlMs: _, ...servers } = redisAt(counts.url, { timeoutMs: 30_000 });
  const access = accessConfig({ anonymous: 'free', plans, redis: servers });
  const gateway = await testGateway(t, { full: [node], access, onLog: (line) => lines.push(line) });
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
