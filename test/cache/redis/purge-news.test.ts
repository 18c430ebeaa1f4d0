/** Purges published over a real redis-server, and replicas that missed one. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { PurgeNews } from '../../../src/cache/redis/news.ts';
import { formatScope } from '../../../src/cache/purge.ts';
import { connectSubscriber } from '../../../src/cache/redis/redis-source.ts';
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
  const news = new PurgeNews(await linkTo(t, server), channel, key, onPurge);
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

function scene(
  title: string,
  run: (
    replica: (how?: { isDeaf: boolean }) => Promise<Listener>,
    server: RedisServer,
    t: TestContext,
  ) => Promise<void>,
): void {
  test(title, { skip: noRedis }, async (t) => {
    const server = await redisServer(t);
    await run((how) => listener(t, server, how), server, t);
  });
}

scene('a purge reports the other replicas that received and cleared it', async (replica) => {
  const [sender, other, third] = [await replica(), await replica(), await replica()];
  assert.deepEqual(await sender.news.publish({ kind: 'everything' }), { notified: 2, acknowledged: 2 });
  assert.deepEqual([sender.purged, other.purged, third.purged], [[], ['everything'], ['everything']]);
  for (const { news, purged } of [sender, other]) {
    const before = purged.length;
    await news.catchUp();
    await news.catchUp();
    assert.equal(purged.length, before);
  }
});

scene('a replica without a subscription is not waited for', async (replica) => {
  const [sender] = [await replica({ isDeaf: true }), await replica({ isDeaf: true })];
  assert.deepEqual(await sender.news.publish({ kind: 'everything' }), { notified: 0, acknowledged: 0 });
});

scene('a replica that does not clear in time is reported as such', async (replica, server, t) => {
  const sender = await replica();
  const silent = connectSubscriber({ kind: 'single', url: server.url }, () => undefined);
  t.after(() => silent.disconnect());
  await silent.subscribe(channel);
  assert.deepEqual(await sender.news.publish({ kind: 'everything' }), { notified: 1, acknowledged: 0 });
});

scene(
  'a purge that was missed is made up for, once it is sure that no message of it is on its way',
  async (replica) => {
    const [sender, deaf] = [await replica(), await replica({ isDeaf: true })];
    await sender.news.publish({ kind: 'account', chainId: 1, address: '0x1' as never });
    await deaf.news.catchUp();
    assert.deepEqual(deaf.purged, []);
    await deaf.news.catchUp();
    assert.deepEqual(deaf.purged, ['everything']);
    await deaf.news.catchUp();
    assert.deepEqual(deaf.purged, ['everything']);
  },
);

scene('a missed purge is carried out while others continue', async (replica) => {
  const [sender, deaf] = [await replica(), await replica({ isDeaf: true })];
  const seen: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    await sender.news.publish({ kind: 'everything' });
    await deaf.news.catchUp();
    seen.push(deaf.purged.length);
  }
  await deaf.news.catchUp();
  await deaf.news.catchUp();
  assert.deepEqual([...seen, deaf.purged.length], [0, 1, 2, 3]);
});

scene('a purge whose message comes after a look has not been missed, nor has the next one', async (replica, server) => {
  const { news, purged } = await replica({ isDeaf: true });
  const scope = formatScope({ kind: 'account', chainId: 1, address: '0x1' as never });
  for (const last of [1, 2, 3]) {
    const next = id.replace(/.$/, String(last));
    await server.run((client) => client.set(key, next));
    await news.catchUp();
    news.onMessage(`purge ${next} ${scope}`);
  }
  await news.catchUp();
  assert.deepEqual(purged, [scope, scope, scope]);
});

scene('a Redis that lost its data causes no purge', async (replica, server) => {
  const [sender, other] = [await replica(), await replica()];
  await sender.news.publish({ kind: 'everything' });
  await server.run((client) => client.flushall());
  await other.news.catchUp();
  await other.news.catchUp();
  assert.deepEqual(other.purged, ['everything']);
});

scene('a replica that connects late drops everything after an earlier purge', async (replica, server) => {
  await server.run((client) => client.set(key, id));
  const late = await replica();
  assert.deepEqual(late.purged, ['everything']);
});

scene('a purge that only a later version can express clears everything; other messages nothing', async (replica) => {
  const { news, purged } = await replica();
  for (const message of ['purge', 'purge x everything', `purged ${id}`, 'served 5']) news.onMessage(message);
  assert.deepEqual(purged, []);
  news.onMessage(`purge ${id} shard 7`);
  assert.deepEqual(purged, ['everything']);
});
