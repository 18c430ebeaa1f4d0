import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { enterPipeline, stateOf } from '../../../../src/proxy/http/server/connection-state.ts';
import { Connections } from '../../../../src/proxy/http/server/connections.ts';
import { until } from '../../../support/eventually.ts';
import { listen } from '../../../support/listen.ts';

/** A server with a bound and a manual clock; `/held` gets no answer. */
async function boundedServer(t: TestContext, max: number) {
  const clock = { nowMs: 0 };
  const counts = { refused: 0, displaced: 0 };
  const server = createServer((request, response: ServerResponse) => {
    enterPipeline(request.socket, response);
    if (stateOf(request.socket).isRefused) response.writeHead(503, { connection: 'close' }).end();
    else if (request.url !== '/held') response.end('ok');
  });
  const connections = new Connections(server, {
    max,
    now: () => clock.nowMs,
    onRefused: () => (counts.refused += 1),
    onDisplaced: () => (counts.displaced += 1),
  });
  const port = await listen(t, server);
  /** Both ends of a new connection. */
  const openBoth = async (): Promise<readonly [socket: Socket, accepted: Socket]> => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    const [[accepted]] = await Promise.all([once(server, 'connection') as Promise<[Socket]>, once(socket, 'connect')]);
    return [socket, accepted];
  };
  /** Resolves when the server has accepted it. */
  const open = async (): Promise<Socket> => (await openBoth())[0];
  return {
    connections,
    clock,
    counts,
    open,
    openBoth,
    async ask(socket: Socket): Promise<string> {
      socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
      return String((await once(socket, 'data'))[0]);
    },
    /** Sends a request that gets no answer. */
    async hold(socket: Socket): Promise<void> {
      socket.write('GET /held HTTP/1.1\r\nHost: a\r\n\r\n');
      await once(server, 'request');
    },
  };
}

test('at the bound the longest idle connection is displaced', async (t) => {
  const server = await boundedServer(t, 3);
  const [first, second, third] = [await server.open(), await server.open(), await server.open()];
  server.clock.nowMs = 5_000;
  await server.ask(first);
  server.connections.sample();
  server.clock.nowMs = 6_000;
  server.connections.sample();

  const gone = once(second, 'close');
  const newcomer = await server.open();
  await gone;

  assert.match(await server.ask(newcomer), /^HTTP\/1\.1 200 /);
  assert.match(await server.ask(first), /^HTTP\/1\.1 200 /);
  assert.match(await server.ask(third), /^HTTP\/1\.1 200 /);
  assert.deepEqual(server.counts, { refused: 0, displaced: 1 });
  assert.equal(server.connections.open, 3);
});

test('a connection with a request in flight is never displaced; the newcomer is refused', async (t) => {
  const server = await boundedServer(t, 2);
  const busy = [await server.open(), await server.open()];
  for (const socket of busy) await server.hold(socket);
  server.connections.sample();
  server.clock.nowMs = 60_000;
  server.connections.sample();

  const newcomer = await server.open();

  assert.match(await server.ask(newcomer), /^HTTP\/1\.1 503 /);
  assert.deepEqual(server.counts, { refused: 1, displaced: 0 });
  assert.equal(server.connections.open, 2);
  assert.ok(busy.every((socket) => !socket.destroyed));
});

test('a connection with an unread answer is not idle, whichever path wrote it', async (t) => {
  const server = await boundedServer(t, 1);
  const [socket, accepted] = await server.openBoth();
  // Bypasses the HTTP server, as the fast path does.
  accepted.write(Buffer.alloc(32 * 1024 * 1024));
  server.clock.nowMs = 60_000;

  const refused = await server.open();
  assert.match(await server.ask(refused), /^HTTP\/1\.1 503 /);
  assert.ok(!socket.destroyed);

  socket.resume();
  await until(() => accepted.writableLength === 0);
  server.clock.nowMs = 120_000;
  assert.match(await server.ask(await server.open()), /^HTTP\/1\.1 200 /);
  assert.deepEqual(server.counts, { refused: 1, displaced: 1 });
});

test('a connection with recent bytes is not idle', async (t) => {
  const server = await boundedServer(t, 1);
  const socket = await server.open();
  server.clock.nowMs = 60_000;
  await server.ask(socket);

  const refused = await server.open();
  assert.match(await server.ask(refused), /^HTTP\/1\.1 503 /);
  assert.match(await server.ask(socket), /^HTTP\/1\.1 200 /);
});

test('newcomers above the bound of pending refusals are destroyed without an answer', async (t) => {
  const server = await boundedServer(t, 1);
  await server.hold(await server.open());
  const waiting: Socket[] = [];
  for (let count = 0; count < 16; count += 1) waiting.push(await server.open());

  const dropped = await server.open();
  await once(dropped.resume(), 'close');

  assert.equal(server.counts.refused, 17);
  assert.ok(waiting.every((socket) => !socket.destroyed));
  const [first] = waiting as [Socket];
  assert.match(await server.ask(first), /^HTTP\/1\.1 503 /);
});
