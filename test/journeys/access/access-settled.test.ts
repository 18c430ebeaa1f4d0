// Settlements reach the limits once for each request, however it ends.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import type { Settled } from '../../../src/access/limits/cost.ts';
import { AdmittedRequest, PlanLimits } from '../../../src/access/limits/limits.ts';
import type { AccessConfig } from '../../../src/config/config.ts';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { EventReader, testStreams } from '../../support/event-reader.ts';
import { until, eventually } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { testGateway, nodeAndGateway, fetchReply, statusesOf } from '../../support/gateway.ts';
import { bearer, keyedGateway, path } from '../../support/keyed-gateway.ts';
import { accessConfig, planConfig, testKey, type TestKey } from '../../support/keys.ts';
import { noRedis, redisAt, redisServer } from '../../support/redis-server.ts';
import { submission } from '../../support/submission.ts';

const view = '{"function":"0x1::ledgergate_sample::version","type_arguments":[],"arguments":[]}';

type Admit = PlanLimits['admit'];

/** Records what the limits admit and settle. `change`: makes another decision of theirs. */
function watchLimits(t: TestContext, change: (admit: Admit) => Admit = (admit) => admit) {
  const limits: { admit: Admit } = PlanLimits.prototype;
  const { admit } = limits;
  const changed = function changed(this: PlanLimits, ...asked: Parameters<Admit>) {
    return change((...given) => admit.apply(this, given))(...asked);
  };
  const admits = t.mock.method(limits, 'admit', changed).mock;
  const settles = t.mock.method(PlanLimits.prototype, 'settle').mock;
  return {
    get admitted() {
      return admits.calls.map(({ arguments: [{ tenant }, operation] }) => [tenant, operation] as const);
    },
    get settled(): readonly Settled[] {
      return settles.calls.map(({ arguments: [, settled] }) => settled);
    },
  };
}

async function world(
  t: TestContext,
  more: Parameters<typeof accessConfig>[0] = {},
  listen: { readonly fastPath?: boolean } = {},
) {
  const node = await fakeNode(t, { head: 900n });
  const limits = watchLimits(t);
  const access = accessConfig({ anonymous: 'free', plans: { free: planConfig({ requests: 100 }) }, ...more });
  return { node, limits, gateway: await testGateway(t, { full: [node], access, config: { listen } }) };
}

test('a passed spelling is counted as the operation that it looks like, asked of a node', async (t) => {
  const { limits, gateway } = await world(t);
  const sent = [
    ['POST', '/view/', 'view'],
    ['POST', '/Transactions', 'submit'],
    ['POST', '/transactions/encode_submission;a', 'encode'],
    ['GET', '/accounts/0x1/module/coin/', 'read'],
    ['POST', '/transactions/simulate', 'pass'],
  ] as const;
  for (const [method, target, operation] of sent) {
    await gateway.send(method, target, method === 'POST' ? { body: view } : {});
    assert.deepEqual(limits.admitted.at(-1)?.[1], operation, target);
    assert.partialDeepStrictEqual(limits.settled.at(-1), { operation, outcome: 'miss' }, target);
  }
});

test('a request is settled once: outcome, time at the node, gas, bytes', async (t) => {
  const { node, limits, gateway } = await world(t);
  const last = () => limits.settled.at(-1);

  const miss = await gateway.get(path);
  assert.match(String(miss.headers['ratelimit']), /^"requests";r=99;t=\d+$/);
  assert.partialDeepStrictEqual(last(), { operation: 'read', outcome: 'miss', status: 200, bytes: miss.body.length });
  assert.ok((last()?.upstreamMs ?? 0) > 0);
  const hit = await gateway.get(path);
  assert.match(String(hit.headers['ratelimit']), /^"requests";r=98;t=\d+$/);
  assert.deepEqual(last(), {
    operation: 'read',
    outcome: 'hit',
    status: 200,
    upstreamMs: 0,
    gasUsed: undefined,
    bytes: hit.body.length,
    bodyBytes: 0,
  });
  await gateway.post('/view?ledger_version=5', view);
  assert.partialDeepStrictEqual(last(), { operation: 'view', outcome: 'miss', bodyBytes: view.length });
  assert.match(last()?.gasUsed ?? '', /^[1-9]\d*$/);
  await gateway.post('/view?ledger_version=5', view);
  assert.partialDeepStrictEqual(last(), { operation: 'view', outcome: 'hit', gasUsed: undefined });
  await gateway.post('/view?ledger_version=5', gzipSync(view), { 'content-encoding': 'gzip' });
  assert.partialDeepStrictEqual(last(), { operation: 'view', outcome: 'miss' });
  const passed = await gateway.get('/accounts/0x1?x=1');
  assert.partialDeepStrictEqual(last(), { operation: 'pass', outcome: 'miss', bytes: passed.body.length });
  await gateway.post('/transactions', submission());
  assert.partialDeepStrictEqual(last(), { operation: 'submit', outcome: 'miss', status: 202 });
  await gateway.get('');
  assert.partialDeepStrictEqual(last(), { operation: 'read', outcome: 'local', status: 200 });
  const wrong = await gateway.get('/accounts/0x1/module/coin?ledger_version=x');
  assert.match(String(wrong.headers['ratelimit']), /^"requests";r=91;t=\d+$/);
  assert.partialDeepStrictEqual(last(), { operation: 'read', outcome: 'error', status: 400 });
  node.fault = { kind: 'reset' };
  await gateway.get('/accounts/0x2?x=1');
  assert.partialDeepStrictEqual(last(), { operation: 'pass', outcome: 'error', status: 503 });
  await gateway.send('OPTIONS', path, { headers: { origin: 'https://a', 'access-control-request-method': 'GET' } });

  assert.equal(limits.settled.length, 10);
  assert.equal(limits.admitted.length, 10);
});

test("one of several coalesced requests is charged for the node's time", async (t) => {
  const { node, limits, gateway } = await world(t);
  node.fault = { kind: 'latency', ms: 100 };

  await Promise.all(Array.from({ length: 5 }, () => gateway.get(path)));

  assert.deepEqual(limits.settled.map(({ outcome }) => outcome).sort(), [
    ...Array<string>(4).fill('collapsed'),
    'miss',
  ]);
  assert.equal(limits.settled.filter(({ upstreamMs }) => upstreamMs >= 90).length, 1);
});

test('when the leader of a coalesced view hangs up, the next client is charged for the load', async (t) => {
  const { node, limits, gateway } = await world(t);
  const release = node.hold();
  const asked = node.log.next();
  const first = await sent(gateway, `POST /v1/view?ledger_version=5 ${json} ${view.length}\r\n\r\n${view}`);
  await asked;
  const others = [1, 2].map(() => gateway.post('/view?ledger_version=5', view));
  await until(async () => (await gateway.metric('ledgergate_http_in_flight_requests')) === 3);

  first.destroy();
  await until(() => limits.settled.length === 1);
  release();
  const answers = await Promise.all(others);

  assert.deepEqual(statusesOf(answers), [200, 200]);
  assert.equal(limits.settled.length, 3);
  assert.deepEqual(limits.settled.map(({ outcome }) => outcome).sort(), ['collapsed', 'error', 'miss']);
  assert.ok(limits.settled.some(({ outcome, gasUsed }) => outcome === 'miss' && Number(gasUsed) > 0));
  assert.equal(await gateway.metric('ledgergate_coalesced_requests_total'), 1);
});

/** Opens a connection and sends on it. */
async function sent({ port }: { readonly port: number }, ...pieces: readonly string[]) {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  for (const piece of pieces) socket.write(piece);
  return socket;
}

const json = 'HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length:';
const unfinished = `POST /v1/view ${json} 99\r\n\r\n{`;
const pinned = `GET /v1${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
const passedOn = 'GET /v1/accounts/0x1?x=1 HTTP/1.1\r\nHost: a\r\n\r\n';

test("a client that hangs up is settled: within a body, during the node's read, and for pipelined requests", async (t) => {
  // The fast path admits a request once it is complete, and those of a pipeline one after another.
  const { node, limits, gateway } = await world(t, {}, { fastPath: false });
  node.fault = { kind: 'latency', ms: 5_000 };
  let count = 0;
  for (const pieces of [[unfinished], [pinned], [passedOn], [pinned, passedOn, unfinished]]) {
    const socket = await sent(gateway, ...pieces);
    count += pieces.length;
    await until(() => limits.admitted.length === count);
    socket.destroy();
    await until(() => limits.settled.length === count);
  }
  assert.deepEqual(
    limits.settled.map(({ outcome, status }) => `${outcome} ${status}`),
    Array<string>(6).fill('error 499'),
  );
});

test("a client that hangs up pays for the node's time", async (t) => {
  const { node, limits, gateway } = await world(t);
  node.fault = { kind: 'latency', ms: 5_000 };
  const viewed = `POST /v1/view?ledger_version=5 ${json} ${view.length}\r\n\r\n${view}`;
  for (const [index, request] of [passedOn, pinned, viewed].entries()) {
    const socket = await sent(gateway, request);
    await sleep(300);
    socket.destroy();
    await until(() => limits.settled.length === index + 1);
    const { status, upstreamMs } = limits.settled.at(-1) ?? {};
    assert.equal(status, 499);
    assert.ok(upstreamMs !== undefined && upstreamMs > 100 && upstreamMs < 5_000, `${request}: ${upstreamMs} ms`);
  }
});

test('a queued request is admitted late, refused late, or dropped when its client hangs up', async (t) => {
  let decide: ((refusal?: GatewayError) => void) | undefined;
  let wait: { readonly aborted: boolean } | undefined;
  const limits = watchLimits(t, (admit) => (principal, operation, signal) => {
    const now = admit(principal, operation, signal);
    assert.ok(now instanceof AdmittedRequest);
    wait = signal;
    return new Promise((resolve) => {
      decide = (refusal) => resolve(refusal ?? now);
    });
  });
  const { gateway } = await nodeAndGateway(t, { access: accessConfig({ anonymous: 'free' }) });
  const admitted = (count: number) => until(() => limits.admitted.length === count);

  const late = gateway.get(path);
  await admitted(1);
  decide?.();
  assert.equal((await late).status, 200);

  const refused = gateway.get(path, { origin: 'https://a' });
  await admitted(2);
  decide?.(new GatewayError('rateLimited', 'over', { headers: ['RateLimit', '"free";r=0;t=2', 'Retry-After', '2'] }));
  const reply = await refused;
  assert.equal(reply.status, 429);
  assert.equal((JSON.parse(reply.text) as { error_code: string }).error_code, 'rate_limited');
  assert.equal(reply.headers['retry-after'], '2');
  assert.equal(reply.headers['ratelimit'], '"free";r=0;t=2');
  assert.equal(reply.headers['access-control-allow-origin'], 'https://a');
  assert.equal(reply.headers['cache-control'], 'no-store');

  const uncounted = gateway.get(path);
  await admitted(3);
  decide?.(new GatewayError('unavailable', 'not counted', { headers: ['Retry-After', '3'] }));
  assert.partialDeepStrictEqual(await uncounted, { status: 503, headers: { 'retry-after': '3' } });

  assert.equal(limits.settled.length, 1);
  const socket = await sent(gateway, pinned);
  await admitted(4);
  socket.destroy();
  await until(() => wait?.aborted === true);
  // The place was given in the same moment: it has to come back.
  decide?.();
  await until(() => limits.settled.length === 2);
  assert.partialDeepStrictEqual(limits.settled.at(-1), { outcome: 'error', status: 499 });
});

test('a client that hangs up during its count is not refused for a limit', { skip: noRedis }, async (t) => {
  const redis = await redisServer(t);
  const { gateway } = await nodeAndGateway(t, {
    config: { cache: { redis: redisAt(redis.url, { timeoutMs: 5_000 }) } },
    access: accessConfig({ anonymous: 'free', plans: { free: planConfig({ requests: 1_000 }) } }),
  });
  const connections = (count: number) =>
    until(async () => (await gateway.metric('ledgergate_http_connections')) === count);
  assert.equal((await gateway.get(path)).status, 200);
  const before = await gateway.metric('ledgergate_http_connections');

  redis.pause();
  const sockets = await Promise.all([1, 2, 3].map(() => sent(gateway, pinned)));
  await connections(before + 3);
  for (const socket of sockets) socket.destroy();
  await connections(before);
  redis.resume();
  // Redis answers in turn: what it was asked before has been answered when this has.
  assert.equal((await gateway.get(path)).status, 200);

  const refused = ['ledgergate_access_refusals_total{reason="limit",plan="free"}'];
  refused.push('ledgergate_access_requests_total{plan="free",outcome="refused"}');
  assert.deepEqual(await Promise.all(refused.map((sample) => gateway.metric(sample))), [0, 0]);
});

// Event streams under keys and plans: how many a client has, and their end with the key, its time or its origin.

/** Closes a stream with its test. */
type Track = (opening: Promise<EventReader>) => Promise<EventReader>;

/** The key with another record. */
const changed = ({ text, entry }: TestKey, more: TestKey['entry']): TestKey => ({
  text,
  entry: { ...entry, ...more },
});

/** A gateway with keys, and its streams. */
async function streaming(t: TestContext, track: Track, keys: readonly TestKey[], plans?: AccessConfig['plans']) {
  const { node, file, gateway } = await keyedGateway(t, keys, plans && { plans });
  const open = (key: TestKey, headers: Record<string, string> = {}) =>
    track(EventReader.open(`${gateway.url}/transactions?start=890`, { ...bearer(key), ...headers }));
  const closed = (reason: string) =>
    gateway.metric(`ledgergate_streams_closed_total{kind="transactions",reason="${reason}"}`);
  return { node, file, gateway, open, closed };
}

testStreams('a plan bounds the streams of a tenant, and an ended one makes room', async (t, track) => {
  const [one, other] = [testKey('one', { tenant: 'acme' }), testKey('other', { tenant: 'acme' })];
  const plans = { free: planConfig({ streams: 2, requests: 100 }) };
  const { gateway, open } = await streaming(t, track, [one, other], plans);
  const streams = [await open(one), await open(other)];
  assert.deepEqual(statusesOf(streams), [200, 200]);
  assert.match(streams[0]?.headers['ratelimit'] as string, /^"requests";r=99/);

  const refused = await open(other);
  await refused.ended;
  assert.equal(refused.status, 429);
  assert.equal(JSON.parse(refused.text).error_code, 'rate_limited');
  assert.ok(refused.headers['retry-after']);
  assert.equal(await gateway.metric('ledgergate_streams_refused_total{reason="plan"}'), 1);
  assert.equal(await gateway.metric('ledgergate_limits_refusals_total{plan="free",bound="streams"}'), 1);

  streams[0]?.close();
  await until(async () => (await gateway.metric('ledgergate_streams{kind="transactions"}')) === 1);
  assert.equal((await open(one)).status, 200);
});

testStreams(
  'streams end with their key, with its time, and with its right; those of others go on',
  async (t, track) => {
    const [stays, goes, narrowed] = [testKey('stays'), testKey('goes'), testKey('narrowed')];
    const late = testKey('late');
    const { file, open, closed } = await streaming(t, track, [stays, goes, narrowed, late]);
    const streams = [await open(stays), await open(goes), await open(narrowed), await open(late)];
    assert.deepEqual(statusesOf(streams), [200, 200, 200, 200]);
    const expires = new Date(Date.now() + 500).toISOString();
    file.write([stays, changed(narrowed, { operations: ['view'] }), changed(late, { expires })]);
    const ends = await Promise.all(streams.slice(1).map(({ ended }) => ended));
    assert.deepEqual(ends, [true, true, true]);
    assert.equal(await closed('revoked'), 3);
    assert.equal(streams[0]?.hasEnded, false);
  },
);

testStreams('a stream needs the origin of its key, and ends when the key has lost it', async (t, track) => {
  const [own, foreign] = ['https://wallet.example', 'https://other.example'];
  const key = testKey('page', { origins: [own] });
  const { file, open, closed } = await streaming(t, track, [key]);
  assert.equal((await open(key, { origin: foreign })).status, 403);
  const stream = await open(key, { origin: own });
  assert.equal(stream.status, 200);
  assert.equal(stream.headers['access-control-allow-origin'], own);
  file.write([{ ...key, entry: { ...key.entry, origins: [foreign] } }]);
  await stream.ended;
  assert.equal(await closed('revoked'), 1);
});

testStreams('bytes of a stream are usage of its key', async (t, track) => {
  const key = testKey('reader');
  const { gateway, open } = await streaming(t, track, [key]);
  const stream = await open(key);
  await stream.shows('id: 900\n');
  const usage = async (): Promise<{ requests: number; bytes: number }> => {
    const { text } = await fetchReply(`${gateway.operationsUrl}/admin/usage`, { method: 'GET' });
    const { rows } = JSON.parse(text) as { rows: { requests: number; bytes: number }[] };
    const sum = (of: 'requests' | 'bytes'): number => rows.reduce((all, row) => all + row[of], 0);
    return { requests: sum('requests'), bytes: sum('bytes') };
  };
  const { requests } = await eventually(usage, ({ bytes }) => bytes >= Buffer.byteLength(stream.text));
  // The request, and the page that was read for it.
  assert.equal(requests, 2);
});

testStreams('an open stream is charged to the plan that its key has by now', async (t, track) => {
  const key = testKey('moved');
  const plans = { free: planConfig({ requests: 100 }), slow: planConfig({ requests: 100 }) };
  const { node, file, gateway, open } = await streaming(t, track, [key], plans);
  const stream = await open(key);
  await stream.shows('id: 900\n');
  const plansOf = async (): Promise<ReadonlySet<string>> => {
    const { text } = await fetchReply(`${gateway.operationsUrl}/admin/usage`, { method: 'GET' });
    const { rows } = JSON.parse(text) as { rows: { plan: string; bytes: number }[] };
    return new Set(rows.filter(({ bytes }) => bytes > 0).map(({ plan }) => plan));
  };
  assert.deepEqual([...(await eventually(plansOf, (found) => found.size > 0))], ['free']);
  file.write([changed(key, { plan: 'slow' })]);
  const found = await eventually(plansOf, (names) => {
    node.clock.head += 1n;
    return names.has('slow');
  });
  assert.equal(found.has('slow'), true);
  assert.equal(stream.hasEnded, false);
});
