/** Requests over a limit that wait for their turn. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Counted } from '../../../src/access/limits/counter.ts';
import { LimitQueue } from '../../../src/access/limits/limit-queue.ts';
import { AdmittedRequest } from '../../../src/access/limits/limits.ts';
import { GatewayCounts } from '../../../src/access/limits/primary-counter.ts';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { until } from '../../support/eventually.ts';
import {
  anonymousOf,
  isAdmitted,
  planOf,
  principalOf,
  replica,
  settle,
  type Ticket,
  peersOf,
  type Replica,
} from '../../support/limits.ts';
import { watchStalls } from '../../support/stalls.ts';

const never = new AbortController().signal;

function overBy(freeInMs: number): Counted {
  return { count: { isAdmitted: false, over: 'requests', freeInMs, standings: [] }, settle: () => undefined };
}

test('a request over the burst waits until there is room, and those behind it wait in order', async (t) => {
  const stalls = watchStalls(t);
  const one = await replica(t);
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
  const one = await replica(t);
  const plan = planOf({ requests: 1, waitMs: 500 });
  assert.ok(isAdmitted(await one.ask(principalOf(plan))));
  const startMs = performance.now();
  const ticket = await one.ask(principalOf(plan));
  assert.ok(ticket instanceof GatewayError && ticket.status === 429 && Number(ticket.headers.at(-1)) > 9);
  stalls.judge(performance.now() - startMs < 400, 'at once');
});

test('a free place goes at once to the longest waiting request, and one that waits too long is refused', async (t) => {
  const one = await replica(t);
  const patient = principalOf(planOf({ concurrency: 1, waitMs: 400 }));
  const first = await one.ask(patient);
  const [second, third] = [one.ask(patient), one.ask(patient)];
  await until(async () => (await one.metric('ledgergate_limits_waiting')) === 2);
  settle(first);
  assert.ok(isAdmitted(await second), 'and it does not end');
  const refused = await third;
  assert.ok(refused instanceof GatewayError && refused.status === 429);
  assert.deepEqual(refused.headers, ['Retry-After', '1']);
  assert.equal(await one.metric('ledgergate_limits_waiting'), 0);
});

test('a client that hangs up leaves the queue, and takes no place', async (t) => {
  const one = await replica(t);
  const patient = principalOf(planOf({ concurrency: 1, waitMs: 10_000 }));
  const first = await one.ask(patient);
  const gone = new AbortController();
  const [second, third] = [one.ask(patient, 'read', gone.signal), one.ask(patient)];
  gone.abort();
  assert.equal(await second, undefined);
  settle(first);
  assert.ok(isAdmitted(await third));
});

test('queues are bounded, each and together, and end when they are closed', async () => {
  const queue = new LimitQueue();
  const over = overBy(0);
  const request = { waitMs: 60_000, signal: never, attempt: () => over };
  const subjects = Array.from({ length: 17 * 257 }, (_, index) => `tenant ${Math.floor(index / 257)}`);
  const waiting = subjects.map((subject) => queue.take({ subject, hasKey: true }, request));
  const lengths = Array.from({ length: 17 }, (_, tenant) => waiting.slice(tenant * 257, (tenant + 1) * 257));
  assert.deepEqual(
    lengths.map((turns) => turns.filter((turn) => turn instanceof Promise).length),
    [...Array<number>(16).fill(256), 0],
  );
  assert.equal(queue.waiting, 4_096);
  queue.close();
  for (const turn of waiting) assert.equal(await turn, over);
  assert.equal(queue.waiting, 0);
});

test('a request refused at the moment in which a queue ends is not left in it', async () => {
  const queue = new LimitQueue();
  const over = overBy(20);
  const room: Counted = { count: { isAdmitted: true, standings: [] }, settle: () => undefined };
  const asked = Promise.withResolvers<void>();
  const [ofFirst, ofSecond] = [Promise.withResolvers<Counted>(), Promise.withResolvers<Counted>()];
  const [firsts, seconds] = [[over, ofFirst.promise], [ofSecond.promise]];
  const second = queue.take(
    { subject: 'a', hasKey: true },
    { waitMs: 100, signal: never, attempt: () => seconds.shift() ?? room },
  );
  const first = queue.take(
    { subject: 'a', hasKey: true },
    {
      waitMs: 1_000,
      signal: never,
      attempt: () => {
        if (firsts.length === 1) asked.resolve();
        return firsts.shift() ?? room;
      },
    },
  );
  await asked.promise;
  // Answers of Redis that come together are taken in one go.
  ofFirst.resolve(room);
  ofSecond.resolve(over);
  assert.equal(await first, room);
  assert.equal(await second, room);
  assert.equal(queue.waiting, 0);
});

test('addresses that wait leave room for keys to wait in', async (t) => {
  const one = await replica(t);
  const plan = planOf({ concurrency: 1, waitMs: 5_000 });
  const ofKey = await one.ask(principalOf(plan));
  for (let address = 0; address < 17; address += 1) {
    const somebody = anonymousOf(plan, `192.0.2.${address}`);
    for (let asked = 0; asked < 257; asked += 1) void one.ask(somebody);
  }
  await until(async () => (await one.metric('ledgergate_limits_waiting')) === 4_096);
  const waits = one.ask(principalOf(plan));
  settle(ofKey);
  assert.ok(isAdmitted(await waits));
});

function isOverOwn(ticket: Ticket): boolean {
  return ticket instanceof GatewayError && /limit of one address/.test(ticket.message);
}

test('an address over its own bound is refused at once, and behind others as soon as it is its turn', async (t) => {
  const one = await replica(t);
  const plan = planOf({ concurrency: 1, waitMs: 60_000, perAddress: { requests: 1, windowMs: 3_600_000 } });
  const ask = (address: string) => one.ask(principalOf(plan), 'read', undefined, address);
  const first = await ask('192.0.2.1');
  assert.ok(isOverOwn(await ask('192.0.2.1')));
  assert.equal(one.limits.waiting, 0);

  const [second, again, third] = [ask('192.0.2.2'), ask('192.0.2.1'), ask('192.0.2.3')];
  assert.equal(one.limits.waiting, 3);
  settle(first);
  settle(await second);
  assert.ok(isOverOwn(await again));
  assert.ok(isAdmitted(await third));
});

test('an address within a key takes a part of the queue at most: others of the key wait behind it', async (t) => {
  const one = await replica(t);
  const plan = planOf({ concurrency: 1, waitMs: 60_000, perAddress: { requests: 3, windowMs: 60_000 } });
  const ask = (address: string) => one.ask(principalOf(plan), 'read', undefined, address);
  const first = await ask('192.0.2.1');
  const greedy = Array.from({ length: 300 }, () => ask('192.0.2.1'));
  const other = ask('192.0.2.2');
  await until(async () => (await one.metric('ledgergate_limits_waiting')) === 33);
  // Each that is admitted makes room for the next.
  settle(first);
  const tickets = await Promise.all(greedy.map(async (ticket) => settled(await ticket)));
  assert.equal(tickets.filter((isServed) => isServed).length, 2);
  assert.ok(isAdmitted(await other));
});

/** Whether it was admitted; then it ends. */
function settled(ticket: Ticket): boolean {
  if (!isAdmitted(ticket)) return false;
  settle(ticket);
  return true;
}

// Event streams in their plans: counted as in flight in an account of their own, and the reads that are made for them.

/** Opens streams of a principal; the ends of those that are admitted. */
async function openAll(replicas: readonly Replica[], count: number, principal = principalOf(planOf({ streams: 3 }))) {
  const ends: (() => void)[] = [];
  for (let opened = 0; opened < count; opened += 1) {
    const end = await (replicas[opened % replicas.length] as Replica).limits.openStream(principal);
    if (typeof end === 'function') ends.push(end);
    else assert.ok(end instanceof GatewayError && end.status === 429);
  }
  return ends;
}

test('a plan grants so many streams at once, apart from its requests, and one that ends makes room', async (t) => {
  const one = await replica(t);
  const principal = principalOf(planOf({ streams: 3, concurrency: 1, requests: 2, cost: 10 }));
  const [end] = await openAll([one], 3, principal);
  assert.equal((await openAll([one], 2, principal)).length, 0);
  assert.ok((await one.ask(principal)) instanceof AdmittedRequest);
  end?.();
  assert.equal((await openAll([one], 2, principal)).length, 1);
  assert.equal(one.limits.openStream(principalOf(planOf({ concurrency: 1 }))), undefined, 'a plan without the bound');
});

test('tenants, and addresses without a key, have streams of their own', async (t) => {
  const one = await replica(t);
  const plan = planOf({ streams: 1 });
  const [keyed, other] = ['10.0.0.1', '10.0.0.2'].map((tenant) => principalOf(plan, 'a', tenant));
  for (const principal of [keyed, anonymousOf(plan, '10.0.0.1'), other]) {
    assert.equal((await openAll([one], 2, principal)).length, 1);
  }
});

test('workers grant a plan once, and a worker that is gone frees its streams', async (t) => {
  const counts = new GatewayCounts();
  const workers = await Promise.all([1, 2].map((id) => replica(t, { peers: peersOf(counts, id) })));
  assert.equal((await openAll(workers, 4)).length, 3);
  counts.release(1);
  assert.equal((await openAll(workers.slice(1), 4)).length, 2);
});

test('reads for a stream are admitted one by one, and refused as requests are', async (t) => {
  const one = await replica(t);
  const principal = principalOf(planOf({ requests: 2 }));
  const opening = await one.ask(principal);
  assert.ok(opening instanceof AdmittedRequest);
  opening.settle({ headersSent: true, statusCode: 200 });
  const { signal } = new AbortController();
  const read = await opening.again(signal);
  assert.ok(read instanceof AdmittedRequest && read !== opening);
  read.follow({ outcome: 'miss', upstreamMs: 0, gasUsed: undefined, bytes: 0, bodyBytes: 0 });
  read.settle({ headersSent: true, statusCode: 200 });
  assert.equal(await opening.again(signal), undefined);
  assert.equal(await one.metric('ledgergate_access_cost_total{plan="free"}'), 3);
});

test('a reload that changes the span of a plan forgets no open stream', async (t) => {
  const one = await replica(t);
  for (const [windowMs, admitted] of [
    [1_000, 3],
    [2_000, 0],
  ] as const) {
    assert.equal((await openAll([one], 4, principalOf(planOf({ streams: 3, windowMs })))).length, admitted);
  }
});
