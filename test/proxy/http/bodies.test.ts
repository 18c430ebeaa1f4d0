import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, IncomingMessage, ServerResponse, get } from 'node:http';
import { connect, Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { GatewayError } from '../../../src/ledger/errors.ts';
import { Bodies, type BodyLimits, type BodyReservation, Pieces } from '../../../src/proxy/http/bodies.ts';
import { UnsentAnswers } from '../../../src/proxy/http/unsent-answers.ts';
import { ByteBudget } from '../../../src/upstream/byte-budget.ts';
import { until } from '../../support/eventually.ts';
import { heldBytes } from '../../support/heap.ts';
import { listen } from '../../support/listen.ts';

/** A server that answers with a body's length, or the fault's status. */
async function bodyServer(t: TestContext, limits: BodyLimits) {
  const bodies = new Bodies(limits);
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    bodies.read({ request, response, client: 'a' }, (body) => {
      if (Buffer.isBuffer(body)) response.end(String(body.length));
      else response.writeHead(body.status).end();
    });
  });
  const port = await listen(t, server);
  const post = (bytes: number) => fetch(`http://127.0.0.1:${port}`, { method: 'POST', body: Buffer.alloc(bytes) });
  return { bodies, port, post };
}

test('a hang-up frees the partial body', async (t) => {
  const server = await bodyServer(t, { maxHeldBytes: 1_000_000 });
  const socket = connect(server.port, '127.0.0.1');
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n');
  socket.write(Buffer.alloc(800_000));
  await until(() => server.bodies.heldBytes >= 800_000);

  socket.destroy();
  await until(() => server.bodies.heldBytes === 0);

  assert.equal((await server.post(900_000)).status, 200);
});

test('a body sent byte by byte is complete, and takes no more memory than its bytes', async (t) => {
  const server = await bodyServer(t, {});
  const count = 300_000;
  const before = heldBytes() + process.memoryUsage().arrayBuffers;
  const socket = connect(server.port, '127.0.0.1');
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n');
  const chunks = Buffer.from('1\r\na\r\n'.repeat(count));
  socket.write(chunks);
  await until(() => server.bodies.heldBytes >= count);

  const taken = heldBytes() + process.memoryUsage().arrayBuffers - before - chunks.length;
  socket.write('0\r\n\r\n');
  const [answer] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();

  assert.match(answer.toString(), /\r\n\r\n300000$/);
  // Separate pieces would take 30 MB.
  assert.ok(taken < 8_000_000, `${taken} bytes`);
});

test('a piece keeps no more of the read that it is a part of than its bytes, as those of HTTP/2 are', async () => {
  const pieces = new Pieces();
  const count = 200;
  heldBytes();
  const before = process.memoryUsage().arrayBuffers;

  for (let sent = 1; sent <= count; sent += 1) pieces.add(Buffer.allocUnsafeSlow(65_536).subarray(0, 4_200));

  // The collector frees buffers a moment later.
  await until(() => {
    heldBytes();
    return process.memoryUsage().arrayBuffers - before < 3 * count * 4_200;
  }, 50);
  assert.equal(pieces.whole().length, count * 4_200);
});

test('pieces of all sizes are joined in order', () => {
  const sizes = [1, 5_000, 3, 4_095, 4_096, 16_384, 70_000, 2, 16_383, 1];
  const parts = sizes.map((size, index) => Buffer.alloc(size, String.fromCharCode(97 + index)));
  const pieces = new Pieces();

  for (const part of parts) pieces.add(part);

  assert.ok(pieces.whole().equals(Buffer.concat(parts)));
});

test('a refused body above the bound no longer counts', async (t) => {
  const server = await bodyServer(t, { maxBytes: 50_000 });
  const socket = connect(server.port, '127.0.0.1');
  t.after(() => socket.destroy());
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n');
  socket.write(Buffer.alloc(60_000));
  await once(socket, 'data');

  assert.equal(server.bodies.heldBytes, 0);
});

test("bytes of bodies take their client's share of a turn, and the next turn goes on", async () => {
  const bodies = new Bodies();
  const requests = ['127.0.0.2', '127.0.0.3'].map((remoteAddress) => {
    const socket = Object.defineProperty(new Socket(), 'remoteAddress', { value: remoteAddress });
    const request = Object.assign(new IncomingMessage(socket), { headers: { 'content-length': '8000000' } });
    bodies.read({ request, response: new ServerResponse(request), client: 'a' }, () => assert.fail('whole'));
    return request;
  });
  const [one, other] = requests as [IncomingMessage, IncomingMessage];

  for (const request of [one, one, other]) request.emit('data', Buffer.alloc(1.5 * 1024 * 1024));
  assert.deepEqual([one.isPaused(), other.isPaused()], [true, false]);

  await nextTurn();
  assert.deepEqual([one.isPaused(), other.isPaused()], [false, false]);
});

/** Memory of 1,000 bytes for bodies of at most 100, on a manual clock. */
function smallMemory() {
  let nowMs = 0;
  const ended: string[] = [];
  const pool = new Bodies({ maxHeldBytes: 1_000, maxBytes: 100, now: () => nowMs });
  return {
    pool,
    ended,
    pass: (ms: number): void => void (nowMs += ms),
    open: (client: string, bytes: number, name = client): BodyReservation => {
      const reservation = pool.reserve(client, () => ended.push(name));
      reservation.arrive(bytes);
      return reservation;
    },
  };
}

test('a client may hold as much as it leaves free; beyond that, the pool ends its own slowest body', () => {
  const { pool, ended, open, pass } = smallMemory();
  for (let count = 1; count <= 5; count += 1) open('a', 100, `a${count}`);
  assert.deepEqual([ended, pool.heldBytes], [[], 500]);
  pass(5_000);

  open('a', 20, 'a6');

  assert.deepEqual(ended, ['a1']);
  assert.equal(pool.heldBytes, 420);
});

test('with little left free, a client may still hold one body', () => {
  const { pool, ended, open } = smallMemory();
  for (const client of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']) open(client, 100).arrived();

  open('j', 100);

  assert.deepEqual([ended, pool.heldBytes], [[], 1_000]);
});

test("a full pool ends the slowest body of its heaviest clients, not the newcomer's", () => {
  const { ended, open, pass } = smallMemory();
  for (let count = 1; count <= 10; count += 1) open(`b${count}`, 98, 'still');
  pass(3_000);
  const moving = open('c', 20);
  pass(3_000);

  moving.arrive(70);

  assert.deepEqual(ended, ['still']);
});

test('the pool ends a stalled body before one that makes progress', () => {
  const { ended, open, pass } = smallMemory();
  const moving = open('a', 50, 'moving');
  open('a', 50, 'still');
  for (let count = 1; count <= 4; count += 1) open('a', 100, 'whole').arrived();
  pass(3_000);
  moving.arrive(10);

  open('a', 10, 'new');

  assert.deepEqual(ended, ['still']);
});

test('the pool never ends a complete body: without another candidate, the newcomer is refused', () => {
  const { pool, ended, open } = smallMemory();
  for (let count = 1; count <= 10; count += 1) open(`a${count}`, 100).arrived();

  open('b', 20);

  assert.deepEqual([ended, pool.heldBytes], [['b'], 1_000]);
});

test('an answer counts with its body until the last user releases both, and is never refused', async () => {
  const { pool, ended, open } = smallMemory();
  const { promise: worked, resolve: finish } = Promise.withResolvers<void>();
  const reservation = open('a', 100);
  reservation.arrived();
  reservation.holdFor(worked);
  open('b', 90, 'b arrives');

  reservation.add(900);
  assert.deepEqual([ended, pool.heldBytes], [['b arrives'], 1_000]);

  reservation.release();
  assert.equal(pool.heldBytes, 1_000);
  finish();
  await worked;
  await Promise.resolve();
  assert.equal(pool.heldBytes, 0);
});

test('a closed reservation frees its memory once, and reserves no more', () => {
  const { pool, open } = smallMemory();
  const reservation = open('a', 50);

  reservation.close();
  reservation.close();
  reservation.release();
  reservation.add(10);

  assert.equal(pool.heldBytes, 0);
});

/** More than the kernel buffers for a client that reads nothing. */
const bytes = 16_000_000;
const piece = 64 * 1024;

/**
 * A server that sends bodies through `UnsentAnswers`, within `all` bytes. The path names the body; `/slow` gets no
 * answer.
 */
async function answerServer(t: TestContext, all: number) {
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
  const { url, budget, bodyOf } = await answerServer(t, 2 * bytes);
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
  const { url, budget } = await answerServer(t, 2 * bytes);
  const reader = await ask(t, `${url}a`);
  const heldBefore = budget.held;

  reader.destroy();
  await until(() => budget.held === 0);

  assert.equal(heldBefore, bytes + piece);
});

test('beyond the budget an answer is refused with 503 while all others make progress', async (t) => {
  const { url, counts } = await answerServer(t, bytes + 4 * piece);
  await ask(t, `${url}a`);

  const second = await ask(t, `${url}b`);

  assert.equal(second.statusCode, 503);
  assert.deepEqual(counts, { refused: 1, ended: 0 });
});

test('beyond the budget the connection stalled longest ends, and the newcomer is served', async (t) => {
  const { url, counts, clock, bodyOf, settled } = await answerServer(t, 2 * (bytes + 2 * piece));
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
  const { url, budget, counts, clock } = await answerServer(t, bytes + 4 * piece);
  await ask(t, `${url}a`);
  const share = budget.open(() => assert.fail('revoked'));
  assert.throws(() => share.take(bytes), /exceed the byte budget/);

  clock.nowMs = 2_000;
  share.take(bytes);

  assert.equal(budget.held, bytes);
  assert.deepEqual(counts, { refused: 0, ended: 1 });
});

test('an answer that waits behind another one is freed with its connection', async (t) => {
  const { url, budget, counts, clock } = await answerServer(t, bytes + 4 * piece);
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
