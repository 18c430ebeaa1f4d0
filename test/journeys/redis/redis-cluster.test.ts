/** Redis Cluster: names spread over its servers, slots that move, and one server that hangs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import calculateSlot from 'cluster-key-slot';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import {
  readProbe,
  readsThroughFault,
  redisTimeoutMs,
  replica,
  sourceOf,
  sourcesOf,
  untilUp,
  versions,
  written,
} from '../../support/redis-replica.ts';
import { noRedis } from '../../support/redis-server.ts';
import { redisCluster, watchedServers, type TestCluster } from '../../support/redis-topology.ts';

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
  const [a, b] = [await replica(t, cluster.target, patient), await replica(t, cluster.target, patient)];
  await Promise.all([untilUp(a), untilUp(b)]);
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
  const nodes = [await fakeNode(t)];
  const [a, b] = [await replica(t, cluster.target, { nodes }), await replica(t, cluster.target, { nodes })];
  await Promise.all([untilUp(a), untilUp(b)]);
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
    if (performance.now() - start >= redisTimeoutMs) slow += 1;
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
  const nodes = [await fakeNode(t)];
  const [a, b] = [await replica(t, target, { nodes }), await replica(t, target, { nodes })];
  await Promise.all([untilUp(a), untilUp(b)]);
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
