// Quotas as customers meet them: counted once over workers and replicas, over outages of Redis, kills, restarts, and the
// turn of the day by a given clock. LEDGERGATE_QUOTA_ROUNDS days of LEDGERGATE_QUOTA_SIZE make a long run of it, of replicas
// with three workers each; otherwise one has two, and one none.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request as send } from 'undici';
import { eventually, until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess, type GatewayProcess } from '../../support/gateway-process.ts';
import { fetchReply, type Reply } from '../../support/gateway.ts';
import { givenClock } from '../../support/given-clock.ts';
import { keysFile, testKey, type TestKey } from '../../support/keys.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { watchStalls } from '../../support/stalls.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { isAlive, metric } from '../../support/workers.ts';

const path = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=5';
const clients = 8;

/** A key of a plan, and the sections of a config that has both. */
function access(t: TestContext, plan: Readonly<Record<string, unknown>>, more: Readonly<Record<string, unknown>> = {}) {
  const key = testKey('wallet', { tenant: 'acme', plan: 'bought' });
  const file = keysFile(t, [key]).path;
  const headers = { authorization: `Bearer ${key.text}` };
  return {
    access: { keys: { file }, plans: { bought: plan }, ...more },
    /** One request over a connection of its own, so that every worker gets some; `undefined`: without an answer. */
    ask: ({ url }: GatewayProcess): Promise<Reply | undefined> =>
      fetchReply(url + path, { method: 'GET', headers }).catch(() => undefined),
  };
}

type Ask = ReturnType<typeof access>['ask'];

/** What became of requests. */
interface Tally {
  served: number;
  refused: number;
  unanswered: number;
}

/** Asks by several clients at once, in turns at each gateway, `most` times or until a refusal. */
async function load(
  ask: Ask,
  gateways: readonly GatewayProcess[],
  most: number,
  onAsked: (asked: number) => void = () => undefined,
): Promise<Tally> {
  const tally: Tally = { served: 0, refused: 0, unanswered: 0 };
  let asked = 0;
  const client = async (): Promise<void> => {
    while (asked < most && tally.refused === 0) {
      asked += 1;
      onAsked(asked);
      const reply = await ask(gateways[asked % gateways.length] as GatewayProcess);
      if (reply?.status === 200) tally.served += 1;
      else if (reply?.status === 429) tally.refused += 1;
      else tally.unanswered += 1;
    }
  };
  await Promise.all([...Array(clients).keys()].map(client));
  return tally;
}

test('without Redis, a quota is granted once, over kill -9 and a restart, and refusals name midnight', async (t) => {
  const node = await fakeNode(t, { head: 900n });
  const folder = temporaryFolder(t);
  const { ask, ...sections } = access(t, { quota: { day: 150, month: 200 } }, { usage: { path: folder } });
  // The primary of workers keeps the same file: see workers.test.ts. The turn of the day: limits/quotas.test.ts.
  const clock = givenClock(t, '2026-11-29T12:00:00Z');
  const gateway = await gatewayProcess(t, { full: [node], config: sections, env: clock.env });

  // Killed in the middle of the load.
  const first = await load(ask, [gateway], 100, (asked) => {
    if (asked === 90) process.kill(gateway.pid, 'SIGKILL');
  });
  assert.equal(first.refused, 0, 'refused early');
  await gateway.kill();
  await gateway.restart();
  const second = await load(ask, [gateway], 300);
  const served = first.served + second.served;
  t.diagnostic(`${served} of 150 served, ${first.unanswered} requests without an answer`);
  assert.ok(Math.abs(served - 150) <= clients, `${served} were served`);

  const refused = await ask(gateway);
  assert.equal(refused?.status, 429);
  assert.equal((JSON.parse(refused.text) as { error_code: string }).error_code, 'rate_limited');
  const retryS = Number(refused.headers['retry-after']);
  assert.ok(retryS > 11 * 3_600 && retryS <= 12 * 3_600, `Retry-After: ${retryS}`);
  assert.equal(refused.headers['ratelimit-policy'], '"day";q=150;w=86400, "month";q=200;w=2592000');
  assert.match(refused.headers['ratelimit'] ?? '', /^"day";r=0;t=\d+, "month";r=\d+;t=\d+$/);
  assert.ok(((await metric(gateway, 'ledgergate_limits_refusals_total{plan="bought",bound="day"}')) ?? 0) > 0);
  const usage = await fetchReply(`${gateway.operationsUrl}/admin/usage?key=wallet&format=csv`, { method: 'GET' });
  assert.match(usage.text, /,refused,/);
  assert.equal(await gateway.stop(), 0);
  assert.match(readFileSync(join(folder, 'quotas.jsonl'), 'utf8'), /"bought:tenant:acme",true,"requests","2026-11-29"/);
});

test(
  'two replicas grant a quota once: Redis killed and back, a replica killed, the day turned',
  { skip: noRedis },
  async (t) => {
    const rounds = Number(process.env['LEDGERGATE_QUOTA_ROUNDS'] ?? 0);
    const size = Number(process.env['LEDGERGATE_QUOTA_SIZE'] ?? 240);
    const node = await fakeNode(t, { head: 900n });
    const redis = await redisServer(t);
    const clock = givenClock(t, '2027-03-01T08:00:00Z');
    const { ask, ...sections } = access(t, { quota: { day: size } });
    // A time-out of a busy machine would be an outage of its own.
    const config = {
      ...sections,
      cache: { redis: { url: redis.url, timeout: '20s' } },
      log: { level: 'info' },
    };
    // Each worker counts over a connection of its own, as a replica without workers does.
    const replicaOf = (workers: number) =>
      gatewayProcess(t, { full: [node], config: { ...config, workers }, env: clock.env });
    const replicas = [await replicaOf(rounds === 0 ? 2 : 3), await replicaOf(rounds === 0 ? 1 : 3)] as const;
    const [first] = replicas;
    const fallbacks = async () => {
      const counts = replicas.map((one) => metric(one, 'ledgergate_limits_fallback_total{choice="local"}'));
      return (await Promise.all(counts)).reduce<number>((sum, count) => sum + (count ?? 0), 0);
    };
    const totalOf = async (day: string) =>
      Number(
        await redis.run((client) => client.hget(`lg:limits:{bought:tenant:acme}:${day.slice(0, 7)}:requests`, day)),
      );

    for (let round = 0; round < Math.max(1, rounds); round += 1) {
      const day = new Date(Date.UTC(2027, 2, 1 + round)).toISOString().slice(0, 10);
      clock.set(`${day}T08:00:00Z`);
      const all: Tally = { served: 0, refused: 0, unanswered: 0 };
      const add = (tally: Tally): void => {
        assert.equal(tally.refused, 0, `refused early: ${JSON.stringify(all)}, ${JSON.stringify(tally)}`);
        for (const what of ['served', 'unanswered'] as const) all[what] += tally[what];
      };
      add(await load(ask, replicas, size / 4));
      assert.deepEqual(all, { served: size / 4, refused: 0, unanswered: 0 });
      assert.equal(await totalOf(day), size / 4);

      // Redis is killed in the middle of the load, and comes back without its data.
      const fallen = await fallbacks();
      let killed: Promise<void> | undefined;
      add(
        await load(ask, replicas, size / 4, (asked) => {
          if (asked === size / 8) killed = redis.kill();
        }),
      );
      await killed;
      assert.ok((await fallbacks()) > fallen, 'Redis was away');
      await redis.start();
      // Silent accounts are reported, too. In flight at the kill: counted by Redis, or not.
      await eventually(
        () => totalOf(day),
        (total) => total >= size / 2 - clients && total <= size / 2 + clients,
      );
      await until(async () => {
        const before = await fallbacks();
        add(await load(ask, replicas, 6));
        return (await fallbacks()) === before;
      });

      // A replica is killed in the middle of the load, and restarted.
      const before = [first.pid, ...first.workers()];
      add(
        await load(ask, replicas, size / 8, (asked) => {
          if (asked === size / 16) process.kill(first.pid, 'SIGKILL');
        }),
      );
      await first.kill();
      await until(() => !before.some(isAlive));
      await first.restart();

      const last = await load(ask, replicas, size);
      all.served += last.served;
      t.diagnostic(`${day}: ${all.served} of ${size} served, ${all.unanswered} without an answer`);
      assert.ok(last.refused > 0);
      assert.ok(all.served <= size + clients, `${all.served} were served`);
      assert.ok(all.served + all.unanswered >= size - clients, `${all.served} were served`);
    }
  },
);

// Several tenants before one gateway: each gets its grant, whatever the others do.

interface Asked {
  readonly status: number;
  readonly tookMs: number;
}

let version = 0;

/** A read that no cache holds. */
async function ask({ url }: Pick<GatewayProcess, 'url'>, key: TestKey, agent: Agent): Promise<Asked> {
  version += 1;
  const path = `/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=${version}`;
  const startMs = performance.now();
  const { statusCode, body } = await send(url + path, {
    dispatcher: agent,
    headers: { authorization: `Bearer ${key.text}` },
  });
  await body.dump();
  return { status: statusCode, tookMs: performance.now() - startMs };
}

/** Asks `perSecond` times a second for `ms`, whatever becomes of it. */
async function loadSteadily(
  gateway: GatewayProcess,
  key: TestKey,
  perSecond: number,
  ms: number,
): Promise<readonly Asked[]> {
  const agent = new Agent({ connections: 64 });
  const asked: Promise<Asked>[] = [];
  const startMs = performance.now();
  while (performance.now() - startMs < ms) {
    const due = ((performance.now() - startMs) / 1_000) * perSecond;
    while (asked.length < due) asked.push(ask(gateway, key, agent));
    await sleep(5);
  }
  const answers = await Promise.all(asked);
  await agent.close();
  return answers;
}

function quantile(answers: readonly Asked[], part: number): number {
  const times = answers.map(({ tookMs }) => tookMs).sort((one, other) => one - other);
  return times[Math.floor(times.length * part)] ?? 0;
}

const p50 = (answers: readonly Asked[]): number => quantile(answers, 0.5);
const p99 = (answers: readonly Asked[]): number => quantile(answers, 0.99);

const share = (answers: readonly Asked[]): number =>
  answers.filter(({ status }) => status !== 200).length / answers.length;

test('a tenant at twenty times its plan takes nothing from five modest ones', async (t) => {
  const node = await fakeNode(t, { head: 1_000_000n });
  // With eight connections some 200 reads a second: half of what the greedy one asks for.
  node.faults.add({ kind: 'latency', ms: 40 });
  const keys = ['greedy', 'a', 'b', 'c', 'd', 'e'].map((name) => testKey(name, { tenant: name, plan: 'small' }));
  const [greedy, ...modest] = keys as [TestKey, ...TestKey[]];
  const { path: file } = keysFile(t, keys);
  const plans = { small: { window: '1s', requests: 20, concurrency: 10 } };
  const config = { access: { keys: { file }, plans }, upstream: { connections: 8 } };
  const gateway = await gatewayProcess(t, { full: [node], config });
  const modestly = async () => (await Promise.all(modest.map((key) => loadSteadily(gateway, key, 10, 2_000)))).flat();

  // The first requests of a process are its slowest.
  await loadSteadily(gateway, greedy, 10, 500);
  await sleep(1_100);
  const stalls = watchStalls(t);
  const alone = await modestly();
  const besideMs = performance.now();
  const [beside, greedily] = await Promise.all([modestly(), loadSteadily(gateway, greedy, 400, 2_000)]);
  const seconds = (performance.now() - besideMs) / 1_000;
  const admitted = greedily.filter(({ status }) => status === 200).length;
  t.diagnostic(
    `modest alone: p50 ${p50(alone).toFixed(1)} ms, p99 ${p99(alone).toFixed(1)} ms, ${(share(alone) * 100).toFixed(2)} % not served`,
  );
  t.diagnostic(
    `beside greedy: p50 ${p50(beside).toFixed(1)} ms, p99 ${p99(beside).toFixed(1)} ms, ${(share(beside) * 100).toFixed(2)} % not served`,
  );
  t.diagnostic(`greedy: ${admitted} of ${greedily.length} served, p99 ${p99(greedily).toFixed(1)} ms`);
  t.diagnostic(`this process stood still for ${stalls.longestMs.toFixed(0)} ms at most`);
  assert.ok(admitted <= 20 * (seconds + 1) + 20, `${admitted} of the greedy one were let in`);
  // Requests beyond the machine's capacity are refused for every tenant.
  const shed = (await metric(gateway, 'ledgergate_shed_requests_total{reason="event loop"}')) ?? NaN;
  assert.ok(shed >= 0, 'it is counted');
  // Nodes take 40 ms. Where the modest ones wait for half as long again all alone, or this process, which only asks, stands
  // still, the machine has other work, and with the greedy one beside them they run into their own plan.
  if (shed > 0 || p50(alone) > 60 || stalls.longestMs > 250) {
    t.diagnostic(
      `a busy machine: ${shed} requests were refused for it, half took ${p50(alone).toFixed(0)} ms and more, ` +
        `and this process stood still for ${stalls.longestMs.toFixed(0)} ms`,
    );
    return;
  }
  assert.equal(share(alone), 0);
  assert.equal(share(beside), 0);
  assert.ok(p50(beside) < p50(alone) + 200, `${p50(beside)} ms beside ${p50(alone)} ms alone`);
  // Test machines are noisy, and all clients share one process: a starved client waits for seconds.
  assert.ok(p99(beside) < p99(alone) + 1_000, `${p99(beside)} ms beside ${p99(alone)} ms alone`);
  assert.ok(admitted >= 30, `${admitted} of the greedy one were let in`);
  assert.ok(greedily.every(({ status }) => status === 200 || status === 429));
});
