/** An outage of all nodes: hits go on, everything else fails quickly, and the end is detected. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { RedisConfig } from '../../../src/config/config.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fetchReply, probe, probeAt, type Reply, testGateway, type TestGateway } from '../../support/gateway.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { versions, written } from '../../support/redis-replica.ts';
import { watchStalls } from '../../support/stalls.ts';
import { get, metric } from '../../support/workers.ts';
import { noRedis, redisAt, redisServer } from '../../support/redis-server.ts';

const ledgerHeader = /^x-node-/;

interface Fixture extends TestGateway {
  readonly lines: readonly string[];
  readonly readiness: () => Promise<{ readonly status: number; readonly body: Readonly<Record<string, unknown>> }>;
}

interface FixtureOptions {
  readonly redis?: RedisConfig;
  readonly readyInOutage?: boolean;
}

/** One attempt, and all for one request: with three nodes that hang, it takes three attempts. */
const [timeoutMs, deadlineMs] = [600, 4_000];
async function gatewayOf(t: TestContext, nodes: readonly FakeNode[], options: FixtureOptions = {}): Promise<Fixture> {
  const { redis, readyInOutage = true } = options;
  const lines: string[] = [];
  const gateway = await testGateway(t, {
    full: nodes,
    config: {
      operations: { readyInOutage },
      upstream: { timeoutMs, deadlineMs, probeIntervalMs: 50 },
      cache: redis === undefined ? {} : { redis },
    },
    onLog: ({ level, msg }) => {
      if (/node answers/.test(String(msg))) lines.push(`${String(level)} ${String(msg)}`);
    },
  });
  const readiness = async () => {
    const { status, text } = await fetchReply(`${gateway.operationsUrl}/readyz`, { method: 'GET' });
    return { status, body: JSON.parse(text) as Record<string, unknown> };
  };
  return { ...gateway, lines, readiness };
}

const isOut = async (gateway: Fixture): Promise<boolean> => (await gateway.metric('ledgergate_outage')) === 1;

function ledgerOf({ headers }: Reply): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => ledgerHeader.test(name)));
}

/** Requests that only a node can answer. */
const others: readonly ((gateway: TestGateway, version: number) => Promise<Reply>)[] = [
  (gateway, version) => gateway.get(probeAt(version)),
  (gateway) => gateway.get(probe),
  (gateway) => gateway.get(''),
  (gateway) => gateway.get('/accounts/0x1?x=1'),
  (gateway) => gateway.get('/blocks/by_height/3?x=1'),
  (gateway) => gateway.get(`/transactions/by_hash/0x${'ab'.repeat(32)}`),
  (gateway) => gateway.post('/transactions', '{}'),
  (gateway, version) =>
    gateway.post(`/view?ledger_version=${version}`, '{"function":"0x1::a::b","type_arguments":[],"arguments":[]}'),
];

async function timed(asked: Promise<Reply>): Promise<{ readonly reply: Reply; readonly ms: number }> {
  const startedMs = performance.now();
  return { reply: await asked, ms: performance.now() - startedMs };
}

function p99Of(answers: readonly { readonly ms: number }[]): number {
  const took = answers.map(({ ms }) => ms).sort((a, b) => a - b);
  return Math.round(took[Math.floor(took.length * 0.99)] ?? Infinity);
}

const ways = [
  {
    how: 'refuse connections',
    end: (nodes: readonly FakeNode[]) => Promise.all(nodes.map((node) => node.refuse())),
    begin: (nodes: readonly FakeNode[]) => Promise.all(nodes.map((node) => node.accept())),
    // No time-out is waited for.
    p99Ms: 3 * timeoutMs,
    knownP99Ms: 3 * timeoutMs,
  },
  {
    how: 'hang',
    end: async (nodes: readonly FakeNode[]) => nodes.forEach((node) => (node.fault = { kind: 'hang' })),
    begin: async (nodes: readonly FakeNode[]) => nodes.forEach((node) => node.faults.clear()),
    p99Ms: deadlineMs,
    knownP99Ms: deadlineMs / 2,
  },
] as const;

for (const { how, end, begin, p99Ms, knownP99Ms } of ways) {
  test(
    `all nodes ${how} under load: what memory and Redis hold is given, the rest is 503 in time`,
    { skip: noRedis },
    async (t) => {
      const stalls = watchStalls(t);
      const server = await redisServer(t);
      const redis = redisAt(server.url, { timeoutMs: 3_000 });
      const nodes = [await fakeNode(t), await fakeNode(t), await fakeNode(t, { archival: true })];
      const [filler, gateway] = [await gatewayOf(t, nodes, { redis }), await gatewayOf(t, nodes, { redis })];
      const [inRedis, inMemory] = [versions(1, 120), versions(201, 20)];
      for (const version of inRedis) await filler.get(probeAt(version));
      await written(filler, inRedis.length);
      for (const version of inMemory) await gateway.get(probeAt(version));
      const before = await gateway.get(probeAt(201));
      assert.equal(before.headers['cache-status'], 'ledgergate; hit; detail=memory');

      // Redis is asked about half of them before the nodes end, as the load goes on.
      const held: Promise<Reply>[] = [];
      const rest: Promise<{ readonly reply: Reply; readonly ms: number }>[] = [];
      let ended: Promise<unknown> = Promise.resolve();
      for (const [index, version] of inRedis.entries()) {
        if (index === 20) ended = end(nodes);
        held.push(gateway.get(probeAt(version)), gateway.get(probeAt(inMemory[index % inMemory.length] ?? 201)));
        const other = others[index % others.length];
        if (index >= 20 && other !== undefined) rest.push(timed(ended.then(() => other(gateway, 400 + index))));
        if (index % 10 === 0) await Promise.all(held);
        if (index === 60) await until(() => isOut(gateway));
      }
      const [given, failed] = [await Promise.all(held), await Promise.all(rest)];

      const notGiven = given.filter(
        ({ status, headers }) => status !== 200 || !/; hit; detail=/.test(headers['cache-status'] ?? ''),
      );
      assert.deepEqual(
        notGiven.map(({ status, headers, text }) => [status, headers['cache-status'], text]),
        [],
      );
      const sources = new Set(given.slice(130).map(({ headers }) => headers['cache-status']));
      assert.deepEqual(
        sources,
        new Set(['ledgergate; hit; detail=memory; outage', 'ledgergate; hit; detail=redis; outage']),
      );
      for (const reply of given) assert.deepEqual(ledgerOf(reply), ledgerOf(before), 'the ledger stands still');
      for (const { reply } of failed) {
        const told = JSON.parse(reply.text) as Record<string, unknown>;
        assert.deepEqual(
          [reply.status, reply.headers['retry-after'], told['error_code'], told['vm_error_code']],
          [503, '1', 'internal_error', null],
          reply.text,
        );
      }
      // Until the outage is detected, each node is asked.
      const [p99, knownP99] = [p99Of(failed), p99Of(failed.slice(41))];
      t.diagnostic(`${given.length} given, ${failed.length} times 503: p99 ${p99} ms, once it is known ${knownP99} ms`);
      stalls.judge(p99 < p99Ms && knownP99 < knownP99Ms, `p99 ${p99} ms, once it is known ${knownP99} ms`);

      const { status, body } = await gateway.readiness();
      assert.deepEqual([status, body['status']], [200, 'outage']);
      assert.deepEqual(Object.keys(body['outage'] as object), ['since', 'head']);
      assert.equal((body['outage'] as { head: string }).head, '1000');

      await begin(nodes);
      await until(async () => !(await isOut(gateway)));
      const after = await gateway.get(probeAt(900));
      assert.deepEqual(
        [after.status, (await gateway.get(probeAt(201))).headers['cache-status']],
        [200, 'ledgergate; hit; detail=memory'],
      );
      assert.deepEqual(
        [(await gateway.readiness()).body['status'], (await gateway.readiness()).body['outage']],
        ['ready', undefined],
      );
      assert.deepEqual(gateway.lines, [
        '50 no node answers any more: only pinned answers in the cache are served',
        '30 a node answers again',
      ]);
    },
  );
}

test('before any node has answered nothing is ready, and that is no outage', async (t) => {
  const node = await fakeNode(t);
  await node.refuse();
  const gateway = await gatewayOf(t, [node]);

  const { status, body } = await gateway.readiness();

  assert.deepEqual([status, body['status'], await isOut(gateway)], [503, 'no usable node is known', false]);
  assert.deepEqual(gateway.lines, []);
});

test('readiness can end with the last node', async (t) => {
  const node = await fakeNode(t);
  const gateway = await gatewayOf(t, [node], { readyInOutage: false });
  assert.equal((await gateway.readiness()).status, 200);
  await node.refuse();
  await until(() => isOut(gateway));

  const { status, body } = await gateway.readiness();

  assert.deepEqual([status, body['status']], [503, 'outage']);
});

test('several workers report an outage once, and answer 503 within 2 s while nodes hang', async (t) => {
  const nodes = await Promise.all([1, 2, 3].map(() => fakeNode(t)));
  const config = { workers: 2, log: { level: 'silent' }, upstream: { probeInterval: '50ms' } } as const;
  const gateway = await gatewayProcess(t, { full: nodes, config });
  const stalls = watchStalls(t);
  const noticed = (isOut: 0 | 1) => until(async () => (await metric(gateway, 'ledgergate_outage')) === isOut);
  // Over connections of their own, which the workers take in turn.
  for (let count = 0; count < 4; count += 1) await get(gateway.url + probeAt(500));
  for (const node of nodes) await node.refuse();
  await noticed(1);

  const ready = await get(`${gateway.operationsUrl}/readyz`);
  const statuses = new Set<string | undefined>();
  for (let count = 0; count < 4; count += 1)
    statuses.add((await get(gateway.url + probeAt(500))).headers['cache-status']);

  const body = JSON.parse(ready.text) as Record<string, unknown>;
  assert.deepEqual([ready.status, body['status']], [200, 'outage']);
  assert.equal((body['outage'] as { head: string }).head, '1000');
  assert.deepEqual(body['workers'], { wanted: 2, answering: 2, ready: 0 });
  assert.deepEqual([...statuses], ['ledgergate; hit; detail=memory; outage']);
  for (const node of nodes) await node.accept();
  await noticed(0);
  for (const node of nodes) node.fault = { kind: 'hang' };
  await noticed(1);

  // Over connections of their own again; and some while others wait.
  const replies = Array.from({ length: 8 }, async (_, index) => {
    await delay(index * 100);
    return timed(get(gateway.url + (index % 4 === 3 ? probeAt(400 + index) : probe)));
  });
  for (const { reply, ms } of await Promise.all(replies)) {
    assert.equal(reply.status, 503);
    stalls.judge(ms < 2_300, `503 after ${Math.round(ms)} ms`);
  }
});
