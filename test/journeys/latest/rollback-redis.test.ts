/**
 * A ledger that goes back and forks there, with the same first transaction: no client receives an answer of the earlier
 * ledger from Redis. `LEDGERGATE_ROLLBACK_READS`: pinned reads of each order of events.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { until } from '../../support/eventually.ts';
import type { FakeNode } from '../../support/fake-node.ts';
import { fall, forkedReplica, growBack, historyOf, oldAnswers, oldNode, rollBack } from '../../support/forked-fleet.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { noRedis, redisServer, type RedisServer } from '../../support/redis-server.ts';

const reads = Number(process.env['LEDGERGATE_ROLLBACK_READS'] ?? 120);

/** Versions above the fork that existed before the rollback, spread evenly. */
function forkedVersions(): readonly bigint[] {
  const step = (fall.before - fall.fork) / BigInt(reads);
  assert.ok(step >= 1n);
  return Array.from({ length: reads }, (_, index) => fall.before - BigInt(index) * step);
}

interface World {
  readonly server: RedisServer;
  readonly nodes: readonly [FakeNode, FakeNode];
  /** Closes the replica of this number, where it is there. */
  leave(index: number): Promise<void>;
  /** Starts the replica of this number anew. */
  come(index: number): Promise<void>;
  readonly replicas: () => readonly TestGateway[];
}

/** Two replicas with a node each or both, one Redis that holds `forkedVersions` of the ledger before the rollback. */
async function worldOf(t: TestContext, split = false): Promise<World> {
  const server = await redisServer(t);
  const nodes = [await oldNode(t), await oldNode(t)] as const;
  const nodesOf = (index: number) => (split ? nodes.slice(index, index + 1) : nodes);
  const running = [await forkedReplica(t, server, nodesOf(0)), await forkedReplica(t, server, nodesOf(1))];
  const present = new Map(running.entries());
  const [a] = running;
  assert.ok(a);
  assert.equal(await oldAnswers(a, forkedVersions()), reads);
  const sample = 'ledgergate_redis_writes_total{outcome="written"}';
  await until(async () => (await a.metric(sample)) >= reads, 10);
  return {
    server,
    nodes,
    async leave(index) {
      await present.get(index)?.close();
      present.delete(index);
    },
    async come(index) {
      const gateway = await forkedReplica(t, server, nodesOf(index));
      present.set(index, gateway);
      // It has never seen the old course, so that nothing excuses an answer of it: not even the first.
      const isBack = nodes.every((node) => node.clock.head >= fall.before);
      if (isBack) assert.equal(await oldAnswers(gateway, forkedVersions()), 0);
    },
    replicas: () => [...present.values()],
  };
}

/** Every replica has detected the rollback and uses Redis again: then no answer is of the earlier ledger. */
async function assertForgotten(t: TestContext, { replicas, server, nodes }: World): Promise<void> {
  for (const gateway of replicas()) {
    await until(async () => (await historyOf(gateway, fall.before)) === 'fork', 50);
  }
  for (const gateway of replicas()) {
    await until(async () => (await gateway.metric('ledgergate_redis_up')) === 1, 20);
    assert.equal(await oldAnswers(gateway, forkedVersions()), 0);
  }
  // Memory has answered some of these: a replica that has none is answered by Redis.
  const third = await forkedReplica(t, server, nodes);
  await until(async () => (await third.metric('ledgergate_redis_up')) === 1, 20);
  assert.equal(await oldAnswers(third, forkedVersions()), 0);
  assert.ok(
    (await third.metric('ledgergate_redis_lookups_total{outcome="hit"}')) > reads / 2,
    'the new course is shared',
  );
}

async function rollAllBack(nodes: readonly FakeNode[]): Promise<void> {
  for (const node of nodes) await rollBack(node);
}

type Order = (world: World) => Promise<void>;

const orders: Readonly<Record<string, Order>> = {
  'node by node, both replicas there, Redis kept': async ({ nodes: [one, other] }) => {
    await rollBack(one);
    growBack(one);
    await rollBack(other);
    growBack(other);
  },
  'the other node first, one replica away until it is over': async (world) => {
    const [one, other] = world.nodes;
    await world.leave(1);
    await rollBack(other);
    await rollBack(one);
    growBack(one);
    growBack(other);
    await world.come(1);
  },
  'all replicas away, so that no replica sees it': async (world) => {
    await world.leave(0);
    await world.leave(1);
    await rollAllBack(world.nodes);
    for (const node of world.nodes) growBack(node);
    await world.come(0);
    await world.come(1);
  },
  'a replica starts while the nodes are below the fork': async (world) => {
    await world.leave(0);
    await world.leave(1);
    await rollAllBack(world.nodes);
    await world.come(0);
    for (const node of world.nodes) growBack(node);
    await world.come(1);
  },
  'Redis flushed meanwhile': async (world) => {
    await rollAllBack(world.nodes);
    await world.server.run((client) => client.flushall());
    for (const node of world.nodes) growBack(node);
  },
  'Redis down meanwhile, and started anew with what it held': async (world) => {
    await world.server.run((client) => client.save());
    await world.server.kill();
    await rollAllBack(world.nodes);
    for (const node of world.nodes) growBack(node);
    await world.server.start();
  },
};

for (const [order, run] of Object.entries(orders)) {
  test(`after a rollback Redis serves nothing of the earlier ledger: ${order}`, { skip: noRedis }, async (t) => {
    const world = await worldOf(t);
    await run(world);
    await assertForgotten(t, world);
  });
}

test('replicas on two forks at once share nothing above the fork', { skip: noRedis }, async (t) => {
  const world = await worldOf(t, true);
  const [one, other] = world.nodes;
  await rollBack(other);
  growBack(other);
  const [a, b] = world.replicas();
  assert.ok(a && b);
  await until(async () => (await historyOf(b, fall.before)) === 'fork', 50);
  const versions = forkedVersions();
  for (const node of [one, other]) node.clock.head = fall.after;
  const above = versions.map((version) => version - 1n).filter((version) => version > fall.fork);
  assert.equal(await oldAnswers(b, [...versions, ...above]), 0);
  assert.equal(await oldAnswers(a, [...versions, ...above]), versions.length + above.length);
  assert.equal(await oldAnswers(b, [...versions, ...above]), 0);
});
