/** Usage: of this process, in Redis, and of all replicas. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Usage } from '../../../src/access/usage/usage.ts';
import type { Store, StoreClient, StoreOutcome } from '../../../src/access/redis.ts';
import { LocalUsage, mergeRows } from '../../../src/access/usage/usage-store.ts';
import { RedisUsage } from '../../../src/access/usage/redis-usage.ts';
import type { RedisLink } from '../../../src/cache/redis/redis-link.ts';
import { anonymousOf, hit, planOf, principalOf, replica, type Replica, settle } from '../../support/limits.ts';
import { linkTo } from '../../support/redis-link.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';

const plan = planOf({ requests: 5 });
const key = principalOf(plan);
const lastDay = () => ({ fromMs: Date.now() - 86_400_000, toMs: Date.now() + 1, mostRows: 100 });

async function use(one: Replica): Promise<void> {
  for (const outcome of ['hit', 'collapsed', 'miss'] as const) {
    settle(await one.ask(key), { outcome });
  }
  settle(await one.ask(anonymousOf(plan, '192.0.2.7'), 'submit'), { outcome: 'error', status: 400, bytes: 7 });
}

const read = { key: 'wallet-a', tenant: 'acme', plan: 'free', operation: 'read' };
const expected = [
  { ...read, outcome: 'collapsed', requests: 1, cost: 1, bytes: 100, saved: 1 },
  { ...read, outcome: 'hit', requests: 1, cost: 1, bytes: 100, saved: 1 },
  { ...read, outcome: 'miss', requests: 1, cost: 2, bytes: 100, saved: 0 },
  {
    key: null,
    tenant: null,
    plan: 'free',
    operation: 'submit',
    outcome: 'error',
    requests: 1,
    cost: 10,
    bytes: 7,
    saved: 0,
  },
];

function withoutHour(rows: readonly object[]): object[] {
  return rows.map((row) => ({ ...row, hour: undefined })).map(({ hour: _, ...row }) => row);
}

function byName(rows: readonly object[]): object[] {
  return [...rows].sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
}

test('without Redis usage is that of this process; addresses are not kept', async (t) => {
  const one = await replica(t);
  await use(one);
  const { source, isComplete, rows } = await one.limits.usage.report(lastDay());
  assert.deepEqual({ source, isComplete }, { source: 'memory', isComplete: true });
  assert.deepEqual(byName(withoutHour(rows)), byName(expected));
  assert.match(rows[0]!.hour, /^\d{4}-\d\d-\d\dT\d\d:00:00Z$/);
  assert.equal(JSON.stringify(rows).includes('192.0.2.7'), false);
  assert.deepEqual((await one.limits.usage.report({ ...lastDay(), tenant: 'other' })).rows, []);
  assert.equal((await one.limits.usage.report({ ...lastDay(), key: 'wallet-a' })).rows.length, 3);
  assert.deepEqual((await one.limits.usage.report({ ...lastDay(), fromMs: 0, toMs: 86_400_000 })).rows, []);
});

test('a refusal counts as usage, and costs nothing', async (t) => {
  const one = await replica(t);
  for (let asked = 0; asked < 7; asked += 1) await one.ask(key);
  const { rows } = await one.limits.usage.report(lastDay());
  assert.deepEqual(withoutHour(rows), [{ ...read, outcome: 'refused', requests: 2, cost: 0, bytes: 0, saved: 0 }]);
  assert.equal(await one.metric('ledgergate_limits_refusals_total{plan="free",bound="requests"}'), 2);
  assert.equal(await one.metric('ledgergate_access_requests_total{plan="free",outcome="refused"}'), 2);
});

test('metrics are by plan, and by key only where that is wished', async (t) => {
  const [one, other] = [await replica(t), await replica(t, { metricsByKey: true })];
  await use(one);
  await use(other);
  assert.equal(await one.metric('ledgergate_access_cost_total{plan="free"}'), 14);
  assert.equal(await one.metric('ledgergate_access_key_cost_total{key="wallet-a"}'), 0);
  assert.equal(await other.metric('ledgergate_access_key_cost_total{key="wallet-a"}'), 4);
  assert.equal(await other.metric('ledgergate_access_key_requests_total{key="wallet-a",outcome="hit"}'), 1);
});

test('two replicas report into one, and their usage is there after they have closed', { skip: noRedis }, async (t) => {
  const { url } = await redisServer(t);
  const target = { kind: 'single', url } as const;
  const [one, other, third] = [
    await replica(t, { target }),
    await replica(t, { target }),
    await replica(t, { target }),
  ];
  const wide = { ...key, plan: planOf({}) };
  for (const each of [one, other]) {
    settle(await each.ask(wide), { outcome: 'miss', upstreamMs: 7 });
    await each.limits.close();
  }
  const { source, isComplete, rows } = await third.limits.usage.report(lastDay());
  assert.deepEqual({ source, isComplete }, { source: 'redis', isComplete: true });
  const total = mergeRows(rows.map((row) => Object.assign(row, { hour: '' })));
  assert.deepEqual(withoutHour(total), [{ ...read, outcome: 'miss', requests: 2, cost: 5.4, bytes: 200, saved: 0 }]);
});

test('while Redis is away no usage is lost, and the report is marked incomplete', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const one = await replica(t, { target: { kind: 'single', url: server.url } });
  await server.kill();
  await use(one);
  const away = await one.limits.usage.report(lastDay());
  assert.deepEqual([away.source, away.isComplete], ['memory', false]);
  assert.equal(away.rows.length, 4);
  await server.start();
  for (let tries = 0; tries < 500; tries += 1) {
    const { source, rows } = await one.limits.usage.report(lastDay());
    if (source === 'redis') {
      assert.deepEqual(byName(withoutHour(rows)), byName(expected));
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.fail('Redis came back');
});

/** Runs every command, and loses the answers that `loses` selects. */
function losing(link: RedisLink, loses: () => boolean): Store {
  const write = async <T>(key: string, command: (client: StoreClient) => Promise<T>): Promise<StoreOutcome<T>> => {
    const outcome = await link.write(key, command);
    return loses() ? { failure: 'timeout' } : outcome;
  };
  return { write, read: (key, command) => link.read(key, command) };
}

test('a report is idempotent: one whose answer is lost is added once', { skip: noRedis }, async (t) => {
  const { url } = await redisServer(t);
  const link = await linkTo(t, { url }, { timeoutMs: 2_000 });
  let writes = 0;
  // A report is three commands: now one's answer is lost, now another's.
  const isLost = () => [1, 6, 10].includes((writes += 1) % 11);
  const store = new RedisUsage(losing(link, isLost), 'lg');
  const usage = new Usage(store, () => undefined);
  t.after(() => usage.close());
  for (let round = 0; round < 10; round += 1) {
    usage.add(key, hit, 1);
    await usage.report(lastDay());
  }
  for (let tries = 0; tries < 10; tries += 1) await usage.report(lastDay());
  const reader = new RedisUsage(link, 'lg');
  const rows = (await reader.read(lastDay())) ?? [];
  assert.equal(
    rows.reduce((sum, { requests }) => sum + requests, 0),
    10,
  );
  assert.equal((await usage.ofHolder(key))?.month.requests, 10);
});

/** Runs every command but those of the keys that `refuses` selects. */
function refusing(link: RedisLink, refuses: (key: string) => boolean): Store {
  return {
    write: (key, command) => (refuses(key) ? Promise.resolve({ failure: 'closed' }) : link.write(key, command)),
    read: (key, command) => link.read(key, command),
  };
}

test('the days of a holder have every report, also one that came behind a later one', { skip: noRedis }, async (t) => {
  const { url } = await redisServer(t);
  const link = await linkTo(t, { url }, { timeoutMs: 2_000 });
  let nowMs = Date.parse('2026-11-28T13:59:59Z');
  // The index of each hour is at a server of its own in a cluster.
  let away = 'T13';
  const store = new RedisUsage(
    refusing(link, (name) => away !== '' && name.endsWith(away)),
    'lg',
  );
  const usage = new Usage(
    store,
    () => undefined,
    () => nowMs,
  );
  t.after(() => usage.close());
  const span = { fromMs: Date.parse('2026-11-28'), toMs: Date.parse('2026-11-29'), mostRows: 100 };
  usage.add(key, hit, 1);
  nowMs += 1_000;
  usage.add(key, hit, 1);
  await usage.report(span);
  away = 'T14';
  usage.add(key, hit, 1);
  await usage.report(span);
  away = '';
  const { isComplete, rows } = await usage.report(span);
  assert.deepEqual([isComplete, rows.map(({ requests }) => requests)], [true, [1, 2]]);
  const found = await usage.ofHolder(key);
  assert.deepEqual([found?.day.requests, found?.month.requests], [3, 3]);
});

test('Redis keeps the days of a month to the end of the next one', { skip: noRedis }, async (t) => {
  const { url } = await redisServer(t);
  const link = await linkTo(t, { url }, { timeoutMs: 2_000 });
  const first = Date.parse('2026-12-01');
  const store = new RedisUsage(link, 'lg');
  const usage = new Usage(
    store,
    () => undefined,
    () => first,
  );
  t.after(() => usage.close());
  usage.add(key, hit, 1);
  await usage.report({ fromMs: first, toMs: first + 1, mostRows: 100 });
  const [redis] = link.servers('all');
  const leftMs = await redis?.pttl('lg:usage:2026-12:["wallet-a","acme"]');
  assert.ok(Number(leftMs) > Date.parse('2027-02-01') - first, String(leftMs));
});

test('usage in memory is bounded', () => {
  let lost = 0;
  const usage = new Usage(new LocalUsage(), () => (lost += 1));
  for (let index = 0; index < 20_100; index += 1) usage.add(principalOf(plan, `key-${index}`), hit, 1);
  assert.equal(lost, 100);
  void usage.close();
});
