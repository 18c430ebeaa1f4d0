/** Quotas that replicas share over Redis: while it is there, while it is away, and once it has lost its data. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Principal } from '../../../src/access/keys/principals.ts';
import type { Charge } from '../../../src/access/limits/counter.ts';
import { Quotas } from '../../../src/access/limits/quotas.ts';
import { RedisCounter } from '../../../src/access/limits/redis-counter.ts';
import { eventually, until } from '../../support/eventually.ts';
import { fc } from '../../support/fast-check.ts';
import {
  admittedOf,
  clockAt,
  isAdmitted,
  planOf,
  principalOf,
  replica,
  type Replica,
  settle,
  sharing,
  withQuota,
} from '../../support/limits.ts';
import { linkTo } from '../../support/redis-link.ts';
import { noRedis, type RedisServer, redisTest } from '../../support/redis-server.ts';
import { redisCluster } from '../../support/redis-topology.ts';

/** A busy machine is no Redis that is away. */
function replicas(t: TestContext, server: RedisServer, count: number, now?: () => number) {
  return sharing(t, server, count, { timeoutMs: 20_000, ...(now && { now }) });
}

const fallbacks = (one: Replica) => one.metric('ledgergate_limits_fallback_total{choice="local"}');
const has = (text: string, { log }: Replica, from = 0) => log.slice(from).some(({ msg }) => String(msg).includes(text));
const isShared = (one: Replica, from?: number) => has('counted in Redis again', one, from);
const isAlone = (one: Replica, from?: number) => has('not counted in Redis', one, from);
const leftAt = async (one: Replica, principal: Principal) => (await one.limits.standing(principal))?.[0]?.remaining;

/** The fields of an account's hash that are totals, in this month. */
async function totalsOf(server: RedisServer, subject: string): Promise<readonly string[]> {
  const name = `lg:limits:{${subject}}:${new Date().toISOString().slice(0, 7)}:requests`;
  const fields = await server.run((client) => client.hgetall(name));
  return Object.entries(fields).flatMap(([field, total]) => (/^\d{4}-\d\d(-\d\d)?$/.test(field) ? [total] : []));
}

redisTest('replicas grant a quota once, and Redis forgets it days after its month', async (t, server) => {
  const clock = clockAt('2026-11-30T23:00:00Z');
  const all = await replicas(t, server, 3, clock.now);
  const principal = withQuota({ day: 100, month: 150 });

  assert.equal(await admittedOf(all, principal, 60), 60);
  assert.equal(await admittedOf(all, principal, 60), 40);
  const name = 'lg:limits:{free:tenant:acme}:2026-11:requests';
  const { epoch: _epoch, ...totals } = await server.run((client) => client.hgetall(name));
  assert.deepEqual(totals, { '2026-11-30': '100', '2026-11': '100' });
  const leftMs = await server.run((client) => client.pttl(name));
  assert.ok(leftMs > 5 * 86_400_000 && leftMs <= 5 * 86_400_000 + 3_600_000, String(leftMs));

  clock.set('2026-12-01T00:00:00Z');
  assert.equal(await admittedOf(all, principal, 150), 100);
  clock.set('2026-12-02T00:00:00Z');
  assert.equal(await admittedOf(all, principal, 150), 50, 'the month is used up');
  for (const one of all) assert.equal(await fallbacks(one), 0);
});

redisTest('however often Redis loses its data, a quota is exact once each replica has looked', async (t, server) => {
  const all = await replicas(t, server, 3);
  const ask = fc.record({ at: fc.nat(2) });
  const lose = fc.record({ first: fc.nat(2) });
  const steps = fc.array(fc.oneof({ weight: 6, arbitrary: ask }, { weight: 1, arbitrary: lose }), {
    minLength: 20,
    maxLength: 60,
  });
  let tenant = 0;
  await fc.assert(
    fc.asyncProperty(steps, async (given) => {
      tenant += 1;
      const principal = withQuota({ day: 20 }, `tenant-${tenant}`);
      let used = 0;
      for (const step of given) {
        if ('at' in step) {
          assert.equal(isAdmitted(await all[step.at]!.ask(principal)), used < 20, `at ${used}`);
          used = Math.min(20, used + 1);
        } else {
          await server.run((client) => client.flushall());
          // In any order: the one that knows most may come last.
          for (const after of [0, 1, 2]) await leftAt(all[(step.first + after) % 3]!, principal);
        }
      }
    }),
    { numRuns: 20 },
  );
});

redisTest('a restarted Redis without data gets the totals of silent accounts, too', async (t, server) => {
  const [one] = await replicas(t, server, 1);
  const silent = withQuota({ month: 10 }, 'silent');
  assert.equal(await admittedOf([one], silent, 7), 7);
  await server.kill();
  await until(() => isAlone(one));
  await server.start();
  await until(() => isShared(one));
  // Without a request of the tenant, at another replica.
  const [fresh] = await replicas(t, server, 1);
  await until(async () => (await leftAt(fresh, silent)) === 3);
  assert.equal(await admittedOf([fresh], silent, 10), 3);
});

redisTest('an emptied Redis gets the totals of silent accounts once one of them is asked for', async (t, server) => {
  const [one] = await replicas(t, server, 1);
  const [silent, asking] = [withQuota({ month: 10 }, 'silent'), withQuota({ month: 10 }, 'asking')];
  assert.equal(await admittedOf([one], silent, 7), 7);
  assert.equal(await admittedOf([one], asking, 1), 1);
  await server.run((client) => client.flushall());
  assert.equal(await admittedOf([one], asking, 1), 1);
  await eventually(
    () => totalsOf(server, 'free:tenant:silent'),
    (totals) => totals.length === 2 && totals.every((total) => total === '7'),
  );
  assert.deepEqual(await totalsOf(server, 'free:tenant:asking'), ['2', '2']);
});

redisTest('what replicas admit while Redis is away counts once, and each grants what was left', async (t, server) => {
  const all = await replicas(t, server, 2);
  const [one, other] = all;
  const principal = withQuota({ day: 100 });
  assert.equal(await admittedOf([one], principal, 20), 20);
  assert.equal(await admittedOf([other], principal, 20), 20);
  await server.kill();
  await until(() => isAlone(one) && isAlone(other));

  // It knows of 20 as of its last answer, the other one of 40.
  assert.equal(await admittedOf([one], principal, 10), 10);
  assert.equal(await admittedOf([other], principal, 200), 60);
  await server.start();
  await until(() => isShared(one) && isShared(other));
  // 110 of 100 are used, as the two know together.
  await eventually(
    () => totalsOf(server, 'free:tenant:acme'),
    (totals) => totals.length === 2 && totals.every((total) => total === '110'),
  );
  assert.equal(await admittedOf(all, principal, 50), 0);
});

redisTest('a report without an answer is repeated, and adds once', async (t, server) => {
  const link = await linkTo(t, server, { timeoutMs: 100 });
  const quotas = new Quotas();
  const counter = new RedisCounter(link, 'lg', quotas, () => undefined);
  t.after(() => counter.close());
  const quota = { day: 1_000, unit: 'requests' } as const;
  const charge: Charge = { subject: 'a', hasKey: true, bounds: { windowMs: 1_000, quota }, cost: 1 };
  quotas.add(quotas.useOf(charge, 'requests'), 5);
  server.pause();
  assert.equal(await counter.take(charge), 'unanswered');
  server.resume();
  // The server runs what it has read; the repeated report finds its part counted.
  await until(async () => (await totalsOf(server, 'a')).includes('6'));
  for (const total of ['7', '8', '9']) {
    await eventually(
      () => counter.take(charge),
      (taken) => typeof taken !== 'string' && taken.count.isAdmitted,
    );
    assert.deepEqual(await totalsOf(server, 'a'), [total, total]);
  }
});

redisTest('in the unit of cost, replicas see what ended requests came to', async (t, server) => {
  const all = await replicas(t, server, 2);
  const [one, other] = all;
  const principal = withQuota({ day: 100, unit: 'cost' });
  // 2 for a miss and 0.1 for each ms of a node: 52.05, of which 1 is counted at admission.
  settle(await one.ask(principal), { outcome: 'miss', upstreamMs: 500.5 });
  await until(async () => (await leftAt(other, principal)) === 47);
  settle(await other.ask(principal), { outcome: 'miss', upstreamMs: 1_000 });
  await until(async () => (await leftAt(one, principal)) === 0);
  assert.equal(await admittedOf(all, principal, 4), 0);
});

redisTest('an address within a key is bounded at all replicas, and its refusals count nothing', async (t, server) => {
  const [one, other] = await replicas(t, server, 2);
  const plan = planOf({
    windowMs: 60_000,
    requests: 50,
    quota: { day: 20, unit: 'requests' },
    perAddress: { requests: 4, windowMs: 60_000 },
  });
  const principal = principalOf(plan);
  const ask = (at: Replica, address: string) => at.ask(principal, 'read', undefined, address);
  for (const at of [one, other, one, other]) assert.ok(isAdmitted(await ask(at, '192.0.2.1')));
  for (let asked = 0; asked < 30; asked += 1) assert.ok(!isAdmitted(await ask(one, '192.0.2.1')));
  assert.equal(await one.metric('ledgergate_limits_refusals_total{plan="free",bound="address"}'), 30);
  assert.ok(isAdmitted(await ask(other, '2001:db8::/64')));
  const standing = await one.limits.standing(principal, '192.0.2.1');
  assert.deepEqual(
    standing?.map(({ name, limit, remaining }) => [name, limit, remaining]),
    [
      ['requests', 50, 45],
      ['address', 4, 0],
      ['day', 20, 15],
    ],
  );
});

test('a cluster counts as one server does', { skip: noRedis }, async (t) => {
  const { target } = await redisCluster(t);
  const all = [await replica(t, { target, timeoutMs: 20_000 }), await replica(t, { target, timeoutMs: 20_000 })];
  const plan = planOf({
    requests: 1_000,
    burst: 1_000,
    concurrency: 1_000,
    cost: 10_000,
    quota: { day: 40, unit: 'requests' },
    perAddress: { requests: 30, windowMs: 3_600_000 },
  });
  const principals = ['a', 'b', 'c', 'd'].map((tenant) => principalOf(plan, 'key', tenant));
  // A server gets its connection with its first command; those that come while it connects are counted here.
  for (const one of all) {
    for (const principal of principals) await one.limits.standing(principal);
    await until(async () => (await one.metric('ledgergate_access_redis_up')) === 1);
  }
  for (const principal of principals) {
    const ask = async (address: string) => {
      const asked = [...Array(60).keys()].map((at) => all[at % 2]!.ask(principal, 'read', undefined, address));
      const admitted = (await Promise.all(asked)).filter(isAdmitted);
      for (const ticket of admitted) settle(ticket, { outcome: 'miss', upstreamMs: 1 });
      return admitted.length;
    };
    assert.deepEqual([await ask('192.0.2.1'), await ask('192.0.2.2')], [30, 10], principal.tenant);
  }
  for (const one of all) {
    assert.equal(await fallbacks(one), 0);
    assert.equal(await one.metric('ledgergate_limits_lost_total{what="settlement"}'), 0);
  }
});

redisTest('refuse: a quota is exact over an outage', async (t, server) => {
  const all = await sharing(t, server, 2, { config: { whenRedisIsDown: 'refuse' }, timeoutMs: 20_000 });
  const principal = withQuota({ day: 50 });
  assert.equal(await admittedOf(all, principal, 30), 30);
  await server.kill();
  await until(() => all.every((one) => isAlone(one)));
  assert.equal(await admittedOf(all, principal, 30), 0);
  assert.equal(await leftAt(all[0], principal), undefined, 'the standing cannot be read');
  await server.start();
  await until(() => all.every((one) => isShared(one)));
  // As the two know together.
  await until(async () => (await totalsOf(server, 'free:tenant:acme')).join() === '30,30');
  assert.equal(await admittedOf(all, principal, 60), 20);
});
