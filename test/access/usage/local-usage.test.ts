/** Usage without Redis: of all processes, by hour and by day, kept over restarts. */
import assert from 'node:assert/strict';
import { appendFileSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { LocalUsage, type NamedSums, type PendingReport } from '../../../src/access/usage/usage-store.ts';
import { Usage } from '../../../src/access/usage/usage.ts';
import { Journal } from '../../../src/metrics/index.ts';
import { until } from '../../support/eventually.ts';
import { anonymousOf, hit, planOf, principalOf } from '../../support/limits.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const plan = planOf({ requests: 5 });
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
  const keys = 4_000;
  let number = 0;
  const addAll = async (): Promise<void> => {
    for (let key = 0; key < keys; key += 1) {
      await usage.add(report((number += 1), { subject: [`key-${key}`, `tenant-of-key-${key}`, 'free'] }));
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
    const [day] = await restored.readDays([`key-${key}`, `tenant-of-key-${key}`], '2026-11');
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
