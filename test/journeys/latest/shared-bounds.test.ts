/** Bounds of staleness by plan and by override, with workers and with replicas: one state for each bound, everywhere. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request as send } from 'undici';
import { fakeNode } from '../../support/fake-node.ts';
import { probe } from '../../support/gateway.ts';
import { gatewayProcess, type ConfigSections } from '../../support/gateway-process.ts';
import { findViolations, type Observation } from '../../support/history.ts';
import { keysFile, planConfig, testKey } from '../../support/keys.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { watchStalls } from '../../support/stalls.ts';

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
  'three workers': { processes: 3, looksFactor: 1, skip: false },
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
  const workers = way === 'one process' ? 1 : 3;
  const { url } = await gateway({ workers });
  return Array.from({ length: workers }, () => url);
}
