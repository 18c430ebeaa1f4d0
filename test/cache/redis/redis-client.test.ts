/** How commands travel to a real redis-server. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { connectRedis } from '../../../src/cache/redis/redis-source.ts';
import { until } from '../../support/redis-replica.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';

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
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  const url = `redis://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const client = connectRedis({ kind: 'single', url }, () => undefined);
  t.after(() => {
    client.disconnect();
    proxy.close();
  });
  await once(client, 'ready');
  wire.sent = [];
  return { client, wire };
}

test('a command is sent before earlier ones are answered', { skip: noRedis }, async (t) => {
  const { client, wire } = await watched(t);
  wire.isOpen = false;
  const first = client.get('first');
  await until('the first is sent', () => wire.sent.join('').includes('first'));
  const second = client.get('second');
  await until('the second is sent', () => wire.sent.join('').includes('second'));
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
