// Under TLS, Node reports each write as done in a later turn, also one that the kernel accepted at once.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { createServer, type TLSSocket } from 'node:tls';
import { AnswerQueue, AnswerTurn } from '../../../../src/proxy/http/fast-path/answer-queue.ts';
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
