/** Requests over a limit that wait for their turn. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { LimitQueue } from '../../../src/access/limits/limit-queue.ts';
import type { CountResult } from '../../../src/access/limits/counter.ts';
import { eventually } from '../../support/eventually.ts';
import { anonymousOf, hit, isAdmitted, planOf, principalOf, replica } from '../../support/limits.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { watchStalls } from '../../support/stalls.ts';

const never = new AbortController().signal;

async function memoryReplica(t: TestContext) {
  return replica(t, {});
}

test('a request over the burst waits until there is room, and those behind it wait in order', async (t) => {
  const stalls = watchStalls(t);
  const one = await memoryReplica(t);
  const patient = principalOf(planOf({ burst: 2, waitMs: 3_000 }));
  const order: number[] = [];
  const startMs = performance.now();
  const tickets = await Promise.all(
    [0, 1, 2, 3, 4].map(async (index) => {
      const ticket = await one.ask(patient);
      order.push(index);
      return { ticket, afterMs: performance.now() - startMs };
    }),
  );
  assert.ok(tickets.every(({ ticket }) => isAdmitted(ticket)));
  assert.deepEqual(order, [0, 1, 2, 3, 4]);
  assert.ok(tickets[2]!.afterMs >= 1_000 && tickets[4]!.afterMs >= 2_000);
  stalls.judge(tickets[1]!.afterMs < 500, 'the burst waits for nothing');
});

test('a request that would wait in vain is refused at once', async (t) => {
  const stalls = watchStalls(t);
  const one = await memoryReplica(t);
  const plan = planOf({ requests: 1, waitMs: 500 });
  assert.ok(isAdmitted(await one.ask(principalOf(plan))));
  const startMs = performance.now();
  const ticket = await one.ask(principalOf(plan));
  assert.ok(ticket.kind === 'refused' && ticket.because === 'limit' && ticket.retryAfterMs > 9_000);
  stalls.judge(performance.now() - startMs < 400, 'at once');
});

test('a free place goes at once to the longest waiting request, and one that waits too long is refused', async (t) => {
  const one = await memoryReplica(t);
  const patient = principalOf(planOf({ concurrency: 1, waitMs: 400 }));
  const first = await one.ask(patient);
  const [second, third] = [one.ask(patient), one.ask(patient)];
  await eventually(
    () => one.metric('ledgergate_limits_waiting'),
    (waiting) => waiting === 2,
  );
  assert.ok(isAdmitted(first));
  first.settle(hit);
  assert.ok(isAdmitted(await second), 'and it does not end');
  const refused = await third;
  assert.deepEqual(refused, { kind: 'refused', because: 'limit', retryAfterMs: 1_000, headers: [] });
  assert.equal(await one.metric('ledgergate_limits_waiting'), 0);
});

test('a client that hangs up leaves the queue, and takes no place', async (t) => {
  const one = await memoryReplica(t);
  const patient = principalOf(planOf({ concurrency: 1, waitMs: 10_000 }));
  const first = await one.ask(patient);
  const gone = new AbortController();
  const [second, third] = [one.ask(patient, 'read', gone.signal), one.ask(patient)];
  gone.abort();
  assert.equal((await second).kind, 'left');
  assert.ok(isAdmitted(first));
  first.settle(hit);
  assert.ok(isAdmitted(await third));
});

test('queues are bounded, each and together, and end when they are closed', async () => {
  const queue = new LimitQueue({ maxInLine: 2, maxWaiting: 3 });
  const over: CountResult = {
    kind: 'counted',
    count: { isAdmitted: false, over: 'concurrency', freeInMs: 0, standings: [] },
    settle: () => undefined,
  };
  const request = { waitMs: 60_000, signal: never, attempt: () => over };
  const waiting: (CountResult | Promise<CountResult>)[] = ['a', 'a', 'a', 'b', 'b'].map((subject) =>
    queue.take(subject, request),
  );
  assert.deepEqual(
    waiting.map((turn) => turn instanceof Promise),
    [true, true, false, true, false],
  );
  assert.equal(queue.waiting, 3);
  queue.close();
  for (const turn of waiting) assert.equal(await turn, over);
  assert.equal(queue.waiting, 0);
});

test('a place that another replica gives back is found', { skip: noRedis }, async (t) => {
  const { url } = await redisServer(t);
  const target = { kind: 'single', url } as const;
  const [one, other] = [await replica(t, { target }), await replica(t, { target })];
  const patient = principalOf(planOf({ concurrency: 1, waitMs: 10_000 }));
  const first = await one.ask(patient);
  const second = other.ask(patient);
  await eventually(
    () => other.metric('ledgergate_limits_waiting'),
    (waiting) => waiting === 1,
  );
  assert.ok(isAdmitted(first));
  first.settle(hit);
  const startMs = performance.now();
  assert.ok(isAdmitted(await second));
  assert.ok(performance.now() - startMs < 2_000);
});

test('a request refused at the moment in which a queue ends is not left in it', async () => {
  const queue = new LimitQueue();
  const over: CountResult = {
    kind: 'counted',
    count: { isAdmitted: false, over: 'requests', freeInMs: 20, standings: [] },
    settle: () => undefined,
  };
  const room: CountResult = { kind: 'counted', count: { isAdmitted: true, standings: [] }, settle: () => undefined };
  const asked = Promise.withResolvers<void>();
  const [ofFirst, ofSecond] = [Promise.withResolvers<CountResult>(), Promise.withResolvers<CountResult>()];
  const [firsts, seconds] = [[over, ofFirst.promise], [ofSecond.promise]];
  const second = queue.take('a', { waitMs: 100, signal: never, attempt: () => seconds.shift() ?? room });
  const first = queue.take('a', {
    waitMs: 1_000,
    signal: never,
    attempt: () => {
      if (firsts.length === 1) asked.resolve();
      return firsts.shift() ?? room;
    },
  });
  await asked.promise;
  // Answers of Redis that come together are taken in one go.
  ofFirst.resolve(room);
  ofSecond.resolve(over);
  assert.equal(await first, room);
  assert.equal(await second, room);
  assert.equal(queue.waiting, 0);
});

test('addresses that wait leave room for keys to wait in', async (t) => {
  const one = await memoryReplica(t);
  const plan = planOf({ concurrency: 1, waitMs: 5_000 });
  const ofKey = await one.ask(principalOf(plan));
  for (let address = 0; address < 17; address += 1) {
    const somebody = anonymousOf(plan, `192.0.2.${address}`);
    for (let asked = 0; asked < 257; asked += 1) void one.ask(somebody);
  }
  await eventually(
    () => one.metric('ledgergate_limits_waiting'),
    (waiting) => waiting === 4_096,
  );
  const waits = one.ask(principalOf(plan));
  assert.ok(isAdmitted(ofKey));
  ofKey.settle(hit);
  assert.ok(isAdmitted(await waits));
});
