import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test, type TestContext } from 'node:test';
import { dialectOf } from '../../src/ledger/ledger-headers.ts';
import { Admission, type Place } from '../../src/upstream/admission.ts';
import { Fleet } from '../../src/upstream/fleet.ts';
import { Upstream, type Tier } from '../../src/upstream/upstream.ts';
import { until } from '../support/eventually.ts';
import { quietEvents } from '../support/fleet-events.ts';
import { request, senderOf } from '../support/sender.ts';

const patient = { client: 'a', signal: new AbortController().signal, withinMs: 10_000, isStreamed: false };
const settled = (): Promise<void> => new Promise(setImmediate);

/** Nodes that nothing is sent to, as an admission is told of them. */
function nodesOf(t: TestContext, tiers: readonly { readonly tier: Tier; readonly connections: number }[]) {
  const upstreams = tiers.map(({ tier, connections }, index) => {
    const url = new URL('http://127.0.0.1:9/v1');
    const upstream = new Upstream({ name: `n${index}`, url, tier, connections, connectTimeoutMs: 1_000 });
    t.after(() => upstream.close());
    return upstream;
  });
  return new Fleet(upstreams, dialectOf('node'), quietEvents).candidates(0);
}

function taken(place: Place | string | undefined): Place {
  assert.ok(typeof place === 'object');
  return place;
}

test('who waits for a full node is lent a place of the archival one only while half of those are free', async (t) => {
  const nodes = nodesOf(t, [
    { tier: 'full', connections: 1 },
    { tier: 'archival', connections: 4 },
  ]);
  const admission = new Admission();
  const full = taken(admission.enterFree(nodes, false));
  const archive = [0, 1, 2, 3].map(() => taken(admission.enterFree(nodes.slice(1), false)));
  const got: string[] = [];
  const waits = [0, 1].map(async () => got.push(taken(await admission.enter(nodes, patient)).upstream.tier));
  for (const expected of [[], [], ['archival']]) {
    archive.pop()?.leave();
    await settled();
    assert.deepEqual(got, expected);
  }
  full.leave();
  await Promise.all(waits);
  assert.deepEqual(got, ['archival', 'full']);
});

test('whoever waits gets the place that a question in the background had', async (t) => {
  const nodes = nodesOf(t, [{ tier: 'full', connections: 1 }]);
  const admission = new Admission();
  const [node] = nodes;
  assert.ok(node !== undefined);
  const background = admission.enterAnyway(node.upstream);
  const waiting = admission.enter(nodes, { ...patient, withinMs: 1_000 });
  await settled();
  background.leave();
  taken(await waiting).leave();
  assert.equal(node.upstream.places.inFlight, 0);
});

test('of many who wait for the connections of streams one gets the place that ends, the others keep no reads out', async (t) => {
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
  // The connections that polls held are given to those who waited.
  await until(() => sender.waiting <= 1);
  leaving.abort();
  await until(() => upstream.inFlight === 0 && sender.waiting === 0);
  assert.deepEqual([upstream.streams.taken, upstream.polls.taken, upstream.places.inFlight], [0, 0, 0]);
});
