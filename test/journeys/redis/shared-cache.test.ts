/** Replicas that share what they have read over a real redis-server. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { probe, testGateway, type TestGateway } from '../../support/gateway.ts';
import { noRedis, redisAt, redisServer, type RedisServer } from '../../support/redis-server.ts';

const padded = (bytes: number) => `/accounts/0x1/resource/0x1::ledgergate_sample::Padded${bytes}`;

function replica(t: TestContext, server: RedisServer, ...nodes: FakeNode[]): Promise<TestGateway> {
  const redis = redisAt(server.url);
  return testGateway(t, { full: nodes, config: { cache: { redis } } });
}

/** Resolves when the gateway has written `count` answers to Redis. */
async function written(gateway: TestGateway, count: number): Promise<void> {
  for (let tries = 0; tries < 500; tries += 1) {
    if ((await gateway.metric('ledgergate_redis_writes_total{outcome="written"}')) >= count) return;
    await sleep(10);
  }
  assert.fail('nothing was written to Redis');
}

test("a replica serves another's read from Redis, byte for byte", { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const node = await fakeNode(t);
  const [a, b] = [await replica(t, server, node), await replica(t, server, node)];
  for (const path of [`${probe}?ledger_version=7`, `${padded(60_000)}?ledger_version=7`]) {
    const first = await a.get(path);
    assert.match(first.headers['cache-status'] ?? '', /fwd=miss/);
    await written(a, path.startsWith(probe) ? 1 : 2);
    const second = await b.get(path);
    assert.equal(second.headers['cache-status'], 'ledgergate; hit; detail=redis');
    assert.deepEqual(second.body, first.body);
    for (const name of ['etag', 'content-type', 'cache-control', 'ledgergate-served-version']) {
      assert.equal(second.headers[name], first.headers[name]);
    }
    assert.equal((await b.get(path)).headers['cache-status'], 'ledgergate; hit; detail=memory');
  }
  assert.equal(node.log.countOf('resource'), 2);
});
