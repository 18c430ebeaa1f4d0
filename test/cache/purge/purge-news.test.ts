/** Purges published over a real redis-server, and replicas that missed one. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { PurgeNews } from '../../../src/cache/purge/purge-news.ts';
import { formatScope } from '../../../src/cache/purge/purge-scope.ts';
import { connectSubscriber } from '../../../src/cache/redis/redis-client.ts';
import { linkTo } from '../../support/redis-link.ts';
import { noRedis, redisServer, type RedisServer } from '../../support/redis-server.ts';

const channel = 'lg:news:test';
const key = 'lg:purge:test';
const id = '00000000-0000-4000-8000-000000000001';

interface Listener {
  readonly news: PurgeNews;
  /** Purges done here, as text. */
  readonly purged: string[];
}

/** One replica; `isDeaf`: its messages get lost. */
async function listener(t: TestContext, server: RedisServer, { isDeaf = false } = {}): Promise<Listener> {
  const purged: string[] = [];
  const onPurge = (scope: Parameters<typeof formatScope>[0]): Promise<boolean> => {
    purged.push(formatScope(scope));
    return Promise.resolve(true);
  };
  const news = new PurgeNews(await linkTo(t, server), { channel, key, onPurge });
  t.after(() => news.close());
  if (!isDeaf) {
    const subscriber = connectSubscriber({ kind: 'single', url: server.url }, () => undefined);
    t.after(() => subscriber.disconnect());
    subscriber.on('message', (_channel: string, message: string) => news.onMessage(message));
    await subscriber.subscribe(channel);
  }
  await news.catchUp();
  return { news, purged };
}

test('a purge reports the other replicas that received and cleared it', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const [teller, other, third] = [await listener(t, server), await listener(t, server), await listener(t, server)];
  assert.deepEqual(await teller.news.publish({ kind: 'everything' }), { told: 2, cleared: 2 });
  assert.deepEqual([teller.purged, other.purged, third.purged], [[], ['everything'], ['everything']]);
  for (const { news, purged } of [teller, other]) {
    const before = purged.length;
    await news.catchUp();
    await news.catchUp();
    assert.equal(purged.length, before);
  }
});

test('a replica without a subscription is not waited for', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const [teller] = [await listener(t, server, { isDeaf: true }), await listener(t, server, { isDeaf: true })];
  assert.deepEqual(await teller.news.publish({ kind: 'everything' }), { told: 0, cleared: 0 });
});

test('a replica that does not clear in time is reported as such', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const teller = await listener(t, server);
  const silent = connectSubscriber({ kind: 'single', url: server.url }, () => undefined);
  t.after(() => silent.disconnect());
  await silent.subscribe(channel);
  assert.deepEqual(await teller.news.publish({ kind: 'everything' }), { told: 1, cleared: 0 });
});

test(
  'a purge that was missed is made up for, once it is sure that no message of it is on its way',
  { skip: noRedis },
  async (t) => {
    const server = await redisServer(t);
    const [teller, deaf] = [await listener(t, server), await listener(t, server, { isDeaf: true })];
    await teller.news.publish({ kind: 'account', chainId: 1, address: '0x1' as never });
    await deaf.news.catchUp();
    assert.deepEqual(deaf.purged, []);
    await deaf.news.catchUp();
    assert.deepEqual(deaf.purged, ['everything']);
    await deaf.news.catchUp();
    assert.deepEqual(deaf.purged, ['everything']);
  },
);

test('a missed purge is carried out while others continue', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const [teller, deaf] = [await listener(t, server), await listener(t, server, { isDeaf: true })];
  const seen: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    await teller.news.publish({ kind: 'everything' });
    await deaf.news.catchUp();
    seen.push(deaf.purged.length);
  }
  await deaf.news.catchUp();
  await deaf.news.catchUp();
  assert.deepEqual([...seen, deaf.purged.length], [0, 1, 2, 3]);
});

test(
  'a purge whose message comes after a look has not been missed, nor has the next one',
  { skip: noRedis },
  async (t) => {
    const server = await redisServer(t);
    const { news, purged } = await listener(t, server, { isDeaf: true });
    const scope = formatScope({ kind: 'account', chainId: 1, address: '0x1' as never });
    for (const last of [1, 2, 3]) {
      const told = id.replace(/.$/, String(last));
      await server.run((client) => client.set(key, told));
      await news.catchUp();
      news.onMessage(`purge ${told} ${scope}`);
    }
    await news.catchUp();
    assert.deepEqual(purged, [scope, scope, scope]);
  },
);

test('a Redis that lost its data causes no purge', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const [teller, other] = [await listener(t, server), await listener(t, server)];
  await teller.news.publish({ kind: 'everything' });
  await server.run((client) => client.flushall());
  await other.news.catchUp();
  await other.news.catchUp();
  assert.deepEqual(other.purged, ['everything']);
});

test('a replica that connects late drops everything after an earlier purge', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  await server.run((client) => client.set(key, id));
  const late = await listener(t, server);
  assert.deepEqual(late.purged, ['everything']);
});

test(
  'a purge that only a later version can express clears everything; other messages nothing',
  { skip: noRedis },
  async (t) => {
    const server = await redisServer(t);
    const { news, purged } = await listener(t, server);
    for (const message of [
      'purge',
      'purge x everything',
      `purged ${id}`,
      'served 5',
      `purge ${id} ${'x'.repeat(2000)}`,
    ]) {
      news.onMessage(message);
    }
    assert.deepEqual(purged, []);
    news.onMessage(`purge ${id} shard 7`);
    assert.deepEqual(purged, ['everything']);
  },
);
