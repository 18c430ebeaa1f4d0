import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { AnswerTurn, arenaBytes, FastResponse } from '../../../../src/proxy/http/fast-path/answer-queue.ts';
import { FastConnection, type FastPath } from '../../../../src/proxy/http/fast-path/fast-path.ts';
import { HeaderBlocks } from '../../../../src/proxy/http/fast-path/request-head.ts';
import { pieceBytes, UnsentAnswers } from '../../../../src/proxy/http/unsent-answers.ts';
import { ByteBudget } from '../../../../src/upstream/byte-budget.ts';
import { until } from '../../../support/eventually.ts';
import { listen } from '../../../support/listen.ts';

const unexpected = (): never => assert.fail('the connection ends');

/** A connection of the fast path and its client, without the parts that answer reads. */
async function fastConnection(t: TestContext) {
  const server = createServer();
  const client = connect(await listen(t, server), '127.0.0.1');
  const [socket] = (await once(server, 'connection')) as [Socket];
  t.after(() => client.destroy());
  const blocks = new HeaderBlocks();
  const budget = new ByteBudget({ largest: 64 * 1024 * 1024, all: 256 * 1024 * 1024 });
  const unsent = new UnsentAnswers(budget, { refused: () => undefined, ended: () => undefined });
  const ends = { handOver: unexpected, refuse: unexpected, onClose: () => undefined };
  const path = { ...ends, proxy: { unsent }, blocks, turn: new AnswerTurn() } as unknown as FastPath;
  return { connection: new FastConnection(socket, path), client, unsent, budget };
}

/** Sends short answers until the kernel's buffer is full. */
function fillWithShort({ connection }: { readonly connection: FastConnection }): void {
  while (connection.socket.writableLength === 0) {
    connection.queue.send('a'.repeat(32 * 1024), 'latin1');
    connection.queue.flush();
  }
}

/** Sends an answer in pieces; the kernel accepts all but the last. */
function sendLong({ connection, unsent }: Awaited<ReturnType<typeof fastConnection>>): void {
  const response = new FastResponse(connection.queue, false, () => undefined);
  const body = Buffer.alloc(pieceBytes + 1_000, 'a');
  unsent.hold(response, body);
  response.writeHead(200, ['Content-Length', String(body.length)]);
  response.write(body.subarray(0, pieceBytes));
  assert.equal(connection.socket.writableLength, 0);
  // Simulates a full kernel buffer: the last piece stays in the socket.
  connection.socket.cork();
  response.end(body.subarray(pieceBytes));
}

test('unsent short answers count until the kernel accepts them, not until the connection ends', async (t) => {
  const fast = await fastConnection(t);
  const { connection, client, budget } = fast;
  fillWithShort(fast);
  const heldBefore = budget.held;

  client.resume();
  await until(() => connection.isIdle && budget.held === 0);

  assert.equal(heldBefore, arenaBytes);
  fillWithShort(fast);
  assert.equal(budget.held, arenaBytes);
});

test('an answer in pieces counts until the kernel accepts its short last piece', async (t) => {
  const fast = await fastConnection(t);
  sendLong(fast);
  const heldBefore = fast.budget.held;

  fast.connection.socket.uncork();
  await until(() => fast.budget.held === 0);

  assert.ok(heldBefore > pieceBytes, `${heldBefore} bytes`);
});

const unread = { 'unsent short answers': fillWithShort, 'the pieces of an answer': sendLong };

for (const [what, send] of Object.entries(unread)) {
  test(`${what} count until their client is gone`, async (t) => {
    const fast = await fastConnection(t);
    send(fast);

    fast.client.resetAndDestroy();
    await until(() => fast.budget.held === 0);
  });
}

test('a connection is quiet from the moment its answer is read, not from the write', async (t) => {
  const { connection, client } = await fastConnection(t);
  connection.queue.send('a'.repeat(32 * 1024 * 1024), 'latin1');
  connection.queue.flush();
  assert.equal(connection.quietMs(0), 0);
  assert.equal(connection.quietMs(80_000), 0);

  client.resume();
  await until(() => connection.isIdle);

  assert.equal(connection.quietMs(82_500), 2_500);
  assert.equal(connection.quietMs(85_000), 5_000);
});

test('a connection has a timeout once an answer has been in flight from one check to the next', async (t) => {
  const { connection, client } = await fastConnection(t);
  connection.queue.send('a'.repeat(32 * 1024 * 1024), 'latin1');
  connection.queue.flush();
  const timeouts = [0, 2_500, 5_000].map((nowMs) => {
    connection.watch(90_000);
    connection.quietMs(nowMs);
    return connection.socket.timeout ?? 0;
  });

  client.resume();
  await until(() => connection.isIdle);
  connection.watch(90_000);

  assert.deepEqual([...timeouts, connection.socket.timeout], [0, 90_000, 90_000, 0]);
});
