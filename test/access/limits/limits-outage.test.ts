/** Redis goes away in the middle of a window. Further choices of the config: test/journeys/access/own-redis.test.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { eventually } from '../../support/eventually.ts';
import { isAdmitted, planOf, principalOf, type Replica, sharing } from '../../support/limits.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { watchStalls } from '../../support/stalls.ts';

const plan = planOf({ requests: 100, windowMs: 60_000 });
const usual = principalOf(plan);

function linesOf({ log }: Replica, part: string): number {
  return log.filter(({ msg }) => String(msg).includes(part)).length;
}

test('refuse: no request is admitted, as unavailable and not as over a limit', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
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

test('without limits no command is sent to Redis, and no promise is made', { skip: noRedis }, async (t) => {
  const server = await redisServer(t);
  const [one] = await sharing(t, server, 1);
  const ticket = one.limits.admit(principalOf(planOf({})), 'read', new AbortController().signal);
  assert.ok(!(ticket instanceof Promise) && isAdmitted(ticket));
  assert.deepEqual(ticket.headers, []);
  assert.equal(await server.run((client) => client.dbsize()), 0);
});
