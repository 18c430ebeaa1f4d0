import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { Bodies, type BodyLimits } from '../../src/proxy/request-body.ts';

/** A server that answers a body's length, or the status of what is wrong; `/held` is answered by `release`. */
async function bodyServer(t: TestContext, limits: BodyLimits) {
  const bodies = new Bodies(limits);
  const held: ServerResponse[] = [];
  let onHeld: (() => void) | undefined;
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    bodies.read(request, response, (body) => {
      if (!Buffer.isBuffer(body)) response.writeHead(body.status).end();
      else if (request.url === '/held') {
        held.push(response);
        onHeld?.();
      } else response.end(String(body.length));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const post = (bytes: number, path = '/') =>
    fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', body: Buffer.alloc(bytes) });
  return {
    bodies,
    port,
    post,
    /** Resolves when the server has the whole body. */
    async hold(bytes: number): Promise<{ readonly answer: Promise<Response> }> {
      const isHeld = new Promise<void>((resolve) => (onHeld = resolve));
      const answer = post(bytes, '/held');
      await isHeld;
      return { answer };
    },
    release(): void {
      for (const response of held.splice(0)) response.end();
    },
  };
}

test('bodies that are held until their answers count together, and the next one is refused at once', async (t) => {
  const server = await bodyServer(t, { maxHeldBytes: 1_000_000 });
  const { answer } = await server.hold(900_000);

  const refused = await server.post(200_000);
  const small = await server.post(10_000);
  server.release();
  await (await answer).text();
  const again = await server.post(900_000);

  assert.deepEqual([refused.status, small.status, again.status], [503, 200, 200]);
  assert.equal(await small.text(), '10000');
  assert.equal(await again.text(), '900000');
});

test('what a client that hangs up had sent does not count any more', async (t) => {
  const server = await bodyServer(t, { maxHeldBytes: 1_000_000 });
  const socket = connect(server.port, '127.0.0.1');
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n');
  socket.write(Buffer.alloc(800_000));
  while (server.bodies.heldBytes < 800_000) await new Promise(setImmediate);

  socket.destroy();
  while (server.bodies.heldBytes > 0) await new Promise(setImmediate);

  assert.equal((await server.post(900_000)).status, 200);
});

test('a body is bounded by its announced length, and by what comes', async (t) => {
  const server = await bodyServer(t, { maxBytes: 50_000 });

  const announced = await server.post(50_001);
  const fits = await server.post(50_000);
  const socket = connect(server.port, '127.0.0.1');
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nc351\r\n');
  socket.write(Buffer.alloc(50_001));
  const [measured] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();

  assert.deepEqual([announced.status, fits.status], [413, 200]);
  assert.match(measured.toString(), /^HTTP\/1\.1 413 /);
});
