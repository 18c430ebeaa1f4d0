/** Redis behind sentinels: a primary dies, and its successor is used. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeNode } from '../../support/fake-node.ts';
import {
  readProbe,
  readsThroughFault,
  replica,
  sourceOf,
  sourcesOf,
  until,
  untilUp,
  versions,
  written,
} from '../../support/redis-replica.ts';
import { noRedis } from '../../support/redis-server.ts';
import { watchedServers } from '../../support/redis-topology.ts';

test('failover: reads go on, and writes go to the new primary', { skip: noRedis }, async (t) => {
  const { target, primary, second } = await watchedServers(t);
  const nodes = [await fakeNode(t)];
  const [a, b] = [await replica(t, target, { nodes }), await replica(t, target, { nodes })];
  await Promise.all([untilUp(a), untilUp(b)]);
  await sourcesOf(a, versions(1, 5));
  await written(a, 5);
  assert.deepEqual(await sourcesOf(b, versions(1, 2)), new Set(['redis']));
  await until('the replica has all', async () => (await second.run((client) => client.dbsize())) >= 6);

  await primary.kill();
  await Promise.all([readsThroughFault(a, versions(100, 20)), readsThroughFault(b, versions(200, 20))]);
  await untilUp(a, false);
  await until('the successor takes over', async () => (await second.run((client) => client.role()))[0] === 'master');
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
