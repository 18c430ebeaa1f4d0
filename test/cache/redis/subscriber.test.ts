// A subscriber whose server goes away at any moment leaves no rejection behind, which would end the process.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { connectSubscriber } from '../../../src/cache/redis/redis-source.ts';
import { until } from '../../support/eventually.ts';
import { listen } from '../../support/listen.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';

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
  await until(() => cuts.left === 0, 20);
  const received = once(subscriber, 'message');
  const { Redis } = await import('ioredis');
  const publisher = new Redis(url);
  t.after(() => publisher.disconnect());
  await until(async () => (await publisher.publish('news', 'again')) === 1, 20);

  assert.deepEqual(await received, ['news', 'again']);
  assert.deepEqual(rejections, []);
});
