// Under TLS, Node reports each write as done in a later turn, also one that the kernel accepted at once.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { createServer, type TLSSocket } from 'node:tls';
import {
  AnswerQueue,
  AnswerTurn,
  FastResponse,
  type Arena,
} from '../../../../src/proxy/http/fast-path/answer-queue.ts';
import { UnsentAnswers } from '../../../../src/proxy/http/unsent-answers.ts';
import { ByteBudget } from '../../../../src/upstream/byte-budget.ts';
import { until } from '../../../support/eventually.ts';
import { listen } from '../../../support/listen.ts';
import { authority, tlsSocket } from '../../../support/tls.ts';

/** Answers towards one TLS client. */
async function encryptedQueue(t: TestContext) {
  const root = authority(t);
  const { cert, key } = root.certify('server');
  const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) });
  const { promise: accepted, resolve: accept } = Promise.withResolvers<TLSSocket>();
  server.on('secureConnection', (socket) => accept(socket.on('error', () => undefined)));
  const client = await tlsSocket(t, await listen(t, server), { ca: root.ca });
  const budget = new ByteBudget({ largest: 64 * 1024 * 1024, all: 256 * 1024 * 1024 });
  const unsent = new UnsentAnswers(budget, { refused: () => undefined, ended: () => undefined });
  const answers = new AnswerTurn();
  const queue = new AnswerQueue(await accepted, answers, unsent);
  const send = (text: string): void => {
    const arena = answers.withRoom(text.length);
    const from = arena.used;
    arena.used += arena.bytes.write(text, from, 'latin1');
    queue.sendFrom(arena, from);
  };
  return { queue, client, budget, send };
}

test('under TLS, an answer behind a write that is not reported yet is not counted as unread', async (t) => {
  const { queue, client, budget, send } = await encryptedQueue(t);
  let received = '';
  client.on('data', (bytes: Buffer) => void (received += bytes.toString('latin1')));
  send('first ');
  queue.flush();
  const isReported = queue.socket.writableLength === 0;

  send('second');
  const heldBehind = budget.held;
  await turn();
  await until(() => received === 'first second');

  assert.ok(!isReported);
  assert.equal(heldBehind, 0);
  assert.equal(budget.held, 0);
});

test('under TLS, unread short answers count until the client reads them', async (t) => {
  const { queue, client, budget, send } = await encryptedQueue(t);
  client.pause();
  for (let count = 0; budget.held === 0; count += 1) {
    assert.ok(count < 10_000);
    send('a'.repeat(32 * 1024));
    await turn();
  }

  assert.ok(budget.held >= 32 * 1024);
  client.resume();
  await until(() => budget.held === 0 && queue.isEmpty);
});

/** Reserves `size` bytes for an answer. */
function take(arenas: AnswerTurn, size: number): Arena {
  const arena = arenas.withRoom(size);
  arena.used += size;
  arena.waiting += 1;
  return arena;
}

test('answers of one turn lie behind one another, and the next turn begins at offset 0', () => {
  const arenas = new AnswerTurn();
  const first = take(arenas, 1_000);
  assert.equal(take(arenas, 1_000), first);
  assert.equal(first.used, 2_000);
  arenas.release(first, true);
  assert.equal(first.used, 2_000, 'one of them is still to be sent');
  arenas.release(first, true);
  assert.equal(arenas.withRoom(1_000), first);
  assert.equal(first.used, 0);
});

test('an answer without room begins another arena, and the full one is reused once it is sent', () => {
  const arenas = new AnswerTurn();
  const full = take(arenas, 60_000);
  const next = take(arenas, 60_000);
  assert.notEqual(next, full);
  arenas.release(full, true);
  assert.equal(take(arenas, 60_000), full);
});

test('bytes that the kernel has not accepted are never overwritten', () => {
  const arenas = new AnswerTurn();
  const lent = take(arenas, 1_000);
  take(arenas, 1_000);
  arenas.release(lent, false);
  assert.notEqual(arenas.withRoom(1_000), lent);
  arenas.release(lent, true);
  for (let at = 0; at < 100; at += 1) {
    const arena = take(arenas, 60_000);
    assert.notEqual(arena, lent);
    if (at % 3 > 0) arenas.release(arena, true);
  }
});

test('a head that HTTP forbids throws before anything is sent, so an error answer remains possible', () => {
  const connection = new AnswerQueue(new Socket(), new AnswerTurn(), undefined as never);
  const response = new FastResponse(connection, false, () => undefined);

  assert.throws(() => response.writeHead(200, ['X-Node-Cursor', 'a\r\nX: b']), /forbids/);

  assert.equal(connection.isEmpty, true);
  assert.equal(response.headersSent, false);
  assert.equal(response.statusCode, 200);
  response.writeHead(500, ['Content-Type', 'application/json']);
  assert.equal(response.headersSent, true);
});
