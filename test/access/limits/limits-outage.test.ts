/** Redis goes away in the middle of a window: the config's choice decides. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { LimitsConfig } from '../../../src/access/limits/limits.ts';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { eventually } from '../../support/eventually.ts';
import { isAdmitted, planOf, principalOf, replica, type Replica, settle } from '../../support/limits.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { watchStalls } from '../../support/stalls.ts';

const plan = planOf({ requests: 100, windowMs: 60_000 });
const usual = principalOf(plan);

async function admittedOf(replicas: readonly Replica[], count: number): Promise<number> {
  const asked = [...Array(count).keys()].map((at) => replicas[at % replicas.length]!.ask(usual));
  const tickets = await Promise.all(asked);
  const admitted = tickets.filter(isAdmitted);
  for (const ticket of admitted) settle(ticket);
  return admitted.length;
}

async function twoReplicas(t: TestContext, whenRedisIsDown: LimitsConfig['whenRedisIsDown']) {
  const server = await redisServer(t);
  const target = { kind: 'single', url: server.url } as const;
  const config = { whenRedisIsDown };
  const replicas = [await replica(t, { target, config }), await replica(t, { target, config })];
  assert.equal(await admittedOf(replicas, 60), 60);
  await server.kill();
  return { server, replicas };
}

function linesOf({ log }: Replica, part: string): number {
  return log.filter(({ msg }) => String(msg).includes(part)).length;
}

test('local: each replica continues its own counts', { skip: noRedis }, async (t) => {
  const { server, replicas } = await twoReplicas(t, 'local');
  const up = () => replicas[0]!.metric('ledgergate_access_redis_up');
  // 30 of each were let in before: 70 more of each are within the plan as each replica sees it.
  assert.equal(await admittedOf(replicas, 400), 140);
  const [one] = replicas;
  assert.equal(await one!.metric('ledgergate_limits_fallback_total{choice="local"}'), 200);
  assert.equal(linesOf(one!, 'not counted in Redis'), 1, 'said once');
  assert.equal(await up(), 0);
  await server.start();
  await eventually(async () => linesOf(one!, 'counted in Redis again'), Boolean);
  await eventually(async () => linesOf(replicas[1]!, 'counted in Redis again'), Boolean);
  assert.equal(await up(), 1);
  const fallbacks = await one!.metric('ledgergate_limits_fallback_total{choice="local"}');
  assert.equal(await admittedOf(replicas, 200), 100, 'together again');
  assert.equal(await one!.metric('ledgergate_limits_fallback_total{choice="local"}'), fallbacks);
});

test('refuse: no request is admitted, as unavailable and not as over a limit', { skip: noRedis }, async (t) => {
  const { replicas } = await twoReplicas(t, 'refuse');
  assert.equal(await admittedOf(replicas, 50), 0);
  const ticket = await replicas[0]!.ask(usual);
  assert.ok(ticket instanceof GatewayError && ticket.status === 503);
  assert.deepEqual(ticket.headers, ['Retry-After', '1']);
  assert.equal(await replicas[0]!.metric('ledgergate_limits_fallback_total{choice="refuse"}'), 26);
  assert.equal(await replicas[0]!.metric('ledgergate_limits_refusals_total{plan="free",bound="unavailable"}'), 26);
  assert.ok(isAdmitted(await replicas[0]!.ask(principalOf(planOf({})))), 'who has no limits needs nobody to count');
});

test('allow: every request is admitted, uncounted', { skip: noRedis }, async (t) => {
  const { replicas } = await twoReplicas(t, 'allow');
  assert.equal(await admittedOf(replicas, 300), 300);
  assert.equal(await replicas[0]!.metric('ledgergate_limits_fallback_total{choice="allow"}'), 150);
});

test('a Redis that hangs costs its time once, not with every request', { skip: noRedis }, async (t) => {
  const stalls = watchStalls(t);
  const server = await redisServer(t);
  const one = await replica(t, { target: { kind: 'single', url: server.url }, timeoutMs: 50 });
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

test('without limits no command is sent to Redis, and no promise is made', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const one = await replica(t, { target: { kind: 'single', url: server.url } });
  const ticket = one.limits.admit(principalOf(planOf({})), 'read', new AbortController().signal);
  assert.ok(!(ticket instanceof Promise) && isAdmitted(ticket));
  assert.deepEqual(ticket.headers, []);
  assert.equal(await server.run((client) => client.dbsize()), 0);
});
