/** Replicas that share a Redis grant together what the plan grants. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'node:test';
import type { Charge, Counted } from '../../../src/access/limits/counter.ts';
import { Quotas } from '../../../src/access/limits/quotas.ts';
import { RedisCounter } from '../../../src/access/limits/redis-counter.ts';
import type { Store } from '../../../src/access/redis.ts';
import { eventually } from '../../support/eventually.ts';
import { isAdmitted, planOf, principalOf, replica, type Replica, settle } from '../../support/limits.ts';
import { linkTo } from '../../support/redis-link.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { redisCluster } from '../../support/redis-topology.ts';
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
      if (isAdmitted(ticket)) {
        await sleep(random() * 5);
        settle(ticket);
      }
      return isAdmitted(ticket);
    };
    tickets.push(ask());
    if (random() < 0.05) await Promise.all(tickets);
    else if (random() < 0.1) await sleep(1);
  }
  return (await Promise.all(tickets)).filter(Boolean).length;
}

test('two replicas let through a plan of 100 per 10 s exactly, in any order', { skip: noRedis }, async (t) => {
  const { url } = await redisServer(t);
  const target = { kind: 'single', url } as const;
  const replicas = [await replica(t, { target }), await replica(t, { target })];
  for (const seed of [1, 2, 3, 4, 5]) {
    const startMs = performance.now();
    const admitted = await hammer(replicas, 400, seed);
    assert.ok(performance.now() - startMs < 10_000, 'within one window');
    assert.equal(admitted, 100, `seed ${seed}`);
  }
  for (const one of replicas) assert.equal(await one.metric('ledgergate_limits_fallback_total{choice="local"}'), 0);
});

test('over many windows no span of time holds more than the plan', { skip: noRedis }, async (t) => {
  const { url } = await redisServer(t);
  const target = { kind: 'single', url } as const;
  const replicas = [await replica(t, { target }), await replica(t, { target })];
  const plan = planOf({ windowMs: 1_000, requests: 30 });
  // When it was asked and when it was known: it was let in at some time in between.
  const admitted: { readonly fromMs: number; readonly toMs: number }[] = [];
  // Three windows and more, on any machine.
  const enough = 100;
  const client = async (one: Replica): Promise<void> => {
    while (admitted.length < enough) {
      const fromMs = performance.now();
      const ticket = await one.ask(principalOf(plan));
      if (isAdmitted(ticket)) admitted.push({ fromMs, toMs: performance.now() });
      else await sleep(3);
    }
  };
  await Promise.all([0, 1, 2, 3].map((index) => client(replicas[index % 2]!)));
  for (const { fromMs } of admitted) {
    const surely = admitted.filter((one) => one.fromMs >= fromMs && one.toMs <= fromMs + 999);
    assert.ok(surely.length <= 30, `${surely.length} within a second`);
  }
});

test('cost, burst and concurrency are those of all replicas, and settlements count', { skip: noRedis }, async (t) => {
  const { url } = await redisServer(t);
  const target = { kind: 'single', url } as const;
  const [one, other] = [await replica(t, { target }), await replica(t, { target })];
  const burst = principalOf(planOf({ burst: 3 }), 'a', 'burst');
  const tickets = [await one.ask(burst), await other.ask(burst), await one.ask(burst), await other.ask(burst)];
  assert.deepEqual(tickets.map(isAdmitted), [true, true, true, false]);
  assert.match(
    tickets.flatMap((ticket) => (isAdmitted(ticket) ? [] : (ticket?.headers ?? []))).join(' '),
    /^RateLimit "burst";r=0;t=[12] RateLimit-Policy "burst";q=3;w=1 Retry-After [12]$/,
  );

  const busy = principalOf(planOf({ concurrency: 2 }), 'a', 'busy');
  const [first, second, third] = [await one.ask(busy), await other.ask(busy), await one.ask(busy)];
  assert.deepEqual([first, second, third].map(isAdmitted), [true, true, false]);
  settle(first);
  await eventually(() => other.ask(busy), isAdmitted);

  const dear = principalOf(planOf({ cost: 50 }), 'a', 'dear');
  const view = await one.ask(dear, 'view');
  settle(view, { outcome: 'miss', gasUsed: 6_000n });
  await eventually(
    () => other.ask(dear),
    (ticket) => !isAdmitted(ticket),
  );
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

test(
  'a place whose admission or end Redis did not confirm is free when its lease ends',
  { skip: noRedis },
  async (t) => {
    const server = await redisServer(t);
    const link = await linkTo(t, server, { timeoutMs: 50 });
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
  },
);

test('a raised limit is in force at once for a tenant that was just refused', { skip: noRedis }, async (t) => {
  const { url } = await redisServer(t);
  const one = await replica(t, { target: { kind: 'single', url } });
  for (const [requests, expected] of [
    [1, [true, false]],
    [3, [true, true, false]],
  ] as const) {
    const plan = planOf({ requests });
    for (const isLetIn of expected) assert.equal(isAdmitted(await one.ask(principalOf(plan))), isLetIn);
  }
});

test('a request over the burst is admitted when Redis has room, and not before', { skip: noRedis }, async (t) => {
  const stalls = watchStalls(t);
  const { url } = await redisServer(t);
  const one = await replica(t, { target: { kind: 'single', url } });
  const some = principalOf(planOf({ burst: 1 }));
  const startMs = performance.now();
  assert.ok(isAdmitted(await one.ask(some)));
  let ticket = await one.ask(some);
  while (!isAdmitted(ticket)) {
    await sleep(2);
    ticket = await one.ask(some);
  }
  const afterMs = performance.now() - startMs;
  assert.ok(afterMs >= 1_000, `${afterMs} ms`);
  stalls.judge(afterMs < 1_500, `${afterMs} ms`);
});

test('a cluster counts as one server does', { skip: noRedis }, async (t) => {
  const { target } = await redisCluster(t);
  const replicas = [await replica(t, { target }), await replica(t, { target })];
  const plan = planOf({ requests: 100, concurrency: 1_000, cost: 10_000, burst: 1_000 });
  for (const seed of [1, 2, 3]) assert.equal(await hammer(replicas, 200, seed, plan), 100, `seed ${seed}`);
  for (const one of replicas) {
    assert.equal(await one.metric('ledgergate_limits_fallback_total{choice="local"}'), 0);
    assert.equal(await one.metric('ledgergate_limits_lost_total{what="settlement"}'), 0);
  }
});

test('a server that lost the script and all counts works on', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const one = await replica(t, { target: { kind: 'single', url: server.url } });
  assert.ok(isAdmitted(await one.ask(principalOf(planOf({ requests: 5 })))));
  await server.run((client) => client.script('FLUSH'));
  assert.ok(isAdmitted(await one.ask(principalOf(planOf({ requests: 5 })))));
  assert.equal(await one.metric('ledgergate_limits_fallback_total{choice="local"}'), 0);
});

test('the rights that the docs name are enough', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const docs = readFileSync(new URL('../../../docs/limits.md', import.meta.url), 'utf8');
  const rights = /^ACL SETUSER ledgergate on >PASSWORD (.+)$/m.exec(docs)?.[1]?.split(' ') ?? [];
  const user = ['ACL', 'SETUSER', 'gateway', 'on', '>secret', ...rights] as const;
  await server.run((client) => client.call('ACL', ...user.slice(1)));
  const url = server.url.replace('redis://', 'redis://gateway:secret@');
  const one = await replica(t, { target: { kind: 'single', url } });
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
  await eventually(
    () => one.limits.standing(principalOf(plan)),
    (standing) => standing?.at(-1)?.remaining === 93,
  );
  assert.equal(await one.metric('ledgergate_limits_fallback_total{choice="local"}'), 0);
  assert.equal(await one.metric('ledgergate_limits_lost_total{what="settlement"}'), 0);
  // Clients introduce themselves with their version, which needs no answer.
  const log = (await server.run((client) => client.call('ACL', 'LOG'))) as unknown[][];
  const denied = log.map((entry) => entry[entry.indexOf('object') + 1]).filter((what) => what !== 'client|setinfo');
  assert.deepEqual(denied, []);
});
