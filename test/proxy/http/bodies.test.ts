import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, IncomingMessage, ServerResponse } from 'node:http';
import { connect, Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Bodies, type BodyLimits, type BodyReservation, Pieces } from '../../../src/proxy/http/bodies.ts';
import { until } from '../../support/eventually.ts';
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

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

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
  collect();
  const before = process.memoryUsage();
  const socket = connect(server.port, '127.0.0.1');
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n');
  const chunks = Buffer.from('1\r\na\r\n'.repeat(count));
  socket.write(chunks);
  await until(() => server.bodies.heldBytes >= count);

  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  const taken = heapUsed + arrayBuffers - before.heapUsed - before.arrayBuffers - chunks.length;
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
  collect();
  const before = process.memoryUsage().arrayBuffers;

  for (let sent = 1; sent <= count; sent += 1) pieces.add(Buffer.allocUnsafeSlow(65_536).subarray(0, 4_200));

  // The collector frees buffers a moment later.
  await until(() => {
    collect();
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
