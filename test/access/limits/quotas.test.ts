/** Quotas by calendar: what one process counts, and keeps. Days are compared as texts of dates. */
import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { Principal } from '../../../src/access/keys/principals.ts';
import { GatewayCounts } from '../../../src/access/limits/primary-counter.ts';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { fc } from '../../support/fast-check.ts';
import {
  admittedOf,
  anonymousOf,
  clockAt,
  isAdmitted,
  peersOf,
  planOf,
  principalOf,
  replica,
  type Replica,
  settle,
  type Ticket,
  withQuota,
} from '../../support/limits.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const hour = 3_600_000;

/** Asks one after another, unlike `admittedOf`. */
async function countAdmitted(one: Replica, principal: Principal, asked: number): Promise<number> {
  let admitted = 0;
  for (let at = 0; at < asked; at += 1) admitted += await admittedOf([one], principal, 1);
  return admitted;
}

function headersOf(ticket: Ticket): Record<string, string> {
  const flat = ticket instanceof GatewayError || isAdmitted(ticket) ? (ticket.headers ?? []) : [];
  const pairs = flat.flatMap((name, at) => (at % 2 === 0 ? [[name, flat[at + 1] ?? ''] as const] : []));
  return Object.fromEntries(pairs);
}

test('a quota is granted once a day and once a month, and refusals name the turn', async (t) => {
  const clock = clockAt('2026-11-28T22:00:00Z');
  const one = await replica(t, { now: clock.now });
  const principal = withQuota({ day: 3, month: 5 });

  assert.deepEqual(headersOf(await one.ask(principal)), {
    RateLimit: '"day";r=2;t=7200, "month";r=4;t=180000',
    'RateLimit-Policy': '"day";q=3;w=86400, "month";q=5;w=2592000',
  });
  assert.equal(await countAdmitted(one, principal, 10), 2);
  const refused = await one.ask(principal);
  assert.ok(refused instanceof GatewayError && refused.status === 429);
  assert.deepEqual(headersOf(refused), {
    RateLimit: '"day";r=0;t=7200, "month";r=2;t=180000',
    'RateLimit-Policy': '"day";q=3;w=86400, "month";q=5;w=2592000',
    'Retry-After': '7200',
  });
  assert.equal(await one.metric('ledgergate_limits_refusals_total{plan="free",bound="day"}'), 9);

  clock.set('2026-11-29T00:00:00Z');
  assert.equal(await countAdmitted(one, principal, 10), 2);
  assert.equal(headersOf(await one.ask(principal))['Retry-After'], String(2 * 86_400));
  assert.equal(await one.metric('ledgergate_limits_refusals_total{plan="free",bound="month"}'), 9);

  // December has a day more: the policy of the month says so.
  clock.set('2026-12-01T00:00:00Z');
  const next = headersOf(await one.ask(principal));
  assert.equal(next['RateLimit-Policy'], '"day";q=3;w=86400, "month";q=5;w=2678400');
  assert.equal(next['RateLimit'], '"day";r=2;t=86400, "month";r=4;t=2678400');
});

test('whatever the steps of the clock, each day and month holds its quota, and nobody is refused below it', async (t) => {
  const steps = fc.array(
    fc.record({ afterMs: fc.oneof(fc.nat(1_000), fc.nat(10 * hour), fc.nat(20 * 24 * hour)), asked: fc.nat(6) }),
    { maxLength: 40 },
  );
  await fc.assert(
    fc.asyncProperty(steps, async (given) => {
      const clock = clockAt('2027-01-30T00:00:00Z');
      const one = await replica(t, { now: clock.now });
      const admitted: string[] = [];
      const used = (prefix: string) => admitted.filter((at) => at.startsWith(prefix)).length;
      for (const { afterMs, asked } of given) {
        clock.advance(afterMs);
        const at = new Date(clock.now()).toISOString();
        for (let count = 0; count < asked; count += 1) {
          const hasRoom = used(at.slice(0, 10)) < 4 && used(at.slice(0, 7)) < 9;
          assert.equal((await countAdmitted(one, withQuota({ day: 4, month: 9 }), 1)) === 1, hasRoom, at);
          if (hasRoom) admitted.push(at);
        }
      }
    }),
    { numRuns: 50 },
  );
});

test('a clock that goes back a little does not grant a day twice; one that was wrong by years is followed', async (t) => {
  const clock = clockAt('2026-11-30T23:59:59Z');
  const one = await replica(t, { now: clock.now });
  const principal = withQuota({ day: 2 });
  assert.equal(await countAdmitted(one, principal, 5), 2);
  clock.set('2026-12-01T00:00:01Z');
  assert.equal(await countAdmitted(one, principal, 5), 2);
  clock.set('2026-11-30T23:59:58Z');
  assert.equal(await countAdmitted(one, principal, 5), 0);
  clock.set('2001-01-01T00:00:00Z');
  assert.equal(await countAdmitted(one, principal, 5), 2);
});

test('in the unit of cost, the least cost counts at admission and the rest at the end, after the turn as well', async (t) => {
  const clock = clockAt('2026-11-28T12:00:00Z');
  const one = await replica(t, { now: clock.now });
  const principal = withQuota({ day: 100, unit: 'cost' });
  const left = async () => (await one.limits.standing(principal))?.map(({ name, remaining }) => [name, remaining]);

  // 2 for a miss, 0.1 for each ms of a node: costs of `usualCosts`.
  settle(await one.ask(principal), { outcome: 'miss', upstreamMs: 500 });
  assert.deepEqual(await left(), [['day', 48]]);
  const spanning = await one.ask(principal);
  assert.deepEqual(await left(), [['day', 47]]);
  clock.set('2026-11-29T00:00:00Z');
  settle(spanning, { outcome: 'miss', upstreamMs: 1_200 });
  // 122 in all, of which 1 is of yesterday: overdrawn.
  assert.deepEqual(await left(), [['day', 0]]);
  assert.equal(await countAdmitted(one, principal, 1), 0);
  clock.set('2026-11-30T00:00:00Z');
  assert.equal(await countAdmitted(one, principal, 1), 1);
});

test('the standing charges nothing and has each bound, its limit and its span', async (t) => {
  const clock = clockAt('2026-02-28T23:00:00Z');
  const one = await replica(t, { now: clock.now });
  const plan = planOf({
    requests: 10,
    windowMs: 60_000,
    concurrency: 5,
    quota: { month: 100, unit: 'requests' },
    perAddress: { requests: 4, windowMs: 5_000 },
  });
  const principal = principalOf(plan);
  const ticket = await one.ask(principal, 'read', undefined, '192.0.2.1');
  settle(ticket);
  for (const _ of [1, 2]) {
    const standing = await one.limits.standing(principal, '192.0.2.1');
    assert.deepEqual(
      standing?.map(({ freeInMs: _, ...rest }) => rest),
      [
        { name: 'requests', limit: 10, windowMs: 60_000, remaining: 9 },
        { name: 'address', limit: 4, windowMs: 5_000, remaining: 3 },
        { name: 'month', limit: 100, windowMs: 28 * 24 * hour, endsAtMs: Date.parse('2026-03-01'), remaining: 99 },
      ],
    );
    assert.equal(standing?.at(-1)?.freeInMs, hour);
  }
  assert.deepEqual(
    (await one.limits.standing(principal, '192.0.2.2'))?.map(({ name, remaining }) => [name, remaining]),
    [
      ['requests', 9],
      ['address', 4],
      ['month', 99],
    ],
  );
  assert.deepEqual(await one.limits.standing(principalOf(planOf({ concurrency: 1 }))), []);
});

test('a refused quota does not wait in the queue of its plan', async (t) => {
  const clock = clockAt('2026-11-28T12:00:00Z');
  const one = await replica(t, { now: clock.now });
  const plan = planOf({ quota: { day: 1, unit: 'requests' }, waitMs: 60_000 });
  assert.ok(isAdmitted(await one.ask(principalOf(plan))));
  assert.ok((await one.ask(principalOf(plan))) instanceof GatewayError);
  assert.equal(one.limits.waiting, 0);
});

test('use is kept over a close and over a kill, and a torn line costs its own account a unit at most', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'quotas.jsonl');
  const clock = clockAt('2026-11-28T12:00:00Z');
  const principal = withQuota({ day: 10, month: 15 });

  const first = await replica(t, { folder, now: clock.now });
  assert.equal(await countAdmitted(first, principal, 4), 4);
  await first.limits.close();
  // Never closed: it is as good as killed once its turn is over.
  const second = await replica(t, { folder, now: clock.now });
  assert.equal(await countAdmitted(second, principal, 3), 3);
  await turn();
  const [torn] = readFileSync(file, 'utf8').split('\n');
  appendFileSync(file, String(torn).slice(0, 20));
  assert.equal(statSync(file).mode & 0o777, 0o600);

  const third = await replica(t, { folder, now: clock.now });
  assert.equal(await countAdmitted(third, principal, 10), 3, '10 in all');
  await third.limits.close();

  clock.set('2026-11-29T12:00:00Z');
  const fourth = await replica(t, { folder, now: clock.now });
  assert.equal(await countAdmitted(fourth, principal, 10), 5, '15 in the month');
  await fourth.limits.close();
  clock.set('2026-12-01T00:00:00Z');
  const fifth = await replica(t, { folder, now: clock.now });
  assert.equal(await countAdmitted(fifth, principal, 20), 10);
});

test('lines of other forms are ignored, and both units of one account are kept apart', async (t) => {
  const folder = temporaryFolder(t);
  const clock = clockAt('2026-11-28T12:00:00Z');
  const rows = [
    ['free:tenant:acme', true, 'requests', '2026-11-28', 2, '2026-11', 2],
    ['free:tenant:acme', true, 'cost', '2026-11-28', 9, '2026-11', 9],
    ['free:tenant:acme', true, 'requests', '2026-11-28', -1, '2026-11', 2],
    ['free:tenant:acme', true, 'requests', '2026-11-28', '8', '2026-11', 8],
    ['free:tenant:other', true, 'gas', '2026-11-28', 8, '2026-11', 8],
    { subject: 'free:tenant:acme' },
    null,
  ];
  writeFileSync(join(folder, 'quotas.jsonl'), `${rows.map((row) => JSON.stringify(row)).join('\n')}\n\u0000\u0000[`);
  const one = await replica(t, { folder, now: clock.now });
  assert.equal(await countAdmitted(one, withQuota({ day: 3 }), 5), 1);
  assert.equal(await countAdmitted(one, withQuota({ day: 10, unit: 'cost' }), 5), 1);
  assert.equal(await countAdmitted(one, withQuota({ day: 3 }, 'other'), 5), 3);
});

test('a disk that refuses writes is reported once, and its end; counts go on, and all of them are written then', async (t) => {
  const folder = temporaryFolder(t);
  const place = join(folder, 'below', 'quotas');
  const clock = clockAt('2026-11-28T12:00:00Z');
  const one = await replica(t, { folder: place, now: clock.now });
  const lines = (part: string) => one.log.filter(({ msg }) => String(msg).includes(part)).length;
  assert.equal(await countAdmitted(one, withQuota({ day: 5 }), 3), 3);
  await turn();
  assert.equal(lines('not kept on the disk'), 1, 'the folder above it is missing');
  assert.equal(await countAdmitted(one, withQuota({ day: 5 }), 9), 2);
  await turn();
  assert.equal(lines('not kept on the disk'), 1);

  mkdirSync(join(folder, 'below'));
  await one.limits.close();
  assert.equal(lines('kept on the disk again'), 1);
  const next = await replica(t, { folder: place, now: clock.now });
  assert.equal(await countAdmitted(next, withQuota({ day: 5 }), 9), 0);
});

test('any number of addresses takes bounded memory, and drops no key', async (t) => {
  const one = await replica(t);
  const plan = planOf({ quota: { month: 1, unit: 'requests' } });
  assert.equal(await countAdmitted(one, principalOf(plan), 2), 1);
  for (let at = 0; at < 20_000; at += 1) await one.ask(anonymousOf(plan, `10.0.${at >> 8}.${at & 255}`));
  assert.equal(await countAdmitted(one, principalOf(plan), 1), 0);
  assert.equal(await countAdmitted(one, anonymousOf(plan, '10.0.78.31'), 1), 0, 'the last one');
  assert.equal(await countAdmitted(one, anonymousOf(plan, '10.0.0.0'), 1), 1, 'the first one');
  assert.equal(await one.metric('ledgergate_limits_lost_total{what="quota"}'), 0);
});

test('workers are granted a quota once, over a restart as well, and what one counted alone is added once', async (t) => {
  const folder = temporaryFolder(t);
  const clock = clockAt('2026-11-28T12:00:00Z');
  const principal = withQuota({ day: 30 });
  const service = new GatewayCounts({ folder, now: clock.now });
  let isAway = false;
  const { limitService, usageStore } = peersOf(service, 1);
  const flaky: typeof limitService = {
    ...limitService,
    take: (request) => (isAway ? Promise.reject(new Error('no answer')) : limitService.take(request)),
    countAlone: (counted) => (isAway ? undefined : limitService.countAlone(counted)),
  };
  const [one, other] = [
    await replica(t, { peers: { limitService: flaky, usageStore }, processes: 2, now: clock.now }),
    await replica(t, { peers: peersOf(service, 2), processes: 2, now: clock.now }),
  ];
  assert.equal((await countAdmitted(one, principal, 5)) + (await countAdmitted(other, principal, 5)), 10);
  isAway = true;
  // The half of what was left when this worker last had an answer: 25. The first one may have been counted.
  assert.equal(await countAdmitted(one, principal, 20), 12);
  isAway = false;
  assert.equal(await countAdmitted(other, principal, 1), 1);
  const standing = async (of: Replica) => (await of.limits.standing(principal))?.[0]?.remaining;
  assert.equal(await standing(other), 19);
  service.close();

  const again = new GatewayCounts({ folder, now: clock.now });
  const later = await replica(t, { peers: peersOf(again, 1), processes: 2, now: clock.now });
  assert.equal(await standing(later), 19);
  assert.equal(await countAdmitted(later, principal, 30), 19);
  again.close();
});
