import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import type { GatewayError } from '../../../src/ledger/errors.ts';
import { UnsentAnswers } from '../../../src/proxy/http/unsent-answers.ts';
import { ByteBudget } from '../../../src/upstream/byte-budget.ts';
import { until } from '../../support/eventually.ts';
import { listen } from '../../support/listen.ts';

/** More than the kernel buffers for a client that reads nothing. */
const bytes = 16_000_000;
const piece = 64 * 1024;

/**
 * A server that sends bodies through `UnsentAnswers`, within `all` bytes. The path names the body; `/slow` gets no
 * answer.
 */
async function bodyServer(t: TestContext, all: number) {
  const clock = { nowMs: 0 };
  const counts = { refused: 0, ended: 0 };
  const budget = new ByteBudget({ largest: all, all });
  const metrics = { refused: () => (counts.refused += 1), ended: () => (counts.ended += 1) };
  const answers = new UnsentAnswers(budget, metrics, () => clock.nowMs);
  const bodies = new Map<string, Buffer>();
  const bodyOf = (name: string): Buffer => {
    const body = bodies.get(name) ?? Buffer.alloc(bytes, name);
    bodies.set(name, body);
    return body;
  };
  const server = createServer(({ url = '' }, response: ServerResponse) => {
    if (url === '/slow') return;
    const body = bodyOf(url.slice(1));
    try {
      answers.hold(response, body);
    } catch (error) {
      response.writeHead((error as GatewayError).status).end();
      return;
    }
    response.writeHead(200, { 'content-length': body.length });
    answers.send(response, body);
  });
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  const port = await listen(t, server);
  const url = `http://127.0.0.1:${port}/`;
  /** Resolves when the kernel takes no more for clients that read nothing: from then on they stand still. */
  const settled = async (): Promise<void> => {
    let before = -1;
    let polls = 0;
    await until(() => {
      const taken = [...sockets].reduce((sum, socket) => sum + socket.bytesWritten - socket.writableLength, 0);
      polls = taken === before ? polls + 1 : 0;
      before = taken;
      return polls === 25;
    });
  };
  return { url, budget, counts, clock, bodyOf, settled };
}

/** The head of an answer whose body the test reads later. */
async function ask(t: TestContext, url: string): Promise<IncomingMessage> {
  const request = get(url, { agent: false });
  t.after(() => request.destroy());
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  response.on('error', () => undefined);
  return response;
}

test('readers of one body count it once, and the last of them frees it', async (t) => {
  const { url, budget, bodyOf } = await bodyServer(t, 2 * bytes);
  const readers = await Promise.all([ask(t, `${url}a`), ask(t, `${url}a`), ask(t, `${url}a`)]);
  const heldByThree = budget.held;

  const taken = await Promise.all(readers.map((reader) => buffer(reader)));
  await until(() => budget.held === 0);

  assert.equal(heldByThree, bytes + 3 * piece);
  assert.deepEqual(
    taken.map((body) => body.equals(bodyOf('a'))),
    [true, true, true],
  );
});

test('a hang-up frees the unsent answer', async (t) => {
  const { url, budget } = await bodyServer(t, 2 * bytes);
  const reader = await ask(t, `${url}a`);
  const heldBefore = budget.held;

  reader.destroy();
  await until(() => budget.held === 0);

  assert.equal(heldBefore, bytes + piece);
});

test('beyond the budget an answer is refused with 503 while all others make progress', async (t) => {
  const { url, counts } = await bodyServer(t, bytes + 4 * piece);
  await ask(t, `${url}a`);

  const second = await ask(t, `${url}b`);

  assert.equal(second.statusCode, 503);
  assert.deepEqual(counts, { refused: 1, ended: 0 });
});

test('beyond the budget the connection stalled longest ends, and the newcomer is served', async (t) => {
  const { url, counts, clock, bodyOf, settled } = await bodyServer(t, 2 * (bytes + 2 * piece));
  const oldest = await ask(t, `${url}a`);
  await settled();
  clock.nowMs = 500;
  const younger = await ask(t, `${url}b`);

  clock.nowMs = 1_200;
  const newcomer = await ask(t, `${url}c`);
  const ofOldest = await buffer(oldest).catch(() => 'cut off');
  const [ofYounger, ofNewcomer] = await Promise.all([buffer(younger), buffer(newcomer)]);

  assert.ok(ofOldest === 'cut off');
  assert.ok(ofYounger.equals(bodyOf('b')));
  assert.ok(ofNewcomer.equals(bodyOf('c')));
  assert.deepEqual(counts, { refused: 0, ended: 1 });
});

test('an answer that a node is still sending displaces stalled clients', async (t) => {
  const { url, budget, counts, clock } = await bodyServer(t, bytes + 4 * piece);
  await ask(t, `${url}a`);
  const share = budget.open(() => assert.fail('revoked'));
  assert.throws(() => share.take(bytes), /exceed the byte budget/);

  clock.nowMs = 2_000;
  share.take(bytes);

  assert.equal(budget.held, bytes);
  assert.deepEqual(counts, { refused: 0, ended: 1 });
});

test('an answer that waits behind another one is freed with its connection', async (t) => {
  const { url, budget, counts, clock } = await bodyServer(t, bytes + 4 * piece);
  const client = connect(Number(new URL(url).port), '127.0.0.1');
  t.after(() => client.destroy());
  client.write(['/slow', '/a'].map((path) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`).join(''));
  await until(() => budget.held > 0);
  const isClosed = once(client, 'close');

  clock.nowMs = 2_000;
  const hasRoom = budget.hasRoomFor(bytes);
  // The response keeps the body until then.
  await isClosed;

  assert.ok(hasRoom);
  assert.equal(budget.held, 0);
  assert.deepEqual(counts, { refused: 0, ended: 1 });
});
