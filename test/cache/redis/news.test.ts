/** News and purges between replicas, over a real redis-server, and replicas that missed one. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { connectSubscriber } from '../../../src/cache/redis/redis-source.ts';
import { formatScope } from '../../../src/cache/purge.ts';
import { News, PurgeNews, type ReplicaNews } from '../../../src/cache/redis/news.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { until } from '../../support/eventually.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';
import { linkTo } from '../../support/redis-link.ts';
import { noRedis, redisServer, type RedisServer, redisTest } from '../../support/redis-server.ts';

async function stateOf(
  t: TestContext,
  server: RedisServer,
  ledger: () => string | undefined,
  onNews: (news: ReplicaNews) => void = () => {},
  onPurge: () => Promise<boolean> = () => Promise.resolve(true),
): Promise<News> {
  const link = await linkTo(t, server);
  const listener = { onNews, onPurge };
  const subscriber = connectSubscriber({ kind: 'single', url: server.url }, () => undefined);
  const state = new News(link, subscriber, 'lg', ledger, () => undefined, listener);
  t.after(() => state.close());
  return state;
}

function serve(state: News, version: bigint): void {
  state.publish({ kind: 'served', version: LedgerVersion.of(version) });
}

function served(server: RedisServer, ledger: string): Promise<string | null> {
  return server.run((client) => client.zscore(`lg:state:${ledger}`, 'served'));
}

redisTest('the highest of versions served at the same time is published', async (t, server) => {
  const state = await stateOf(t, server, () => '4.aaaaaaaa');
  serve(state, 10n);
  serve(state, 9n);
  await until(async () => (await served(server, '4.aaaaaaaa')) !== null);
  assert.equal(await served(server, '4.aaaaaaaa'), '10');
});

redisTest('a version served on another ledger is not published for this one', async (t, server) => {
  let ledger: string | undefined = '4.aaaaaaaa';
  const state = await stateOf(t, server, () => ledger);
  serve(state, 1_000n);
  await until(async () => (await served(server, '4.aaaaaaaa')) === '1000');
  // Not known for a moment, and then a new one.
  for (const next of [undefined, '4.bbbbbbbb']) {
    ledger = next;
    serve(state, 5n);
  }
  await until(async () => (await served(server, '4.bbbbbbbb')) === '5');
});

/** A replica that receives `messages` on its channel, in order, with the news that it takes from them. */
async function receiving(t: TestContext, server: RedisServer) {
  const news: ReplicaNews[] = [];
  let purges = 0;
  const state = await stateOf(
    t,
    server,
    () => '4.aaaaaaaa',
    (one) => void news.push(one),
    () => {
      purges += 1;
      return Promise.resolve(true);
    },
  );
  await state.follow();
  await until(async () => (await server.run((client) => client.pubsub('NUMSUB', 'lg:news:4.aaaaaaaa')))[1] === 1);
  const receive = (...messages: string[]) =>
    server.run(async (client) => {
      for (const message of messages) await client.publish('lg:news:4.aaaaaaaa', message);
    });
  return { state, news, receive, purges: () => purges };
}

test('a message of more than 1024 characters is ignored', { skip: noRedis }, async (t) => {
  const { news, purges, receive } = await receiving(t, await redisServer(t));
  const [long, longest] = [1_025, 1_024].map((length) =>
    `purge 00000000-0000-4000-8000-00000000${length} `.padEnd(length, 'x'),
  );
  await receive(long!, longest!, 'served 95');
  await until(() => news.length > 0);
  assert.equal(purges(), 1);
});

test('a wrong state of a replica suppresses no version that another served', { skip: noRedis }, async (t) => {
  const { news, receive } = await receiving(t, await redisServer(t));
  await receive('shared - 200 4 1 18446744073709551615 0 1 1 0', 'served 95');
  await until(() => news.length === 2);
  assert.deepEqual(
    news.map(({ kind }) => kind),
    ['shared', 'served'],
  );
});

redisTest(
  'a floor of all beside a newer state reaches replicas, and the state those that know no states',
  async (t, server) => {
    const { state, news } = await receiving(t, server);
    const sent: string[] = [];
    await server.run(async (client) => {
      const subscriber = client.duplicate();
      subscriber.on('message', (_, message: string) => void sent.push(message));
      await subscriber.subscribe('lg:news:4.aaaaaaaa');
      state.publish({ kind: 'shared', info: ledgerInfo({ version: 100n }), bounds: [200] });
      serve(state, 95n);
      await until(() => sent.length === 3);
      subscriber.disconnect();
    });

    await until(() => news.length === 2);
    assert.deepEqual(
      news.map((one) => [one.kind, 'version' in one ? one.version : undefined]),
      [
        ['shared', undefined],
        ['served', 95n],
      ],
    );
    // The form that replicas without states parse.
    const known = sent.flatMap(
      (one) => /^(served|refused) ([\w-]{22} )?(\d{1,20})(?: ([0-9a-z]{8}))?$/.exec(one)?.[3] ?? [],
    );
    assert.deepEqual(known, ['95', '100']);
    assert.equal(await served(server, '4.aaaaaaaa'), '100');
  },
);

// Purges.

const channel = 'lg:news:test';
const key = 'lg:purge:test';
const purgeId = '00000000-0000-4000-8000-000000000001';

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
    const next = purgeId.replace(/.$/, String(last));
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
  await server.run((client) => client.set(key, purgeId));
  const late = await replica();
  assert.deepEqual(late.purged, ['everything']);
});

scene('a purge that only a later version can express clears everything; other messages nothing', async (replica) => {
  const { news, purged } = await replica();
  for (const message of ['purge', 'purge x everything', `purged ${purgeId}`, 'served 5']) news.onMessage(message);
  assert.deepEqual(purged, []);
  news.onMessage(`purge ${purgeId} shard 7`);
  assert.deepEqual(purged, ['everything']);
});
