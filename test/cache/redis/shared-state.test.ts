/** News of served versions, over a real redis-server. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { connectSubscriber } from '../../../src/cache/redis/redis-client.ts';
import { SharedState } from '../../../src/cache/redis/shared-state.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { eventually } from '../../support/eventually.ts';
import { linkTo } from '../../support/redis-link.ts';
import { noRedis, redisServer, type RedisServer } from '../../support/redis-server.ts';

async function stateOf(t: TestContext, server: RedisServer, ledger: () => string | undefined): Promise<SharedState> {
  const link = await linkTo(t, server);
  const listener = { onNews: () => {}, onPurge: () => Promise.resolve(true) };
  const subscriber = connectSubscriber({ kind: 'single', url: server.url }, () => undefined);
  const state = new SharedState(link, subscriber, listener, { ledger, prefix: 'lg', epoch: () => undefined });
  t.after(() => state.close());
  return state;
}

function serve(state: SharedState, version: bigint): void {
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
