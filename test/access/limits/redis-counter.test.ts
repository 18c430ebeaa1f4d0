/** Replicas that share a Redis grant together what the plan grants. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Charge, Counted } from '../../../src/access/limits/counter.ts';
import { Quotas } from '../../../src/access/limits/quotas.ts';
import { RedisCounter } from '../../../src/access/limits/redis-counter.ts';
import type { Store } from '../../../src/access/redis.ts';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { eventually, until } from '../../support/eventually.ts';
import { isAdmitted, planOf, principalOf, type Replica, settle, sharing } from '../../support/limits.ts';
import { linkTo } from '../../support/redis-link.ts';
import { noRedis, redisServer, redisTest } from '../../support/redis-server.ts';
import { watchStalls } from '../../support/stalls.ts';

/** Numbers from 0 to 1 that a seed decides. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const counterOf = (link: Store, leaseMs: number) =>
  new RedisCounter(link, 'lg', new Quotas(), () => undefined, leaseMs);

function isCountedIn(taken: Counted | string): boolean {
  return typeof taken !== 'string' && taken.count.isAdmitted;
}

/** Asks in waves of any size at any replica; gives how many were let in. */
async function hammer(replicas: readonly Replica[], count: number, seed: number, plan = planOf({ requests: 100 })) {
  const random = randomOf(seed);
  const tickets: Promise<boolean>[] = [];
  for (let asked = 0; asked < count; asked += 1) {
    const one = replicas[Math.floor(random() * replicas.length)]!;
    const ask = async () => {
      const ticket = await one.ask(principalOf(plan, `key-${seed}`, `tenant-${seed}`));
      if (!isAdmitted(ticket)) return false;
      await sleep(random() * 5);
      settle(ticket);
      return true;
    };
    tickets.push(ask());
    if (random() < 0.05) await Promise.all(tickets);
    else if (random() < 0.1) await sleep(1);
  }
  return (await Promise.all(tickets)).filter(Boolean).length;
}

redisTest('two replicas that share a Redis are one to each plan', async (t, server) => {
  const [one, other] = await sharing(t, server, 2);
  const replicas = [one, other];

  await t.test('100 requests per 10 s are let through exactly, in any order', async () => {
    for (const seed of [1, 2, 3]) {
      const startMs = performance.now();
      const admitted = await hammer(replicas, 300, seed);
      assert.ok(performance.now() - startMs < 10_000, 'within one window');
      assert.equal(admitted, 100, `seed ${seed}`);
    }
  });

  await t.test('over many windows no span of time holds more than the plan', async () => {
    const principal = principalOf(planOf({ windowMs: 1_000, requests: 30 }), 'a', 'many windows');
    // When it was asked and when it was known: it was let in at some time in between.
    const admitted: { readonly fromMs: number; readonly toMs: number }[] = [];
    const client = async (at: Replica): Promise<void> => {
      // Two windows and more, on any machine.
      while (admitted.length < 70) {
        const fromMs = performance.now();
        if (isAdmitted(await at.ask(principal))) admitted.push({ fromMs, toMs: performance.now() });
        else await sleep(5);
      }
    };
    await Promise.all([client(one), client(other)]);
    for (const { fromMs } of admitted) {
      const surely = admitted.filter((it) => it.fromMs >= fromMs && it.toMs <= fromMs + 999);
      assert.ok(surely.length <= 30, `${surely.length} within a second`);
    }
  });

  await t.test('a request over the burst is admitted when Redis has room, and not before', async (st) => {
    const stalls = watchStalls(st);
    const burst = principalOf(planOf({ burst: 3 }), 'a', 'burst');
    const startMs = performance.now();
    const tickets = [await one.ask(burst), await other.ask(burst), await one.ask(burst), await other.ask(burst)];
    assert.deepEqual(tickets.map(isAdmitted), [true, true, true, false]);
    assert.match(
      tickets.flatMap((ticket) => (isAdmitted(ticket) ? [] : (ticket?.headers ?? []))).join(' '),
      /^RateLimit "burst";r=0;t=[12] RateLimit-Policy "burst";q=3;w=1 Retry-After [12]$/,
    );
    await until(async () => isAdmitted(await other.ask(burst)));
    const afterMs = performance.now() - startMs;
    assert.ok(afterMs >= 1_000, `${afterMs} ms`);
    stalls.judge(afterMs < 1_500, `${afterMs} ms`);
  });

  await t.test('cost and concurrency are those of both, and settlements count', async () => {
    const busy = principalOf(planOf({ concurrency: 2 }), 'a', 'busy');
    const [first, second, third] = [await one.ask(busy), await other.ask(busy), await one.ask(busy)];
    assert.deepEqual([first, second, third].map(isAdmitted), [true, true, false]);
    settle(first);
    await until(async () => isAdmitted(await other.ask(busy)));
    const dear = principalOf(planOf({ cost: 50 }), 'a', 'dear');
    settle(await one.ask(dear, 'view'), { outcome: 'miss', gasUsed: '6000' });
    await until(async () => !isAdmitted(await other.ask(dear)));
  });

  await t.test('a waiting request gets the place that the other replica gives back', async () => {
    const patient = principalOf(planOf({ concurrency: 1, waitMs: 10_000 }), 'a', 'patient');
    const first = await one.ask(patient);
    const second = other.ask(patient);
    await until(async () => (await other.metric('ledgergate_limits_waiting')) === 1);
    settle(first);
    const startMs = performance.now();
    assert.ok(isAdmitted(await second));
    // Long before its own wait ends.
    assert.ok(performance.now() - startMs < 8_000);
  });

  await t.test('event streams are granted once, and ended ones are free for both', async () => {
    const principal = principalOf(planOf({ streams: 3 }), 'a', 'streams');
    const open = async (count: number) => {
      const opened = [...Array(count).keys()].map(async (at) => replicas[at % 2]!.limits.openStream(principal));
      return (await Promise.all(opened)).filter((end) => typeof end === 'function');
    };
    const ends = await open(4);
    assert.equal(ends.length, 3);
    const leases = 'lg:limits:{free:tenant:streams:streams}:1000:leases';
    const countOpen = () => server.run((client) => client.zcard(leases));
    assert.equal(await countOpen(), 3);
    for (const end of ends) end();
    await until(async () => (await countOpen()) === 0);
    assert.equal((await open(4)).length, 3);
  });

  await t.test('a raised limit is in force at once for a tenant that was just refused', async () => {
    for (const [requests, expected] of [
      [1, [true, false]],
      [3, [true, true, false]],
    ] as const) {
      const raised = principalOf(planOf({ requests }), 'a', 'raised');
      for (const isLetIn of expected) assert.equal(isAdmitted(await one.ask(raised)), isLetIn);
    }
  });

  await t.test('a server that has lost the scripts works on', async () => {
    await server.run((client) => client.script('FLUSH'));
    assert.ok(isAdmitted(await one.ask(principalOf(planOf({ requests: 5 }), 'a', 'flushed'))));
  });

  for (const at of replicas) assert.equal(await at.metric('ledgergate_limits_fallback_total{choice="local"}'), 0);
});

test('a replica that dies holds its places no longer than its leases', { skip: noRedis }, async (t) => {
  const stalls = watchStalls(t);
  const { url } = await redisServer(t);
  const [dying, living] = [
    await linkTo(t, { url }, { timeoutMs: 2_000 }),
    await linkTo(t, { url }, { timeoutMs: 2_000 }),
  ];
  const [one, other] = [counterOf(dying, 300), counterOf(living, 300)];
  t.after(() => Promise.all([one.close(), other.close()]));
  const charge: Charge = { subject: 'a', hasKey: true, bounds: { windowMs: 1_000, concurrency: 1 }, cost: 1 };
  const isIn = async (counter: RedisCounter) => isCountedIn(await counter.take(charge));
  assert.equal(await isIn(one), true);
  // It lives, and its request takes longer than a lease.
  await sleep(700);
  const isRenewed = !(await isIn(other));
  stalls.judge(isRenewed, 'the lease was renewed');
  if (!isRenewed) return;
  dying.close();
  const diedMs = performance.now();
  await eventually(() => isIn(other), Boolean);
  stalls.judge(performance.now() - diedMs < 2_000, 'no longer than its leases');
});

redisTest('a place whose admission or end Redis did not confirm is free when its lease ends', async (t, server) => {
  const link = await linkTo(t, server, { timeoutMs: 500 });
  const counter = counterOf(link, 2_000);
  t.after(() => counter.close());
  const charge: Charge = { subject: 'a', hasKey: true, bounds: { windowMs: 1_000, concurrency: 3 }, cost: 1 };
  const held = () => server.run((client) => client.zcard('lg:limits:{a}:1000:leases'));
  const before = await counter.take(charge);
  server.pause();
  assert.deepEqual(await Promise.all([counter.take(charge), counter.take(charge)]), ['unanswered', 'unanswered']);
  assert.ok(typeof before !== 'string');
  before.settle(0);
  // The settlement is given up while Redis does not answer.
  await counter.close();
  server.resume();
  await eventually(held, (count) => count > 0);
  const next = counterOf(link, 30_000);
  t.after(() => next.close());
  for (let place = 0; place < 3; place += 1) {
    await eventually(() => next.take(charge), isCountedIn);
  }
});

redisTest('the rights that the docs name are enough', async (t, server) => {
  const docs = readFileSync(new URL('../../../docs/limits.md', import.meta.url), 'utf8');
  const rights = /^ACL SETUSER ledgergate on >PASSWORD (.+)$/m.exec(docs)?.[1]?.split(' ') ?? [];
  const user = ['ACL', 'SETUSER', 'gateway', 'on', '>secret', ...rights] as const;
  await server.run((client) => client.call('ACL', ...user.slice(1)));
  const url = server.url.replace('redis://', 'redis://gateway:secret@');
  const [one] = await sharing(t, { url }, 1);
  const bounds = { requests: 5, concurrency: 2, cost: 50, perAddress: { requests: 5, windowMs: 10_000 } };
  const plan = planOf({ ...bounds, quota: { day: 100, unit: 'cost' } });
  const ticket = await one.ask(principalOf(plan), 'read', undefined, '192.0.2.1');
  settle(ticket, { outcome: 'miss', upstreamMs: 50 });
  const { source, rows } = await one.limits.usage.report({
    fromMs: Date.now() - 86_400_000,
    toMs: Date.now() + 1,
    mostRows: 100,
  });
  assert.deepEqual([source, rows.length], ['redis', 1]);
  // 2 for a miss and 0.1 for each ms of a node, of which 1 was counted at admission: reported in the background.
  await until(async () => (await one.limits.standing(principalOf(plan)))?.at(-1)?.remaining === 93);
  assert.equal(await one.metric('ledgergate_limits_fallback_total{choice="local"}'), 0);
  assert.equal(await one.metric('ledgergate_limits_lost_total{what="settlement"}'), 0);
  // Clients introduce themselves with their version, which needs no answer.
  const log = (await server.run((client) => client.call('ACL', 'LOG'))) as unknown[][];
  const denied = log.map((entry) => entry[entry.indexOf('object') + 1]).filter((what) => what !== 'client|setinfo');
  assert.deepEqual(denied, []);
});

// Redis goes away in the middle of a window. Further choices of the config: test/journeys/access/own-redis.test.ts.

const plan = planOf({ requests: 100, windowMs: 60_000 });
const usual = principalOf(plan);

function linesOf({ log }: Replica, part: string): number {
  return log.filter(({ msg }) => String(msg).includes(part)).length;
}

redisTest('refuse: no request is admitted, as unavailable and not as over a limit', async (t, server) => {
  const [one] = await sharing(t, server, 1, { config: { whenRedisIsDown: 'refuse' } });
  assert.ok(isAdmitted(await one.ask(usual)));
  await server.kill();
  const ticket = await one.ask(usual);
  assert.ok(ticket instanceof GatewayError && ticket.status === 503);
  assert.deepEqual(ticket.headers, ['Retry-After', '1']);
  assert.equal(await one.metric('ledgergate_limits_fallback_total{choice="refuse"}'), 1);
  assert.equal(await one.metric('ledgergate_limits_refusals_total{plan="free",bound="unavailable"}'), 1);
  assert.ok(isAdmitted(await one.ask(principalOf(planOf({})))), 'who has no limits needs nobody to count');
});

test('a Redis that hangs costs its time once, not with every request', { skip: noRedis }, async (t) => {
  const stalls = watchStalls(t);
  const server = await redisServer(t);
  const [one] = await sharing(t, server, 1, { timeoutMs: 50 });
  assert.ok(isAdmitted(await one.ask(usual)));
  server.pause();
  await one.ask(usual);
  const startMs = performance.now();
  for (let asked = 0; asked < 50; asked += 1) await one.ask(usual);
  const tookMs = performance.now() - startMs;
  stalls.judge(tookMs < 50 * 50 * 0.5, `50 requests took ${tookMs} ms`);
  server.resume();
  await eventually(async () => linesOf(one, 'counted in Redis again'), Boolean);
});

redisTest('without limits no command is sent to Redis, and no promise is made', async (t, server) => {
  const [one] = await sharing(t, server, 1);
  const ticket = one.limits.admit(principalOf(planOf({})), 'read', new AbortController().signal);
  assert.ok(!(ticket instanceof Promise) && isAdmitted(ticket));
  assert.deepEqual(ticket.headers, []);
  assert.equal(await server.run((client) => client.dbsize()), 0);
});
