import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { FrontConnection, type FrontParts } from '../../src/front/front-connection.ts';
import { HeaderBlocks } from '../../src/front/request-head.ts';
import { isAnswered } from '../../src/proxy/connection-state.ts';
import type { Gate } from '../../src/proxy/server-parts.ts';
import { UntakenAnswers } from '../../src/proxy/untaken-answers.ts';
import { ByteBudget } from '../../src/upstream/byte-budget.ts';
import { TurnEnd } from '../../src/upstream/wire/turn-end.ts';
import { until } from '../support/eventually.ts';

/** A connection of the front's, as far as it takes nothing but `gate` to answer, and its client. */
async function frontConnection(t: TestContext, gate?: Gate): Promise<{ connection: FrontConnection; client: Socket }> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [socket] = (await once(server, 'connection')) as [Socket];
  t.after(() => {
    client.destroy();
    server.close();
  });
  const blocks = new HeaderBlocks();
  const budget = new ByteBudget({ largest: 64 * 1024 * 1024, all: 256 * 1024 * 1024 });
  const untaken = new UntakenAnswers(budget, { refused: () => undefined, ended: () => undefined });
  const parts = { proxy: { gate, untaken }, blocks, turnEnd: new TurnEnd(), onClose: () => undefined };
  return { connection: new FrontConnection(socket, parts as unknown as FrontParts), client };
}

test('a connection is quiet from the moment on when its answer has been taken, not when it was given', async (t) => {
  const { connection, client } = await frontConnection(t);
  connection.send('a'.repeat(32 * 1024 * 1024), 'latin1');
  connection.flush();
  assert.equal(connection.quietMs(0), 0);
  assert.equal(connection.quietMs(80_000), 0);

  client.resume();
  await until(() => connection.isIdle);

  assert.equal(connection.quietMs(82_500), 2_500);
  assert.equal(connection.quietMs(85_000), 5_000);
});

test('a connection that waits for the gate is busy, and read no further than a bound', async (t) => {
  const shut: Gate = { isOpen: () => false, pass: () => new Promise(() => undefined) };
  const { connection, client } = await frontConnection(t, shut);
  const { socket } = connection;
  const isPaused = once(socket, 'pause');

  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(1_000_000));
  await isPaused;
  // What could come next would come now.
  await new Promise(setImmediate);
  await new Promise(setImmediate);

  assert.ok(socket.bytesRead <= 4 * 64 * 1024, `${socket.bytesRead} bytes`);
  assert.deepEqual([connection.isIdle, isAnswered(socket)], [false, false]);
  assert.deepEqual([connection.quietMs(0), connection.quietMs(80_000)], [0, 0]);
});
