import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { test, type TestContext } from 'node:test';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { FleetState } from '../../../src/upstream/fleet-state.ts';
import { noAnswers, pick, type Choice } from '../../../src/upstream/select/pick.ts';
import type { Tier } from '../../../src/upstream/select/ranking.ts';
import { PlaceQueue, type Permit, type QueueRefusal } from '../../../src/upstream/dispatch/queue.ts';
import { candidatesOf, type Upstream } from '../../../src/upstream/node/upstream.ts';
import { until } from '../../support/eventually.ts';
import { quietEvents } from '../../support/fleet-events.ts';
import { nodeAt } from '../../support/node-client.ts';
import { request, senderOf } from '../../support/sender.ts';

const patient = { client: 'a', signal: new AbortController().signal, withinMs: 10_000, kind: 'read' } as const;
const ignore = (): void => undefined;
const settled = (): Promise<void> => new Promise(setImmediate);

/** The choice among nodes that nothing is sent to. */
function choiceOf(
  t: TestContext,
  tiers: readonly { readonly tier: Tier; readonly connections: number }[],
): Choice<Upstream> {
  const upstreams = tiers.map((options, index) => nodeAt(t, 9, { name: `n${index}`, ...options }));
  const need = { kind: 'head' } as const;
  const nodes = candidatesOf(new FleetState(upstreams, new Dialect('node'), quietEvents), 0, need);
  const choice = pick(nodes, need, noAnswers);
  assert.ok(choice !== undefined);
  return choice;
}

function taken(place: Permit | string | undefined): Permit {
  assert.ok(typeof place === 'object');
  return place;
}

/** One place, which is taken; outcomes are noted by the names of the requests. */
function oneTakenPlace(t: TestContext, most: number) {
  const one = [{ tier: 'full', connections: 1 }] as const;
  const [nodes, others] = [choiceOf(t, one), choiceOf(t, one)];
  const queue = new PlaceQueue(ignore, most, most);
  let holder = queue.take(nodes.node.upstream, 'read');
  const otherHolder = queue.take(others.node.upstream, 'read');
  const outcomes: string[] = [];
  const wait = (client: string, name: string, asked = nodes): void => {
    const note = (outcome: Permit | QueueRefusal): void => {
      outcomes.push(typeof outcome === 'string' ? `${name} ${outcome}` : name);
      if (typeof outcome === 'object') holder = outcome;
    };
    void queue.acquire(asked, { ...patient, client }).then(note);
  };
  /** Gives the place to the next request, until none waits for it. */
  const serve = async (times: number): Promise<void> => {
    for (let served = 0; served < times; served += 1) {
      holder.close();
      await settled();
    }
  };
  return { queue, nodes, others, otherHolder, outcomes, wait, serve };
}

test('clients take turns, each in its own order', async (t) => {
  const { queue, outcomes, wait, serve } = oneTakenPlace(t, 10);
  for (const name of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) wait(name.charAt(0), name);
  await serve(6);
  assert.deepEqual(outcomes, ['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  assert.equal(queue.waiting, 0);
});

test('a place goes only to a request that its node can answer', async (t) => {
  const { others, otherHolder, outcomes, wait, serve } = oneTakenPlace(t, 10);
  wait('a', 'a1', others);
  wait('a', 'a2');
  await serve(2);
  assert.deepEqual(outcomes, ['a2']);
  otherHolder.close();
  await settled();
  assert.deepEqual(outcomes, ['a2', 'a1']);
});

test('beyond the bound a request is refused, unless another client has clearly more waiting', async (t) => {
  const { queue, outcomes, wait } = oneTakenPlace(t, 4);
  for (const name of ['a1', 'a2', 'a3', 'a4', 'a5']) wait('a', name);
  await settled();
  assert.deepEqual(outcomes, ['a5 full']);
  wait('b', 'b1');
  wait('b', 'b2');
  wait('b', 'b3');
  await settled();
  // Two each: no client has clearly more than the other.
  assert.deepEqual(outcomes.toSorted(), ['a3 full', 'a4 full', 'a5 full', 'b3 full']);
  assert.equal(queue.waiting, 4);
});

test('as many may wait as can be served soon, within fixed bounds', () => {
  const queue = new PlaceQueue(ignore, 10);
  assert.equal(queue.bound(0), 10);
  for (let count = 0; count < 400; count += 1) queue.noteFreed(500);
  assert.equal(queue.bound(1_500), 200);
  assert.equal(queue.bound(2_600), 10);
  for (let count = 0; count < 100_000; count += 1) queue.noteFreed(3_000);
  assert.equal(queue.bound(3_000), 1_000);
});

test('a request is late after its bound or an abort, and leaves nothing behind', async (t) => {
  const { queue, nodes } = oneTakenPlace(t, 10);
  const gone = new AbortController();
  const leaving = { ...patient, signal: gone.signal };
  const outcomes = [queue.acquire(nodes, { ...patient, withinMs: 5 }), queue.acquire(nodes, leaving)];
  gone.abort();
  assert.deepEqual(await Promise.all(outcomes), ['late', 'late']);
  assert.equal(await queue.acquire(nodes, leaving), 'late');
  assert.deepEqual([queue.waiting, getEventListeners(gone.signal, 'abort').length], [0, 0]);
});

test('a request for a full node gets a place of the archival one only while half of those are free', async (t) => {
  const choice = choiceOf(t, [
    { tier: 'full', connections: 1 },
    { tier: 'archival', connections: 4 },
  ]);
  const queue = new PlaceQueue(ignore);
  const [first, second] = choice.alike;
  assert.ok(first !== undefined && second !== undefined);
  const full = queue.take(first.upstream, 'read');
  const archive = [0, 1, 2, 3].map(() => queue.take(second.upstream, 'read'));
  const got: string[] = [];
  const waits = [0, 1].map(async () => got.push(taken(await queue.acquire(choice, patient)).upstream.tier));
  for (const expected of [[], [], ['archival']]) {
    archive.pop()?.close();
    await settled();
    assert.deepEqual(got, expected);
  }
  full.close();
  await Promise.all(waits);
  assert.deepEqual(got, ['archival', 'full']);
});

test('a waiting request gets the place of a background request', async (t) => {
  const choice = choiceOf(t, [{ tier: 'full', connections: 1 }]);
  const queue = new PlaceQueue(ignore);
  const { upstream } = choice.node;
  const background = queue.take(upstream, 'read');
  const waiting = queue.acquire(choice, { ...patient, withinMs: 1_000 });
  await settled();
  background.close();
  taken(await waiting).close();
  assert.equal(upstream.places.inFlight, 0);
});

test('one waiting stream gets the connection that ends, and the others delay no reads', async (t) => {
  const large = Buffer.alloc(4 * 1024 * 1024);
  const { sender, upstream } = await senderOf(
    t,
    ({ url }, response) => void response.end(url === '/v1/large' ? large : 'small'),
    { connections: 4, limits: { stallMs: 20_000 } },
  );
  const gone = [0, 1, 2].map(() => new AbortController());
  const held = await Promise.all(gone.map(({ signal }) => sender.stream(request('/large'), signal)));
  const leaving = new AbortController();
  const waiting = Array.from({ length: 8 }, () => sender.stream(request('/large'), leaving.signal));
  for (const each of waiting) each.catch(() => undefined);
  await until(() => sender.waiting >= 8);

  gone[0]?.abort();
  const [first] = held;
  assert.ok(first !== undefined && 'stream' in first);
  if (!first.stream.closed) await once(first.stream, 'close');
  const next = await Promise.race(waiting);

  assert.ok('stream' in next);
  assert.deepEqual([sender.waiting, upstream.places.inFlight], [7, 0]);
  assert.equal(String((await sender.whole(request('/small'), patient.signal)).body), 'small');
  leaving.abort();
  for (const each of gone) each.abort();
  await until(() => upstream.inFlight === 0 && sender.waiting === 0);
  assert.equal(upstream.streams.isFull, false);
});

test('streams and long polls together leave a connection to reads', async (t) => {
  const large = Buffer.alloc(4 * 1024 * 1024);
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const { sender, upstream } = await senderOf(
    t,
    ({ url }, response) => {
      if (url === '/v1/poll') void over.then(() => response.end('poll'));
      else response.end(url === '/v1/large' ? large : 'small');
    },
    { connections: 4, limits: { stallMs: 20_000 } },
  );
  const atOnce = request('/small').wire;
  const poll = async () => String((await sender.whole({ ...request('/poll'), atOnce }, patient.signal)).body);
  const leaving = new AbortController();
  const stream = () => sender.stream(request('/large'), leaving.signal);
  const polls = [poll(), poll()];
  await stream();
  const later = [0, 1, 2].map(() => stream());
  for (const each of later) each.catch(() => undefined);
  await until(() => sender.waiting >= 3);

  assert.equal(String((await sender.whole(request('/small'), patient.signal)).body), 'small');
  assert.equal(await poll(), 'small');
  resolve();
  assert.deepEqual(await Promise.all(polls), ['poll', 'poll']);
  // Waiting requests get the connections of the polls.
  await until(() => sender.waiting <= 1);
  leaving.abort();
  await until(() => upstream.inFlight === 0 && sender.waiting === 0);
  assert.deepEqual([upstream.streams.taken, upstream.polls.taken, upstream.places.inFlight], [0, 0, 0]);
});
