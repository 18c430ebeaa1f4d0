/** The log under load and faults: one line per change, and a bound for a state that flaps. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../../../src/config/config.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { probeAt, testGateway, type TestGateway } from '../../support/gateway.ts';
import { noRedis, redisAt, redisServer } from '../../support/redis-server.ts';
import { watchStalls } from '../../support/stalls.ts';

interface Scene {
  readonly gateway: TestGateway;
  /** How often each message came, as "level message". */
  readonly counts: ReadonlyMap<string, number>;
}

/** At level `info`. */
async function scene(t: TestContext, full: readonly FakeNode[], config: Partial<Config> = {}): Promise<Scene> {
  const counts = new Map<string, number>();
  const gateway = await testGateway(t, {
    full,
    config: {
      upstream: { probeIntervalMs: 50, timeoutMs: 500, deadlineMs: 1_000 },
      log: { access: { share: 0, slowMs: 60_000, failed: false } },
      ...config,
    },
    onLog: ({ level, msg }) => {
      const line = `${String(level)} ${String(msg)}`;
      if (Number(level) >= 30) counts.set(line, (counts.get(line) ?? 0) + 1);
    },
  });
  return { gateway, counts };
}

/** Clients that read uncached versions until `isOver`, which gets the number of requests. */
async function load({ gateway }: Scene, isOver: (asked: number) => boolean): Promise<void> {
  let asked = 0;
  const client = async (): Promise<void> => {
    while (!isOver(asked)) {
      asked += 1;
      await gateway.get(probeAt(asked % 900));
      await gateway.get('/estimate_gas_price?x=1');
    }
  };
  await Promise.all(Array.from({ length: 8 }, client));
}

test('a node that dies and comes back has one line each way, however many requests it failed', async (t) => {
  const [one, other] = [await fakeNode(t), await fakeNode(t)];
  const the = await scene(t, [one, other]);
  const before = new Map(the.counts);

  let [isOver, asked] = [false, 0];
  const loading = load(the, (times) => {
    asked = times;
    return isOver;
  });
  await until(() => asked > 20);
  await one.refuse();
  const enough = asked + 50;
  await Promise.all([sleep(500), until(() => asked > enough)]);
  await one.accept();
  await until(async () => (await the.gateway.metric('ledgergate_upstream_usable{upstream="full-0"}')) === 1);
  isOver = true;
  await loading;

  const news = [...the.counts].map(([line, count]) => [line, count - (before.get(line) ?? 0)] as const);
  const changes = Object.fromEntries(news.filter(([, count]) => count > 0));
  assert.deepEqual(changes, { '40 upstream is down': 1, '30 upstream is usable': 1 });
});

test('a flapping node takes a few lines', async (t) => {
  const node = await fakeNode(t);
  const the = await scene(t, [node]);
  let turn = 0;
  // Two failures take it out, the next answer brings it back: it is the only one.
  node.faults.add({ kind: 'reset' }, { when: () => (turn += 1) % 6 < 4 });

  const stalls = watchStalls(t);
  await load(the, (asked) => asked >= 150);

  // So many in the seconds that it takes; where it takes a quarter of a minute there are more.
  for (const [line, count] of the.counts) stalls.judge(count <= 10, `${count} times "${line}"`);
});

test('an outage of Redis under load is one line, and its end another', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const node = await fakeNode(t);
  const redis = redisAt(server.url, { timeoutMs: 50 });
  const cache = { gasPriceTtlMs: 1_000, memory: { maxBytes: 64 * 1024 * 1024 }, redis };
  const the = await scene(t, [node], { cache });
  const stalls = watchStalls(t);

  let [isOver, asked] = [false, 0];
  const loading = load(the, (times) => {
    asked = times;
    return isOver;
  });
  await until(() => asked > 20);
  await server.kill();
  const enough = asked + 50;
  await Promise.all([sleep(500), until(() => asked > enough)]);
  await server.start();
  await until(async () => (await the.gateway.metric('ledgergate_redis_up')) === 1);
  isOver = true;
  await loading;

  const of = (part: string): number =>
    [...the.counts].filter(([line]) => line.includes(part)).reduce((sum, [, count]) => sum + count, 0);
  const [opened, closed] = [of('Redis circuit open'), of('Redis answers again')];
  assert.ok(opened >= 1 && closed >= 1, JSON.stringify([...the.counts]));
  // A busy machine may be slower than the 50 ms that Redis is given: then its circuit opens once more.
  stalls.judge(opened <= 4 && closed <= 4, `${opened} and ${closed} lines`);
  for (const [line, count] of the.counts) stalls.judge(count <= 10, `${count} times "${line}"`);
});
