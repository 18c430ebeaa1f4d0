/** States and versions that workers and replicas publish to each other. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request as send } from 'undici';
import { eventually, until } from '../../support/eventually.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { type ConfigSections, gatewayProcess } from '../../support/gateway-process.ts';
import { probe, testGateway, type TestGateway } from '../../support/gateway.ts';
import { findViolations, type Observation } from '../../support/history.ts';
import { keysFile, planConfig, testKey } from '../../support/keys.ts';
import { untilUp } from '../../support/redis-replica.ts';
import { noRedis, redisAt, type RedisServer, redisServer, redisTest } from '../../support/redis-server.ts';
import { watchStalls } from '../../support/stalls.ts';

// Bounds of staleness by plan and by override: one state for each bound, everywhere.

/** Clients with a bound each, by their plan or by the override of what they read. */
const clients = [
  { boundMs: 150, plan: 'quick', path: probe },
  { boundMs: 400, plan: 'slow', path: probe },
  { boundMs: 1_000, plan: 'none', path: '/accounts/0x1/module/coin' },
] as const;
const runMs = 2_000;
/** Another process learns of a look in a millisecond or two, on an idle machine. */
const newsMs = 100;

/** A read of one client over its connection to one process. */
interface Seen extends Observation {
  readonly connection: string;
  readonly boundMs: number;
}

const ways = {
  'one process': { processes: 1, looksFactor: 1, skip: false },
  'two workers': { processes: 2, looksFactor: 1, skip: false },
  // Each looks once a bound, since no clock is shared, and for a state of the other that its own node has not reported yet.
  'two replicas': { processes: 2, looksFactor: 3, skip: noRedis },
} as const;

for (const [way, { processes, looksFactor, skip }] of Object.entries(ways)) {
  test(`bounds of plans and overrides hold, and each costs the looks of one process: ${way}`, { skip }, async (t) => {
    const node = await fakeNode(t, { head: 1_000n, keepRequests: 1 });
    const keys = clients.map(({ plan }) => testKey(plan, { plan }));
    const { operations } = planConfig();
    const config = {
      upstream: { probeInterval: '1h', audit: 0 },
      latest: { maxStaleness: '0ms', overrides: [{ route: 'module', maxStaleness: '1s' }] },
      access: {
        keys: { file: keysFile(t, keys).path },
        plans: {
          none: { operations },
          quick: { operations, maxStaleness: '150ms' },
          slow: { operations, maxStaleness: '400ms' },
        },
      },
    };
    const urls = await start(t, way, (more) => gatewayProcess(t, { full: [node], config: { ...config, ...more } }));
    assert.equal(urls.length, processes);
    const heads: { readonly atMs: number; readonly head: bigint }[] = [];
    const ticking = setInterval(() => {
      node.clock.advance(1n);
      heads.push({ atMs: performance.now(), head: node.clock.head });
    }, 5);
    t.after(() => clearInterval(ticking));
    const history: Seen[] = [];

    // Workers take connections in turn: each client has one to each process, and reads over all of them at once.
    const readers = clients.flatMap((client, index) =>
      urls.map((url, process) => {
        const agent = new Agent({ connections: 1 });
        t.after(() => agent.destroy());
        const headers = { authorization: `Bearer ${keys[index]!.text}` };
        const connection = `${client.plan} ${process}`;
        return async (): Promise<void> => {
          const startMs = performance.now();
          const reply = await send(url + client.path, { dispatcher: agent, headers });
          assert.equal(reply.statusCode, 200, await reply.body.text());
          const version = BigInt(String(reply.headers['ledgergate-served-version']));
          const { plan, boundMs } = client;
          history.push({ client: plan, startMs, endMs: performance.now(), kind: 'read', version, connection, boundMs });
        };
      }),
    );
    for (const read of readers) await read();
    const stalls = watchStalls(t);
    const [looksBefore, readsBefore, startMs] = [node.requestsTo('ledgerInfo'), node.reads, performance.now()];
    const readOn = async (read: () => Promise<void>): Promise<void> => {
      for (; performance.now() < startMs + runMs; await sleep(10)) await read();
    };
    await Promise.all(readers.map(readOn));

    const ranMs = performance.now() - startMs;
    const looks = node.requestsTo('ledgerInfo') - looksBefore;
    const reads = node.reads - readsBefore;
    const states = clients.map(
      ({ plan }) =>
        Map.groupBy(
          history.filter(({ client }) => client === plan),
          ({ version }) => version,
        ).size,
    );
    t.diagnostic(
      `${history.length} reads; ${looks} looks; states by bound: ${states.join(', ')}; ${reads} reads of the node`,
    );
    const headAt = (ms: number): bigint => heads.findLast(({ atMs }) => atMs <= ms)?.head ?? 0n;
    assert.deepEqual(
      history.filter(({ startMs: sentMs, version, boundMs }) => version < headAt(sentMs - boundMs)),
      [],
    );
    const violations = findViolations(history, { placeOf: ({ connection }) => connection, newsMs });
    stalls.judge(violations.length === 0, `behind an earlier read of another process: ${violations.length}`);
    // A look begins after 98 % of its bound, and renews the others that are due.
    const usual = clients.reduce((sum, { boundMs }) => sum + ranMs / (0.98 * boundMs), 0);
    stalls.judge(looks <= 1.5 * looksFactor * usual + 5, `${looks} looks, ${usual} of one process`);
    for (const [index, { boundMs }] of clients.entries()) {
      // Without news of each other, every process would have states of its own.
      const most = (2 * looksFactor * ranMs) / boundMs + 3;
      stalls.judge(states[index]! <= most, `${states[index]} states by ${boundMs} ms, at most ${most}`);
    }
    // Each process reads at each state that is new to it, once.
    assert.ok(reads <= processes * states.reduce((sum, count) => sum + count, 0), `${reads} reads`);
  });
}

/** Starts the processes of a way; resolves with the address of each. */
async function start(
  t: TestContext,
  way: string,
  gateway: (more: ConfigSections) => ReturnType<typeof gatewayProcess>,
): Promise<readonly string[]> {
  if (way === 'two replicas') {
    const cache = { redis: { url: (await redisServer(t)).url } };
    const replicas = await Promise.all([gateway({ cache }), gateway({ cache })]);
    return replicas.map(({ url }) => url);
  }
  const workers = way === 'one process' ? 1 : 2;
  const { url } = await gateway({ workers });
  return Array.from({ length: workers }, () => url);
}

// Versions of replicas, over a real redis-server.

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

redisTest('a version that one replica served is the floor of another', async (t, server) => {
  const node = await fakeNode(t, { head: 1000n });
  const [a, b] = [await replica(t, { server, full: [node] }), await replica(t, { server, full: [node] })];
  assert.equal(await servedVersion(b), 1000n);
  node.clock.head = 1500n;
  // The snapshot of b is good for ten seconds more; a is asked for the newest state there is.
  assert.equal(await servedVersion(a, { 'ledgergate-max-staleness': '0' }), 1500n);
  await until(async () => (await servedVersion(b)) === 1500n);
});

redisTest(
  'a version that binds every client is published once, by the replica that served it first',
  async (t, server) => {
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

redisTest('a replica that starts without Redis receives versions once Redis is back', async (t, server) => {
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

redisTest('a replica that starts adopts the versions that were served before', async (t, server) => {
  const [ahead, behind] = [await fakeNode(t, { head: 1500n }), await fakeNode(t, { head: 1000n })];
  const a = await replica(t, { server, full: [ahead] });
  assert.equal(await servedVersion(a), 1500n);
  await until(async () => (await server.run((client) => client.zscore('lg:state:1.nogenesis', 'served'))) === '1500');
  await a.close();
  const b = await replica(t, { server, full: [behind] });
  const [version] = await Promise.all([servedVersion(b), sleep(30).then(() => (behind.clock.head = 1600n))]);
  assert.equal(version, 1600n);
});

redisTest('a published version above every local node costs one wait, never an answer', async (t, server) => {
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

redisTest('a version that one replica was refused is not asked for at that node by another', async (t, server) => {
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
});
