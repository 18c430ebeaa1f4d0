// Quotas as customers meet them: counted once over workers and replicas, over outages of Redis, kills, restarts, and the
// turn of the day by a given clock. LEDGERGATE_QUOTA_ROUNDS days of LEDGERGATE_QUOTA_SIZE make a long run of it, of replicas
// with three workers each; otherwise one has two, and one none.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { eventually, until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess, type GatewayProcess } from '../../support/gateway-process.ts';
import { fetchReply, patient, type Reply } from '../../support/gateway.ts';
import { givenClock } from '../../support/given-clock.ts';
import { bearer, keyedGateway } from '../../support/keyed-gateway.ts';
import { keysFile, planConfig, testKey, type TestKey } from '../../support/keys.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
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

// Their turns at a busy node: faults/overload.test.ts.
test('a tenant at twenty times its plan takes nothing from five modest ones at its own address', async (t) => {
  const keys = ['greedy', 'a', 'b', 'c', 'd', 'e'].map((name) => testKey(name, { tenant: name, plan: 'small' }));
  const [greedy, ...modest] = keys as [TestKey, ...TestKey[]];
  const plans = { small: planConfig({ requests: 20, windowMs: 3_600_000 }) };
  const { gateway } = await keyedGateway(t, keys, { plans, config: { upstream: patient } });
  let version = 0;
  // No cache holds the read.
  const ask = async (key: TestKey): Promise<number> => {
    version += 1;
    return (await gateway.get(`/accounts/0x1/module/coin?ledger_version=${version}`, bearer(key))).status;
  };
  const modestly = async (key: TestKey): Promise<readonly number[]> => {
    const statuses: number[] = [];
    while (statuses.length < 10) statuses.push(await ask(key));
    return statuses;
  };
  const [served, ...others] = await Promise.all([
    Promise.all(Array.from({ length: 400 }, () => ask(greedy))),
    ...modest.map(modestly),
  ]);

  assert.deepEqual(others, Array(5).fill(Array(10).fill(200)));
  assert.equal(served.filter((status) => status === 200).length, 20);
  assert.equal(served.filter((status) => status === 429).length, 380);
});
