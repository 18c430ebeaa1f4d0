/** Versions that replicas publish to each other over a real redis-server. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually, until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { probe, testGateway, type TestGateway } from '../../support/gateway.ts';
import { untilUp } from '../../support/redis-replica.ts';
import { noRedis, redisAt, redisServer, type RedisServer } from '../../support/redis-server.ts';

interface ReplicaOptions {
  readonly server: RedisServer;
  readonly full: readonly FakeNode[];
  readonly archival?: readonly FakeNode[];
  readonly maxStalenessMs?: number;
  readonly floor?: 'client' | 'gateway';
}

function replica(t: TestContext, { server, full, archival = [], ...bounds }: ReplicaOptions) {
  const { maxStalenessMs = 10_000, floor = 'client' } = bounds;
  const redis = redisAt(server.url);
  return testGateway(t, { full, archival, config: { cache: { redis }, latest: { maxStalenessMs, floor } } });
}

async function servedVersion(gateway: TestGateway, headers: Record<string, string> = {}): Promise<bigint> {
  const reply = await gateway.get(probe, headers);
  assert.equal(reply.status, 200);
  return BigInt(reply.headers['ledgergate-served-version'] ?? -1);
}

/** Resolves when so many processes receive the news of replicas. */
function untilSubscribed(server: RedisServer, count: number): Promise<void> {
  return until(async () => (await server.run((client) => client.pubsub('NUMSUB', 'lg:news:1.nogenesis')))[1] === count);
}

test('a version that one replica served is the floor of another', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const node = await fakeNode(t, { head: 1000n });
  const [a, b] = [await replica(t, { server, full: [node] }), await replica(t, { server, full: [node] })];
  assert.equal(await servedVersion(b), 1000n);
  node.clock.head = 1500n;
  // The snapshot of b is good for ten seconds more; a is asked for the newest state there is.
  assert.equal(await servedVersion(a, { 'ledgergate-max-staleness': '0' }), 1500n);
  await until(async () => (await servedVersion(b)) === 1500n);
});

test(
  'a version that binds every client is published once, by the replica that served it first',
  { skip: noRedis },
  async (t) => {
    const server = await redisServer(t);
    const node = await fakeNode(t, { head: 1000n });
    const replicas = [];
    for (let count = 0; count < 4; count += 1)
      replicas.push(await replica(t, { server, full: [node], floor: 'gateway' }));
    const [first] = replicas;
    assert.ok(first);
    await untilSubscribed(server, replicas.length);
    const published = () =>
      server.run(async (client) => {
        const calls = /cmdstat_publish:calls=(\d+)/.exec(await client.info('commandstats'))?.[1];
        return Number(calls ?? 0);
      });
    const before = await published();

    for (const head of [1500n, 1600n, 1700n]) {
      node.clock.head = head;
      assert.equal(await servedVersion(first, { 'ledgergate-max-staleness': '0' }), head);
      for (const other of replicas) {
        await until(async () => (await servedVersion(other)) === head);
      }
    }
    // Messages of the others are in flight for a few milliseconds.
    await sleep(50);
    assert.equal((await published()) - before, 3);
  },
);

test('a replica that starts without Redis receives versions once Redis is back', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  await server.kill();
  const node = await fakeNode(t, { head: 1000n });
  const [a, b] = [await replica(t, { server, full: [node] }), await replica(t, { server, full: [node] })];
  assert.deepEqual([await servedVersion(a), await servedVersion(b)], [1000n, 1000n]);

  await server.start();
  for (const gateway of [a, b]) await untilUp(gateway);
  await untilSubscribed(server, 2);
  node.clock.head = 1500n;

  assert.equal(await servedVersion(a, { 'ledgergate-max-staleness': '0' }), 1500n);
  await until(async () => (await servedVersion(b)) === 1500n);
});

test('a replica that starts adopts the versions that were served before', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const [ahead, behind] = [await fakeNode(t, { head: 1500n }), await fakeNode(t, { head: 1000n })];
  const a = await replica(t, { server, full: [ahead] });
  assert.equal(await servedVersion(a), 1500n);
  await until(async () => (await server.run((client) => client.zscore('lg:state:1.nogenesis', 'served'))) === '1500');
  await a.close();
  const b = await replica(t, { server, full: [behind] });
  const [version] = await Promise.all([servedVersion(b), sleep(30).then(() => (behind.clock.head = 1600n))]);
  assert.equal(version, 1600n);
});

test('a published version above every local node costs one wait, never an answer', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const [ahead, behind] = [await fakeNode(t, { head: 1500n }), await fakeNode(t, { head: 1000n })];
  const [a, b] = [await replica(t, { server, full: [ahead] }), await replica(t, { server, full: [behind] })];
  assert.equal(await servedVersion(a), 1500n);
  await eventually(
    async () => [await servedVersion(b), await b.metric('ledgergate_unreached_versions_total')] as const,
    ([version, unreached]) => version === 1000n && unreached === 1,
  );
  // From here on b continues with its own state, whatever a publishes.
  ahead.clock.head = 2000n;
  assert.equal(await servedVersion(a, { 'ledgergate-max-staleness': '0' }), 2000n);
  for (let read = 0; read < 20; read += 1) assert.equal(await servedVersion(b), 1000n);
  assert.equal(await b.metric('ledgergate_unreached_versions_total'), 1);
});

test(
  'a version that one replica was refused is not asked for at that node by another',
  { skip: noRedis },
  async (t) => {
    const server = await redisServer(t);
    const [node, deep] = [await fakeNode(t, { oldest: 100n }), await fakeNode(t, { archival: true })];
    const replicas = { server, full: [node], archival: [deep] };
    const [a, b] = [await replica(t, replicas), await replica(t, replicas)];
    const refused = server.run(async (client) => {
      await client.subscribe('lg:news:1.nogenesis');
      return new Promise<string>((resolve) => {
        client.on('message', (_channel, message: string) => message.startsWith('refused') && resolve(message));
      });
    });
    await untilSubscribed(server, 3);
    // The edge has moved since the last word of the node.
    node.clock.oldest = 300n;
    assert.equal((await a.get(`${probe}?ledger_version=200`)).status, 200);
    assert.match(await refused, / 200$/);
    // The same message is on its way to b, or there.
    await sleep(50);
    assert.equal((await b.get(`${probe}?ledger_version=150`)).status, 200);
    assert.equal(node.log.countOf('resource'), 1);
    assert.equal(await b.metric('ledgergate_pruned_answers_repaired_total'), 0);
  },
);
