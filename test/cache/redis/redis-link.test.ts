/** The link to a Redis server that hangs, ends, or answers late. */
import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import type { Cluster } from 'ioredis';
import { RedisLink, type TroubleChange } from '../../../src/cache/redis/redis-link.ts';
import { type RedisClient, connectRedis, connectSubscriber } from '../../../src/cache/redis/redis-source.ts';
import { join } from '../../support/delay-proxy.ts';
import { until } from '../../support/eventually.ts';
import { listen } from '../../support/listen.ts';
import { linkTo } from '../../support/redis-link.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { redisCluster } from '../../support/redis-topology.ts';

/** A link to a real server, and its reports. */
async function linked(t: TestContext, timeoutMs = 50) {
  const server = await redisServer(t);
  const reported: TroubleChange[] = [];
  const link = await linkTo(t, server, { timeoutMs, onTrouble: (change) => reported.push(change) });
  return { server, link, reported };
}

test('a server that hangs is reported once, gets no commands, and is used again', { skip: noRedis }, async (t) => {
  const { server, link, reported } = await linked(t);
  assert.deepEqual(await link.read('key', (client) => client.get('key')), { value: null });
  server.pause();
  const reads = Array.from({ length: 100 }, () => link.read('key', (client) => client.get('key')));
  assert.deepEqual(
    new Set((await Promise.all(reads)).map((outcome) => JSON.stringify(outcome))),
    new Set(['{"failure":"timeout"}']),
  );
  let sent = 0;
  const outcome = await link.read('key', async () => (sent += 1));
  assert.deepEqual([outcome, sent], [{ failure: 'closed' }, 0]);
  assert.equal(link.trouble('circuit open'), 'no answer within 50 ms');
  server.resume();
  await until(() => link.trouble('circuit open') === undefined);
  assert.deepEqual(
    reported.map(({ isOn, trouble }) => `${trouble} ${isOn}`),
    ['circuit open true', 'circuit open false'],
  );
  assert.deepEqual(await link.read('key', (client) => client.get('key')), { value: null });
});

test('a caller short of time opens no circuit to a server that answers in the bound', { skip: noRedis }, async (t) => {
  const { server, link, reported } = await linked(t, 2_000);
  const get = (untilMs = Infinity) => link.read('key', (client) => client.get('key'), { untilMs });
  server.pause();
  assert.deepEqual(await get(performance.now() + 10), { failure: 'timeout' });
  server.resume();
  assert.deepEqual(await get(), { value: null });
  assert.deepEqual([link.trouble('circuit open'), reported], [undefined, []]);
});

test('a caller short of time opens the circuit to a server beyond the bound', { skip: noRedis }, async (t) => {
  const { server, link, reported } = await linked(t);
  server.pause();
  const outcome = await link.read('key', (client) => client.get('key'), { untilMs: performance.now() + 10 });
  assert.deepEqual([outcome, reported], [{ failure: 'timeout' }, []]);
  await until(() => reported.length === 1);
  assert.equal(link.trouble('circuit open'), 'no answer within 50 ms');
  server.resume();
});

test('a server that is away opens the circuit without a single command', { skip: noRedis }, async (t) => {
  const { server, link, reported } = await linked(t);
  await server.kill();
  await until(() => reported.length === 1);
  assert.match(link.trouble('circuit open') ?? '', /^connection (?:refused|cut)$|^the connection is lost$/);
  await server.start();
  await until(() => link.trouble('circuit open') === undefined);
});

test('a command of the client that throws at once is a failure like any other', { skip: noRedis }, async (t) => {
  const { link } = await linked(t);
  const outcome = await link.read('key', () => {
    throw new TypeError('no such slot');
  });
  assert.deepEqual(outcome, { failure: 'connection' });
});

test('the bound of a read counts from its start, not from each command', { skip: noRedis }, async (t) => {
  const { server, link } = await linked(t, 10_000);
  server.pause();
  const start = performance.now();
  const outcome = await link.read('key', (client) => client.get('key'), { untilMs: start + 60 });
  assert.deepEqual(outcome, { failure: 'timeout' });
  assert.ok(performance.now() - start < 1_000);
  server.resume();
});

/** A link in trouble, before a client of which every trial is recorded. */
function troubled(t: TestContext) {
  const state = { isWell: false, trials: [] as number[], changes: [] as boolean[] };
  const hget = async () => {
    state.trials.push(performance.now());
    if (!state.isWell) throw new Error('gone');
  };
  const client = Object.assign(new EventEmitter(), { hget, disconnect: () => {} });
  const connect = () => client as unknown as RedisClient;
  const link = new RedisLink(connect, { timeoutMs: 50 }, 'trial', ({ isOn }) => state.changes.push(isOn));
  t.after(() => link.close());
  client.emit('ready');
  const fail = () => link.read('key', () => Promise.reject(new Error('gone')));
  return { link, state, fail };
}

test('a server in trouble gets trials at growing pauses, the first good one ends them', async (t) => {
  const { link, state, fail } = troubled(t);
  const startMs = performance.now();
  await Promise.all([fail(), fail()]);
  await until(() => state.trials.length === 2);
  const [first = 0, second = 0] = state.trials;
  assert.ok(first >= startMs + 95 && second >= startMs + 290, state.trials.map((ms) => ms - startMs).join());
  state.isWell = true;
  await until(() => link.trouble('circuit open') === undefined);
  assert.deepEqual(state.changes, [true, false]);
});

test('a closed link sends no trial and reports no change', async (t) => {
  const [closed, other] = [troubled(t), troubled(t)];
  await closed.fail();
  closed.link.close();
  closed.state.isWell = true;
  await other.fail();
  await until(() => other.state.trials.length === 2);
  assert.deepEqual([closed.state.trials, closed.state.changes], [[], [true]]);
});

test('a burst after the start of a cluster goes to each server at once', { skip: noRedis }, async (t) => {
  const { target, servers } = await redisCluster(t);
  const link = await linkTo(t, target);
  const keys = Array.from({ length: 60 }, (_, index) => `key ${index}`);
  const outcomes = await Promise.all(keys.map((key) => link.read(key, (client) => client.get(key))));

  assert.deepEqual(new Set(outcomes.map((outcome) => JSON.stringify(outcome))), new Set(['{"value":null}']));
  // The client sends a command that it held back to any server, which names the right one.
  for (const server of servers) assert.doesNotMatch(await server.run((client) => client.info('errorstats')), /MOVED/);
});

test(
  'a server of a cluster that hangs at the start does not keep the others from use',
  { skip: noRedis },
  async (t) => {
    const { target, servers } = await redisCluster(t);
    servers[2]!.pause();
    const link = await linkTo(t, target);
    const outcomes = await Promise.all(
      Array.from({ length: 60 }, (_, index) => link.read(`${index}`, (client) => client.get(`${index}`))),
    );
    assert.ok(outcomes.some((outcome) => 'value' in outcome));
  },
);

// Commands and subscriptions on their way to a real redis-server, and servers that go away at any moment.

/** A client, and what it has sent since it was ready. Answers come only while `isOpen`. */
async function watched(t: TestContext) {
  const server = await redisServer(t);
  const wire = { sent: [] as string[], isOpen: true, release: () => {} };
  const proxy = createServer((near) => {
    const held: Buffer[] = [];
    wire.release = () => held.splice(0).forEach((bytes) => near.write(bytes));
    near.on('data', (bytes) => wire.sent.push(String(bytes)));
    join(near, connect(server.port, '127.0.0.1'), (bytes) => {
      held.push(bytes);
      if (wire.isOpen) wire.release();
    });
  });
  const url = `redis://127.0.0.1:${await listen(t, proxy)}`;
  const client = connectRedis({ kind: 'single', url }, () => undefined);
  t.after(() => client.disconnect());
  await once(client, 'ready');
  wire.sent = [];
  return { client, wire };
}

test('a command is sent before earlier ones are answered', { skip: noRedis }, async (t) => {
  const { client, wire } = await watched(t);
  wire.isOpen = false;
  const first = client.get('first');
  await until(() => wire.sent.join('').includes('first'));
  const second = client.get('second');
  await until(() => wire.sent.join('').includes('second'));
  wire.release();
  wire.isOpen = true;
  assert.deepEqual(await Promise.all([first, second]), [null, null]);
});

test('commands of one turn are sent in one write', { skip: noRedis }, async (t) => {
  const { client, wire } = await watched(t);
  await Promise.all(Array.from({ length: 20 }, (_, index) => client.hget(`page${index}`, '1')));
  assert.equal(wire.sent.length, 1);
  assert.match(wire.sent[0] ?? '', /page0.*page19/s);
});

/** A proxy that cuts a connection when its client subscribes, as often as `cuts` says. */
async function cuttingProxy(t: TestContext, port: number, cuts: { left: number }) {
  const open = new Set<Socket>();
  const proxy = createServer((client) => {
    open.add(client);
    client.on('data', (bytes) => {
      if (cuts.left === 0 || !bytes.includes('subscribe')) return;
      cuts.left -= 1;
      client.destroy();
    });
    join(client, connect(port, '127.0.0.1'));
  });
  return { port: await listen(t, proxy), cut: () => [...open].forEach((socket) => socket.destroy()) };
}

test('a server that goes away while a subscription is renewed ends no process', { skip: noRedis }, async (t) => {
  const { url } = await redisServer(t);
  const cuts = { left: 0 };
  const proxy = await cuttingProxy(t, Number(new URL(url).port), cuts);
  const subscriber = connectSubscriber({ kind: 'single', url: `redis://127.0.0.1:${proxy.port}` }, () => undefined);
  t.after(() => subscriber.disconnect());
  const rejections: unknown[] = [];
  const note = (reason: unknown): void => void rejections.push(reason);
  process.on('unhandledRejection', note);
  t.after(() => process.off('unhandledRejection', note));
  subscriber.on('ready', () => void subscriber.subscribe('news').catch(() => undefined));
  await once(subscriber, 'ready');
  await subscriber.subscribe('news');

  cuts.left = 3;
  proxy.cut();
  await until(() => cuts.left === 0);
  const received = once(subscriber, 'message');
  const { Redis } = await import('ioredis');
  const publisher = new Redis(url);
  t.after(() => publisher.disconnect());
  await until(async () => (await publisher.publish('news', 'again')) === 1);

  assert.deepEqual(await received, ['news', 'again']);
  assert.deepEqual(rejections, []);
});

test('a primary that a ready cluster gets is connected to before its first command', { skip: noRedis }, async (t) => {
  const { target, servers } = await redisCluster(t);
  const client = connectRedis(target, () => undefined) as Cluster;
  t.after(() => client.disconnect());
  const areReady = () => client.nodes('master').filter(({ status }) => status === 'ready').length === servers.length;
  await once(client, 'ready');
  await until(areReady);

  const left = once(client, '-node');
  client.nodes('master')[0]?.disconnect();
  await left;
  assert.equal(client.nodes('master').length, servers.length - 1);
  client.refreshSlotsCache();
  await until(areReady);
});
