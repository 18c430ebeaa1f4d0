/** Requests of a sender: all resources are freed, and what hedges, retries and reads in the background may take. */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { type FleetRequest, UnreachedError } from '../../../src/upstream/dispatch/fleet-request.ts';
import { until } from '../../support/eventually.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';
import { type MadeUpSender, never, request, senderOf } from '../../support/sender.ts';

/** Numbers that look random, the same ones for the same seed. */
function chances(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const large = Buffer.alloc(300 * 1024);
const info = ledgerInfo({ version: 900n });
const headers = [...new Dialect('node').list(info)];

const outcomes: readonly ((response: ServerResponse) => void)[] = [
  (response) => response.writeHead(200, headers).end('{}'),
  (response) => response.writeHead(200, headers).end('{}'),
  (response) => response.writeHead(200, headers).end(large),
  (response) => response.writeHead(500, headers).end('{"error_code":"internal_error"}'),
  (response) => response.writeHead(429).end(),
  (response) => response.writeHead(410, headers).end('{"error_code":"version_pruned"}'),
  (response) => response.socket?.destroy(),
  (response) => void response.writeHead(200, [...headers, 'Content-Length', '9']).write('{'),
  () => undefined,
];

for (const seed of [1, 2, 3, 4]) {
  test(`all places, streams, polls and waits are given back (seed ${seed})`, async (t) => {
    const chance = chances(seed);
    const { sender, fleet } = await senderOf(
      t,
      (_request, response) => {
        const outcome = outcomes[chance(outcomes.length)];
        setTimeout(() => outcome?.(response), chance(15)).unref();
      },
      {
        nodes: 3,
        connections: 4,
        limits: { timeoutMs: 60, deadlineMs: 300, stallMs: 50, hedge: { quantile: 0.5, share: 1 } },
      },
    );
    const version = LedgerVersion.of(800n);
    const one = async (index: number): Promise<void> => {
      const leaving = new AbortController();
      const { wire } = request(`/${index}`);
      const asked: FleetRequest = {
        wire: chance(5) === 0 ? { ...wire, method: 'POST', body: Buffer.from('x') } : wire,
        need: chance(3) === 0 ? { kind: 'head' } : { kind: 'version', version },
        isIdempotent: chance(5) > 0,
        isView: chance(4) === 0,
        client: String(chance(3)),
        atOnce: chance(8) === 0 ? wire : undefined,
      };
      if (chance(3) === 0) setTimeout(() => leaving.abort(), chance(40));
      const kind = asked.atOnce === undefined ? chance(3) : 0;
      if (kind === 2 && asked.need.kind === 'version') {
        await sender.another(asked, [], AbortSignal.any([leaving.signal, AbortSignal.timeout(100)]));
        return;
      }
      const answer = await (kind === 0 ? sender.whole(asked, leaving.signal) : sender.stream(asked, leaving.signal));
      if (!('stream' in answer)) return;
      const reader = chance(4);
      if (reader < 2) answer.stream.resume();
      else if (reader === 2) answer.stream.destroy();
    };
    const all: Promise<void>[] = [];
    for (let index = 0; index < 250; index += 1) {
      all.push(
        one(index).catch((error: unknown) => assert.equal((error as Error).name, 'GatewayError', String(error))),
      );
      if (chance(3) === 0) await pause(chance(4));
    }
    await Promise.all(all);
    const held = (): number[] => [
      sender.waiting,
      ...fleet.upstreams.flatMap(({ inFlight, places, streams, polls }) => [
        inFlight,
        places.inFlight,
        streams.taken,
        polls.taken,
      ]),
    ];
    for (let waits = 0; held().some((count) => count > 0) && waits < 300; waits += 1) await pause(10);
    assert.deepEqual(
      held(),
      Array.from({ length: 13 }, () => 0),
    );
  });
}

test('a hedge that HTTP forbids at its node takes the first attempt along', async (t) => {
  const { sender, fleet } = await senderOf(
    t,
    // The request hangs, and its hedge gets a header that no request may have.
    () => {
      for (const upstream of fleet.upstreams) Object.assign(upstream, { headers: { 'x-key': 'a\nb' } });
    },
    { nodes: 2, connections: 4, limits: { timeoutMs: 20_000, hedge: { quantile: 0.9, share: 1 } } },
  );
  const read = { ...request('/x'), need: { kind: 'head', min: LedgerVersion.of(0n) } } as const;
  for (const { latencies } of fleet.upstreams)
    for (let count = 0; count < 30; count += 1) latencies.head.record(500, performance.now());

  await assert.rejects(sender.whole(read, never), /cannot be sent on/);

  await until(() => fleet.upstreams.every(({ inFlight }) => inFlight === 0));
});

test('a node that fails hedges is compared with the nodes that answer those reads', async (t) => {
  const { sender, fleet, counted } = await senderOf(
    t,
    ({ headers: { host } }, response) => {
      const isWrong = host?.endsWith(`:${wrong?.name.slice(1)}`) === true;
      // Its own headers contradict the 410.
      if (isWrong) response.writeHead(410, headers).end('{"error_code":"version_pruned"}');
      else setTimeout(() => response.writeHead(200, headers).end('{}'), 100);
    },
    { nodes: 2, connections: 4, limits: { hedge: { quantile: 0.5, share: 1 } } },
  );
  const [, wrong] = fleet.upstreams;
  for (const upstream of fleet.upstreams) fleet.observe(upstream, info, performance.now());
  fleet.ledger.settle();
  // The others are asked first.
  Object.assign(wrong ?? {}, { weight: 1e-9 });
  const read = { ...request('/x'), need: { kind: 'version', version: LedgerVersion.of(800n) } } as const;
  for (let reads = 0; reads < 5; reads += 1) {
    for (const { latencies } of fleet.upstreams)
      for (let count = 0; count < 30; count += 1) latencies.head.record(5, performance.now());
    assert.equal((await sender.whole(read, never)).status, 200);
  }

  assert.equal(await counted('ledgergate_hedges_total', 'outcome', 'lost'), 5);
  assert.equal(await counted('ledgergate_pruned_answers_repaired_total'), 5);
  assert.equal(wrong?.ejections.head.reason, 'error');
});

test('nodes that close every connection are not asked everything twice', async (t) => {
  let arrived = 0;
  const { sender } = await senderOf(
    t,
    ({ socket }) => {
      arrived += 1;
      socket.destroy();
    },
    { nodes: 2, connections: 16 },
  );
  const ask = async (times: number): Promise<void> => {
    for (let count = 0; count < times; count += 1) await assert.rejects(sender.whole(request('/x'), never));
  };
  // Until what is saved up for all nodes together is used up.
  await ask(500);
  arrived = 0;
  const startedMs = performance.now();

  await ask(300);

  // A share of the requests, and ten a second.
  const earned = 300 * 0.2 + ((performance.now() - startedMs) / 1000) * 10;
  assert.ok(arrived <= 300 + earned + 1, `${arrived} requests for 300`);
});

test('a look, which many requests wait for, goes on at another node when the share of retries is used up', async (t) => {
  let looks = 0;
  const { sender, counted } = await senderOf(
    t,
    ({ url }, response) => {
      const isAnswered = url === '/v1' && (looks += 1) === 2;
      if (isAnswered) response.writeHead(200, headers).end('{}');
      else response.socket?.destroy();
    },
    { nodes: 2, connections: 16 },
  );
  while ((await counted('ledgergate_retries_total', 'outcome', 'refused')) === 0)
    await Promise.allSettled(Array.from({ length: 16 }, () => sender.whole(request('/x'), never)));

  assert.equal((await sender.whole({ ...request(''), isLook: true }, never)).status, 200);
});

test('the holder that failed stays one that was asked when the share of retries is used up', async (t) => {
  const { sender, fleet, upstream, counted } = await senderOf(t, (_, response) => response.writeHead(502).end(), {
    nodes: 2,
    connections: 16,
  });
  for (const [index, node] of fleet.upstreams.entries())
    fleet.observe(node, ledgerInfo({ version: index === 0 ? 900n : 500n }), performance.now());
  fleet.ledger.settle();
  const read = {
    ...request('/x'),
    need: { kind: 'version', version: LedgerVersion.of(800n), isChosen: true },
  } as const;
  const asked = new Set<unknown>();
  while ((await counted('ledgergate_retries_total', 'outcome', 'refused')) < 16) {
    const ends = await Promise.allSettled(Array.from({ length: 16 }, () => sender.whole(read, never)));
    for (const end of ends) {
      assert.ok(end.status === 'rejected' && end.reason instanceof UnreachedError);
      asked.add(end.reason.failed.map(({ name }) => name).join());
    }
  }

  assert.deepEqual([...asked], [upstream.name]);
});

test('a submission that never left goes to another node when the share of retries is used up', async (t) => {
  const { sender, server, counted } = await senderOf(
    t,
    ({ method }, response) => {
      if (method === 'POST') response.writeHead(202, headers).end('{}');
      else response.writeHead(502).end();
    },
    { nodes: 2, connections: 64 },
  );
  while ((await counted('ledgergate_retries_total', 'outcome', 'refused')) < 16)
    await Promise.allSettled(Array.from({ length: 16 }, () => sender.whole(request('/x'), never)));
  server.close().closeAllConnections();
  const wire = { method: 'POST', path: '/transactions', headers: {}, body: Buffer.from('{}') } as const;
  const submission = { wire, need: { kind: 'head' }, isIdempotent: false } as const;

  const answers = await Promise.all(Array.from({ length: 40 }, () => sender.whole(submission, never)));

  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([202]));
});

const held = { kind: 'version', version: LedgerVersion.of(900n) } as const;

/** Nodes at version 900 that never answer. */
async function spareOf(t: TestContext, options: Pick<MadeUpSender, 'connections' | 'nodes'>) {
  const made = await senderOf(t, () => undefined, options);
  for (const upstream of made.fleet.upstreams) made.fleet.observe(upstream, info, performance.now());
  return made;
}

test('no node has to spare for a version above its head, or with half of the places of any taken', async (t) => {
  const { sender, upstream } = await spareOf(t, { connections: 4, nodes: 2 });
  assert.equal(sender.hasToSpare(held), true);
  assert.equal(sender.hasToSpare({ ...held, version: LedgerVersion.of(901n) }), false);
  for (let place = 0; place < upstream.places.limit / 2; place += 1) upstream.places.enter();
  assert.equal(sender.hasToSpare(held), false);
});

test('an allowance keeps half of its burst for clients', async (t) => {
  const { sender, upstream } = await spareOf(t, { connections: 4 });
  const nowMs = performance.now();
  upstream.allowance.change(1_000, nowMs);
  for (let token = 0; token < 400; token += 1) upstream.allowance.spend(nowMs);
  assert.equal(sender.hasToSpare(held), true);
  // A debt of a burst: half of it is back in a second and a half.
  for (let token = 0; token < 2_000; token += 1) upstream.allowance.spend(performance.now());
  assert.equal(sender.hasToSpare(held), false);
});

test('while a request waits for a place, no node has to spare', async (t) => {
  const { sender } = await spareOf(t, { connections: 1 });
  const leaving = new AbortController();
  const asked = ['/1', '/2'].map((path) => sender.whole(request(path), leaving.signal).catch(() => undefined));
  await until(() => sender.waiting === 1);
  assert.equal(sender.hasToSpare(held), false);
  leaving.abort();
  await Promise.all(asked);
});

test('views that take too long do not take places from reads, reads that do take some', async (t) => {
  const { sender, upstream } = await senderOf(t, () => undefined, {
    connections: 64,
    limits: { timeoutMs: 20, maxAttempts: 1 },
  });
  const ask = (isView: boolean) =>
    assert.rejects(
      sender.whole({ ...request('/slow'), need: { kind: 'head', min: LedgerVersion.of(0n) }, isView }, never),
      /no node answered/,
    );
  await Promise.all([ask(true), ask(true)]);
  assert.equal(upstream.places.limit, 64);
  await Promise.all([ask(false), ask(false)]);
  assert.ok(upstream.places.limit < 64);
});
