/** Replicas that share Redis show the sum of all on each status page. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { eventually } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { fetchReply, probeAt, testGateway, type TestGateway } from '../../support/gateway.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { noRedis, redisAt, redisServer, type RedisServer } from '../../support/redis-server.ts';
import { statusOf } from '../../support/status.ts';

async function replicaOf(t: TestContext, redis: RedisServer): Promise<TestGateway> {
  return testGateway(t, { full: [await fakeNode(t)], config: { cache: { redis: redisAt(redis.url) } } });
}

/** The name of the replica ends with its port. */
function named({ port }: TestGateway): RegExp {
  return new RegExp(`:${port}$`);
}

test('each replica shows all of them and their sum; one that has ended leaves', { skip: noRedis }, async (t) => {
  const redis = await redisServer(t);
  const [a, b] = [await replicaOf(t, redis), await replicaOf(t, redis)];
  for (let version = 100; version < 110; version += 1) await a.get(probeAt(version));
  await a.get(probeAt(100));

  // The report of the other replica is up to five seconds old.
  const { replicas } = await eventually(
    () => statusOf(b),
    (facts) => (facts.replicas?.all.requestsPerSecond ?? 0) > 0,
  );

  assert.equal(replicas?.each.length, 2);
  const [busy, idle] = [
    replicas.each.find(({ name }) => named(a).test(name)),
    replicas.each.find(({ name }) => named(b).test(name)),
  ];
  assert.ok((busy?.requestsPerSecond ?? 0) > 0);
  assert.equal(idle?.requestsPerSecond, 0);
  assert.equal(replicas.all.requestsPerSecond, busy?.requestsPerSecond);
  assert.ok((replicas.all.hitShare ?? 0) > 0 && (replicas.all.hitShare ?? 1) < 1);
  const page = (await fetchReply(`${b.operationsUrl}/status`, { method: 'GET' })).text;
  assert.match(page, /all 2/);

  await a.close();
  assert.equal((await statusOf(b)).replicas?.each.length, 1);
});

test('the workers of one gateway are one replica', { skip: noRedis }, async (t) => {
  const redis = await redisServer(t);
  const node = await fakeNode(t);
  const { operationsUrl } = await gatewayProcess(t, {
    full: [node],
    config: { workers: 2, cache: { redis: { url: redis.url } } },
  });

  const { replicas } = await eventually(
    () => statusOf({ operationsUrl }),
    (facts) => facts.replicas !== undefined,
  );

  assert.equal(replicas?.each.length, 1);
});

test('without Redis, and while it is away, the status page is of one replica', { skip: noRedis }, async (t) => {
  const alone = await testGateway(t, { full: [await fakeNode(t)] });
  assert.equal((await statusOf(alone)).replicas, undefined);
  const redis = await redisServer(t);
  const gateway = await replicaOf(t, redis);
  await eventually(
    () => statusOf(gateway),
    (facts) => facts.replicas !== undefined,
  );

  await redis.kill();

  await eventually(
    () => statusOf(gateway),
    (facts) => facts.replicas === undefined,
  );
});
