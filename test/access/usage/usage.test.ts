/** Usage: of this process, in Redis, and of all replicas. */
import assert from 'node:assert/strict';
import { appendFileSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { RedisClient, Store, StoreOutcome } from '../../../src/access/redis.ts';
import { RedisUsage } from '../../../src/access/usage/redis-usage.ts';
import { LocalUsage, mergeRows, type NamedSums, type PendingReport } from '../../../src/access/usage/usage-store.ts';
import { Usage } from '../../../src/access/usage/usage.ts';
import type { RedisLink } from '../../../src/cache/redis/redis-link.ts';
import { Journal } from '../../../src/metrics/index.ts';
import { eventually, until } from '../../support/eventually.ts';
import { anonymousOf, hit, planOf, principalOf, replica, type Replica, settle, sharing } from '../../support/limits.ts';
import { linkTo } from '../../support/redis-link.ts';
import { noRedis, redisServer, redisTest } from '../../support/redis-server.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

/** For tests that do not end it, each with names of its own. */
const server = noRedis === false ? await redisServer({ after }) : undefined;
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
  const [one, other, third] = await sharing(t, server!, 3);
  const wide = { ...key, plan: planOf({}) };
  for (const each of [one, other]) {
    settle(await each.ask(wide), { outcome: 'miss', upstreamMs: 7 });
    await each.limits.close();
  }
  const { source, isComplete, rows } = await third!.limits.usage.report(lastDay());
  assert.deepEqual({ source, isComplete }, { source: 'redis', isComplete: true });
  const total = mergeRows(rows.map((row) => Object.assign(row, { hour: '' })));
  assert.deepEqual(withoutHour(total), [{ ...read, outcome: 'miss', requests: 2, cost: 5.4, bytes: 200, saved: 0 }]);
});

redisTest('while Redis is away no usage is lost, and the report is marked incomplete', async (t, server) => {
  const [one] = await sharing(t, server, 1);
  await server.kill();
  await use(one);
  const away = await one.limits.usage.report(lastDay());
  assert.deepEqual([away.source, away.isComplete], ['memory', false]);
  assert.equal(away.rows.length, 4);
  await server.start();
  const back = await eventually(
    () => one.limits.usage.report(lastDay()),
    ({ source }) => source === 'redis',
  );
  assert.deepEqual(byName(withoutHour(back.rows)), byName(expected));
});

/** Runs every command, and loses the answers that `loses` selects. */
function losing(link: RedisLink, loses: () => boolean): Store {
  const write = async <T>(key: string, command: (client: RedisClient) => Promise<T>): Promise<StoreOutcome<T>> => {
    const outcome = await link.write(key, command);
    return loses() ? { failure: 'timeout' } : outcome;
  };
  return { write, read: (key, command) => link.read(key, command) };
}

test('a report is idempotent: one whose answer is lost is added once', { skip: noRedis }, async (t) => {
  const link = await linkTo(t, server!, { timeoutMs: 2_000 });
  let writes = 0;
  // A report is three commands: now one's answer is lost, now another's.
  const isLost = () => [1, 6, 10].includes((writes += 1) % 11);
  const store = new RedisUsage(losing(link, isLost), 'losing');
  const usage = new Usage(store, () => undefined);
  t.after(() => usage.close());
  for (let round = 0; round < 10; round += 1) {
    usage.add(key, hit, 1);
    await usage.report(lastDay());
  }
  for (let tries = 0; tries < 10; tries += 1) await usage.report(lastDay());
  const rows = (await new RedisUsage(link, 'losing').read(lastDay())) ?? [];
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
  const link = await linkTo(t, server!, { timeoutMs: 2_000 });
  let nowMs = Date.parse('2026-11-28T13:59:59Z');
  // The index of each hour is at a server of its own in a cluster.
  let away = 'T13';
  const store = new RedisUsage(
    refusing(link, (name) => away !== '' && name.endsWith(away)),
    'refusing',
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
  const link = await linkTo(t, server!, { timeoutMs: 2_000 });
  const first = Date.parse('2026-12-01');
  const store = new RedisUsage(link, 'days');
  const usage = new Usage(
    store,
    () => undefined,
    () => first,
  );
  t.after(() => usage.close());
  usage.add(key, hit, 1);
  await usage.report({ fromMs: first, toMs: first + 1, mostRows: 100 });
  const [redis] = link.servers('all');
  const leftMs = await redis?.pttl('days:usage:2026-12:["wallet-a","acme"]');
  assert.ok(Number(leftMs) > Date.parse('2027-02-01') - first, String(leftMs));
});

test('usage in memory is bounded', () => {
  let lost = 0;
  const usage = new Usage(new LocalUsage(), () => (lost += 1));
  for (let index = 0; index < 20_100; index += 1) usage.add(principalOf(plan, `key-${index}`), hit, 1);
  assert.equal(lost, 100);
  void usage.close();
});

// Usage without Redis: of all processes, by hour and by day, kept over restarts.

const lost = () => assert.fail('usage was dropped');
const fileOf = (folder: string) => join(folder, 'usage.jsonl');

function report(number: number, more: Partial<PendingReport> = {}): PendingReport {
  const sums: NamedSums[] = [['read|hit', { requests: 2, cost: 2.5, bytes: 100, saved: 2 }]];
  return { hour: '2026-11-28T14', subject: ['wallet-a', 'acme', 'free'], sums, process: 'one', number, ...more };
}

/** A clock in 2026-11-28T14. */
const now = () => Date.UTC(2026, 10, 28, 14, 30);
const query = { fromMs: Date.UTC(2026, 10, 28), toMs: Date.UTC(2026, 10, 29), mostRows: 100 };
const holder = ['wallet-a', 'acme'] as const;

test('a repeated report counts once, whichever process sent it', async () => {
  const usage = new LocalUsage({ now });

  for (const one of [report(1), report(1), report(2), report(1, { process: 'other' }), report(1)]) {
    assert.equal(await usage.add(one), true);
  }

  assert.deepEqual(
    (await usage.read(query)).map(({ requests, cost, bytes, saved }) => [requests, cost, bytes, saved]),
    [[6, 7.5, 300, 6]],
  );
  assert.deepEqual(await usage.readDays(holder, '2026-11'), [
    { day: '2026-11-28', sums: [['hit', { requests: 6, cost: 7.5, bytes: 300, saved: 6 }]] },
  ]);
});

test('days are of a key and tenant, whatever the plan; requests without a key have none', async () => {
  const usage = new LocalUsage({ now });
  await usage.add(report(1));
  await usage.add(report(2, { subject: ['wallet-a', 'acme', 'paid'] }));
  await usage.add(report(3, { subject: ['wallet-a', 'other', 'free'] }));
  await usage.add(report(4, { subject: ['wallet-b', 'acme', 'free'] }));
  await usage.add(report(5, { subject: [null, null, 'free'] }));

  const [day] = await usage.readDays(holder, '2026-11');

  assert.equal(day?.sums[0]?.[1].requests, 4);
  assert.equal((await usage.read(query)).length, 5);
});

test('a restart loses nothing, of a killed process neither; a torn last line is ignored', async (t) => {
  const folder = join(temporaryFolder(t), 'usage');
  const first = new LocalUsage({ folder, now }, lost);
  await first.add(report(1));
  await first.add(report(2, { hour: '2026-11-27T23' }));
  // Not closed: the lines are written at the end of the turn.
  await until(() => existsSync(fileOf(folder)) && readFileSync(fileOf(folder), 'utf8').split('\n').length > 4);
  appendFileSync(fileOf(folder), '["2026-11-28",["wallet-a","acme"],[["hit",9');

  const second = new LocalUsage({ folder, now }, lost);
  await second.add(report(1, { process: 'later' }));
  second.close();
  const third = new LocalUsage({ folder, now }, lost);

  assert.deepEqual(
    (await third.readDays(holder, '2026-11')).map(({ day, sums }) => [day, sums[0]?.[1].requests]),
    [
      ['2026-11-27', 2],
      ['2026-11-28', 4],
    ],
  );
  assert.equal(
    (await third.read({ ...query, fromMs: 0 })).reduce((sum, { requests }) => sum + requests, 0),
    6,
  );
  assert.equal(statSync(fileOf(folder)).mode & 0o777, 0o600);
});

test('lines of another form are ignored', async (t) => {
  const folder = temporaryFolder(t);
  const lines = [
    'null',
    '[]',
    '{"a":1}',
    '["2026-11-28",["a"],[]]',
    '["x",["wallet-a","acme"],[]]',
    '\u0000',
    '[1,2,3]',
  ];
  const torn = '["2026-11-28",["wallet-a","acme"],[["hit","1",2,3,4]]]';
  const whole = '["2026-11-28",["wallet-a","acme"],[["hit",1,2,3,4]]]';
  writeFileSync(fileOf(folder), [...lines, torn, whole, ...lines].join('\n'));

  const usage = new LocalUsage({ folder, now });

  assert.deepEqual(await usage.readDays(holder, '2026-11'), [
    { day: '2026-11-28', sums: [['hit', { requests: 1, cost: 2, bytes: 3, saved: 4 }]] },
  ]);
});

test('a folder that cannot be written is reported once, and once when it can again; nothing is lost', async (t) => {
  const above = temporaryFolder(t);
  const folder = join(above, 'gone', 'usage');
  const troubles: unknown[] = [];
  const note = ({ reason }: { readonly reason?: unknown }): void => void troubles.push(reason);
  const journal = new Journal({ debug: note, info: note, warn: note, error: note });
  const usage = new LocalUsage({ folder, now, journal }, lost);
  await usage.add(report(1));
  await until(() => troubles.length === 1);
  await usage.add(report(2));

  mkdirSync(join(above, 'gone'));
  let number = 2;
  await until(async () => {
    await usage.add(report((number += 1)));
    return troubles.length === 2;
  }, 50);
  usage.close();

  assert.deepEqual(troubles, ['ENOENT', undefined]);
  const [day] = await new LocalUsage({ folder, now }).readDays(holder, '2026-11');
  assert.equal(day?.sums[0]?.[1].requests, 2 * number);
});

test('while a folder cannot be written, usage that is dropped from memory takes no room and gets no line', async (t) => {
  const above = temporaryFolder(t);
  const folder = join(above, 'gone', 'usage');
  let nowMs = now();
  const usage = new LocalUsage({ folder, now: () => nowMs });
  const keys = 50;
  // Ten days of 1,200 sums of hours each, of which memory keeps two.
  for (let number = 1; number <= 10 * 24; number += 1) {
    const hour = new Date(nowMs).toISOString().slice(0, 13);
    for (let key = 0; key < keys; key += 1) {
      await usage.add(report(number, { hour, subject: [`key-${key}`, 'acme', 'free'] }));
    }
    nowMs += 3_600_000;
  }

  mkdirSync(join(above, 'gone'));
  usage.close();

  const hours = readFileSync(fileOf(folder), 'utf8')
    .split('\n')
    .map((line) => line.slice(2, 15));
  const sumsOfHours = hours.filter((hour) => hour.includes('T'));
  assert.ok(sumsOfHours.length < 3 * 48 * keys, `${sumsOfHours.length} lines`);
  assert.equal(sumsOfHours.includes('2026-11-28T14'), false);
  assert.equal(hours.filter((period) => period.startsWith('2026-12-08T13')).length, keys);
});

test('a file that has grown is written anew while reports come, and loses none', async (t) => {
  const folder = temporaryFolder(t);
  const usage = new LocalUsage({ folder, now }, lost);
  const keys = 300;
  const tenant = 'x'.repeat(1_300);
  let number = 0;
  const addAll = async (): Promise<void> => {
    for (let key = 0; key < keys; key += 1) {
      await usage.add(report((number += 1), { subject: [`key-${key}`, tenant, 'free'] }));
    }
  };
  let rounds = 0;
  let largest = 0;
  let isRenewed = false;
  // More than 16 MiB of lines, of which less than 1 MiB is needed. Bounded by rounds: a busy machine takes its time.
  for (; !isRenewed && rounds < 100; rounds += 1) {
    await addAll();
    await nextTurn();
    const size = existsSync(fileOf(folder)) ? statSync(fileOf(folder)).size : 0;
    isRenewed = size < largest;
    largest = Math.max(largest, size);
  }
  assert.ok(isRenewed);
  await addAll();
  rounds += 1;
  usage.close();

  const restored = new LocalUsage({ folder, now }, lost);
  for (const key of [0, 1, keys - 1]) {
    const [day] = await restored.readDays([`key-${key}`, tenant], '2026-11');
    assert.equal(day?.sums[0]?.[1].requests, 2 * rounds);
  }
});

test('the turn of day and month: each day has its own sums, and days of before the last month go', async (t) => {
  const folder = temporaryFolder(t);
  let nowMs = Date.UTC(2026, 10, 30, 23, 59);
  const store = new LocalUsage({ folder, now: () => nowMs }, lost);
  const usage = new Usage(store, lost, () => nowMs);
  t.after(() => usage.close());
  const key = principalOf(plan);
  const used = async () => {
    // Reports what is pending.
    await usage.report({ fromMs: 0, toMs: nowMs + 1, mostRows: 1 });
    const of = await usage.ofHolder(key);
    return [of?.day, of?.month, of?.lastMonth].map((one) => [one?.period, one?.requests, one?.bytes, one?.cost]);
  };

  usage.add(key, hit, 1);
  usage.add(key, { ...hit, outcome: 'miss' }, 2.5);
  usage.addRefusal(key, 'read');
  usage.add(anonymousOf(plan, '192.0.2.7'), hit, 1);
  assert.deepEqual(await used(), [
    ['2026-11-30', 3, 200, 3.5],
    ['2026-11', 3, 200, 3.5],
    ['2026-10', 0, 0, 0],
  ]);
  nowMs = Date.UTC(2026, 11, 1, 0, 0);
  usage.add(key, hit, 1);
  assert.deepEqual(await used(), [
    ['2026-12-01', 1, 100, 1],
    ['2026-12', 1, 100, 1],
    ['2026-11', 3, 200, 3.5],
  ]);
  nowMs = Date.UTC(2027, 0, 1, 0, 0);
  usage.add(key, hit, 1);
  assert.deepEqual((await used())[2], ['2026-12', 1, 100, 1]);
  assert.deepEqual(await store.readDays(holder, '2026-11'), []);
});

test('outcomes of a key are apart, and days without a request are left out', async (t) => {
  const usage = new Usage(new LocalUsage(), lost);
  t.after(() => usage.close());
  const key = principalOf(plan);
  usage.add(key, hit, 1);
  usage.add(key, { ...hit, operation: 'view' }, 1);
  usage.add(key, { ...hit, outcome: 'error', bytes: 7 }, 1);
  usage.addRefusal(key, 'read');
  await usage.report({ fromMs: 0, toMs: Date.now(), mostRows: 1 });

  const { day, days } = (await usage.ofHolder(key)) ?? assert.fail('the store answers');

  assert.deepEqual(day.outcomes, {
    hit: { requests: 2, bytes: 200, cost: 2 },
    error: { requests: 1, bytes: 7, cost: 1 },
    refused: { requests: 1, bytes: 0, cost: 0 },
  });
  assert.deepEqual(days, [day]);
  assert.equal(await usage.ofHolder(anonymousOf(plan, '192.0.2.7')), undefined);
});
