/** Commands and subscriptions on their way to a real redis-server, and servers that go away at any moment. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import type { Cluster } from 'ioredis';
import { connectRedis, connectSubscriber } from '../../../src/cache/redis/redis-source.ts';
import { until } from '../../support/eventually.ts';
import { listen } from '../../support/listen.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';
import { redisCluster } from '../../support/redis-topology.ts';

/** A client, and what it has sent since it was ready. Answers come only while `isOpen`. */
async function watched(t: TestContext) {
  const server = await redisServer(t);
  const wire = { sent: [] as string[], isOpen: true, release: () => {} };
  const proxy = createServer((near) => {
    const far = connect(server.port, '127.0.0.1');
    const held: Buffer[] = [];
    wire.release = () => held.splice(0).forEach((bytes) => near.write(bytes));
    near.on('data', (bytes) => {
      wire.sent.push(String(bytes));
      far.write(bytes);
    });
    far.on('data', (bytes) => {
      held.push(bytes);
      if (wire.isOpen) wire.release();
    });
    for (const socket of [near, far]) socket.on('error', () => undefined);
    near.on('close', () => far.destroy());
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
    const server = connect(port, '127.0.0.1');
    open.add(client);
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      from.on('error', () => undefined).on('close', () => to.destroy());
    }
    server.on('data', (bytes) => client.write(bytes));
    client.on('data', (bytes) => {
      if (!bytes.includes('subscribe')) server.write(bytes);
      else if (cuts.left > 0) {
        cuts.left -= 1;
        client.destroy();
      } else server.write(bytes);
    });
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
