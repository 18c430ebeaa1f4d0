import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { test, type TestContext } from 'node:test';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { FleetState } from '../../../src/upstream/fleet-state.ts';
import { noAnswers, pick, type Choice } from '../../../src/upstream/select/pick.ts';
import type { Tier } from '../../../src/upstream/select/ranking.ts';
import { PlaceQueue, type Permit } from '../../../src/upstream/dispatch/queue.ts';
import { candidatesOf, type Upstream } from '../../../src/upstream/node/upstream.ts';
import { until } from '../../support/eventually.ts';
import { quietEvents } from '../../support/fleet-events.ts';
import { nodeAt } from '../../support/node-client.ts';
import { runScript, type Steps } from '../../support/script.ts';
import { request, senderOf } from '../../support/sender.ts';
import { rowsIn } from '../../support/tables.ts';

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

/** Two nodes of one place, which is taken. Requests are named by their clients: `a1` is of client a. */
function takenPlaces(t: TestContext, most: number): Steps {
  const queue = new PlaceQueue(ignore, most, most);
  const places = ['one', 'other'].map(() => {
    const choice = choiceOf(t, [{ tier: 'full', connections: 1 }]);
    return { choice, holder: queue.take(choice.node.upstream, 'read') };
  });
  const outcomes: string[] = [];
  const wait = (at: number) => (name: string) => {
    const place = places[at];
    assert.ok(place !== undefined);
    void queue.acquire(place.choice, { ...patient, client: name.charAt(0) }).then((outcome) => {
      outcomes.push(typeof outcome === 'string' ? `${name} ${outcome}` : name);
      if (typeof outcome === 'object') place.holder = outcome;
    });
  };
  /** Gives the place to the next request. */
  const serve = (at: number) => async () => {
    places[at]?.holder.close();
    await settled();
  };
  return {
    wait: wait(0),
    waitForOther: wait(1),
    serve: serve(0),
    serveOther: serve(1),
    outcomes: async () => {
      await settled();
      return outcomes.join('+');
    },
    waiting: () => queue.waiting,
  };
}

/** Claim, the most requests that may wait, and script. */
const scripts = `
clients take turns, each in its own order | 10 | wait a1, wait a2, wait a3, wait b1, wait c1, wait b2, 6x serve, outcomes = a1+b1+c1+a2+b2+a3, waiting = 0
a place goes only to a request that its node can answer | 10 | waitForOther a1, wait a2, 2x serve, outcomes = a2, serveOther, outcomes = a2+a1
beyond the bound a request is refused, unless another client has clearly more waiting | 4 | wait a1, wait a2, wait a3, wait a4, wait a5, outcomes = a5 full, wait b1, outcomes = a5 full+a4 full, wait b2, outcomes = a5 full+a4 full+a3 full, wait b3, outcomes = a5 full+a4 full+a3 full+b3 full, waiting = 4
`;

for (const [claim = '', most, script = ''] of rowsIn(scripts)) {
  test(claim, (t) => runScript(takenPlaces(t, Number(most)), script));
}

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
  const queue = new PlaceQueue(ignore);
  const nodes = choiceOf(t, [{ tier: 'full', connections: 1 }]);
  queue.take(nodes.node.upstream, 'read');
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
