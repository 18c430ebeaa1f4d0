/** News of served versions, over a real redis-server. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { connectSubscriber } from '../../../src/cache/redis/redis-source.ts';
import { type ReplicaNews, News } from '../../../src/cache/redis/news.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { eventually, until } from '../../support/eventually.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';
import { linkTo } from '../../support/redis-link.ts';
import { noRedis, redisServer, type RedisServer } from '../../support/redis-server.ts';

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

test('the highest of versions served at the same time is published', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const state = await stateOf(t, server, () => '4.aaaaaaaa');
  serve(state, 10n);
  serve(state, 9n);
  const first = await eventually(
    () => served(server, '4.aaaaaaaa'),
    (version) => version !== null,
  );
  assert.equal(first, '10');
});

test('a version served on another ledger is not published for this one', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  let ledger: string | undefined = '4.aaaaaaaa';
  const state = await stateOf(t, server, () => ledger);
  serve(state, 1_000n);
  await eventually(
    () => served(server, '4.aaaaaaaa'),
    (version) => version === '1000',
  );
  // Not known for a moment, and then a new one.
  for (const next of [undefined, '4.bbbbbbbb']) {
    ledger = next;
    serve(state, 5n);
  }
  await eventually(
    () => served(server, '4.bbbbbbbb'),
    (version) => version === '5',
  );
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

test(
  'a floor of all beside a newer state reaches replicas, and the state those that know no states',
  { skip: noRedis },
  async (t) => {
    const server = await redisServer(t);
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
