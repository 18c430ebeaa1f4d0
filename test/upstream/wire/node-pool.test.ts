import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createRawServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { NodePool, type NodePoolOptions } from '../../../src/upstream/wire/node-pool.ts';
import { eventually } from '../../support/eventually.ts';
import { ask, bounds } from './asking.ts';

interface Peer {
  readonly pool: NodePool;
  /** In the order in which they were opened. */
  readonly sockets: readonly Socket[];
}

type Respond = (request: IncomingMessage, response: ServerResponse) => void;

async function poolOf(t: TestContext, server: Server, options: Partial<NodePoolOptions> = {}): Promise<Peer> {
  const sockets: Socket[] = [];
  server.on('connection', (socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const pool = new NodePool(new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`), {
    ...bounds,
    ...options,
  });
  t.after(async () => {
    await pool.destroy();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { pool, sockets };
}

function httpPeer(t: TestContext, respond: Respond, options?: Partial<NodePoolOptions>): Promise<Peer> {
  return poolOf(t, createServer({ keepAliveTimeout: 0 }, respond), options);
}

test('a connection serves one question after another, and each its own answer', async (t) => {
  const { pool, sockets } = await httpPeer(t, ({ url }, response) => response.end(url));
  for (let at = 0; at < 20; at += 1) assert.equal(await ask(pool, `/${at}`).body, `/${at}`);
  assert.equal(sockets.length, 1);
});

test('more questions than connections wait their turn, and no more connections are opened', async (t) => {
  const { pool, sockets } = await httpPeer(t, ({ url }, response) => setImmediate(() => response.end(url)));
  const paths = Array.from({ length: 50 }, (_, at) => `/${at}`);
  assert.deepEqual(await Promise.all(paths.map((path) => ask(pool, path).body)), paths);
  assert.equal(sockets.length, 4);
});

test('a request says what it has to, once, with the body behind it', async (t) => {
  const seen: unknown[] = [];
  const { pool } = await httpPeer(t, (request, response) => {
    request.setEncoding('utf8').once('data', (body) => {
      seen.push([request.method, request.url, request.rawHeaders, body]);
      response.end('done');
    });
  });
  const headers = { accept: 'a/b', 'x-list': ['1', '2'], host: 'node.example', 'content-length': '99' };
  assert.equal(await ask(pool, '/a?b=c', { method: 'POST', headers, body: Buffer.from('{"é":1}') }).body, 'done');
  const raw = ['host', 'node.example', 'connection', 'keep-alive', 'accept', 'a/b', 'x-list', '1', 'x-list', '2'];
  assert.deepEqual(seen, [['POST', '/a?b=c', [...raw, 'content-length', '8'], '{"é":1}']]);
});

for (const [what, more] of [
  ['a line break in a header', { headers: { a: 'b\r\nc: d' } }],
  ['a name that is none', { headers: { 'a b': 'c' } }],
  ['a framing of its own', { headers: { 'transfer-encoding': 'chunked' } }],
  ['a space in its path', { path: '/a b' }],
  ['a line break in its path', { path: '/a\r\nb' }],
  ['a path that is none', { path: 'a' }],
] as const) {
  test(`a request with ${what} is not sent`, async (t) => {
    const { pool, sockets } = await httpPeer(t, (_request, response) => response.end());
    await assert.rejects(ask(pool, '/', more).body, TypeError);
    assert.equal(await ask(pool, '/').body, '');
    assert.equal(sockets.length, 1);
  });
}

test('what is given up closes its connection, and nothing else', async (t) => {
  const held: ServerResponse[] = [];
  const { pool, sockets } = await httpPeer(t, ({ url }, response) => {
    if (url === '/held') held.push(response);
    else response.end(url);
  });
  const first = ask(pool, '/held');
  const other = ask(pool, '/held');
  await eventually(
    async () => held.length,
    (is) => is === 2,
  );
  (await first.controller).abort(new Error('given up'));
  await assert.rejects(first.body, /given up/);
  await eventually(
    async () => held[0]?.destroyed,
    (is) => is === true,
  );
  held[1]?.end('late');
  assert.equal(await other.body, 'late');
  assert.equal(await ask(pool, '/next').body, '/next');
  assert.equal(sockets.length, 2);
});

test('what is given up when its turn comes is not sent', async (t) => {
  const asked: string[] = [];
  const { pool } = await httpPeer(
    t,
    ({ url = '' }, response) => {
      asked.push(url);
      setImmediate(() => response.end(url));
    },
    { connections: 1 },
  );
  const first = ask(pool, '/first');
  const refused = new Promise<Error>((resolve) => {
    pool.dispatch(
      { method: 'GET', path: '/second', headers: {} },
      {
        onRequestStart: (controller) => controller.abort(new Error('given up')),
        onResponseError: (_controller, error) => resolve(error),
      },
    );
  });
  assert.equal(await first.body, '/first');
  assert.match((await refused).message, /given up/);
  assert.equal(await ask(pool, '/third').body, '/third');
  assert.deepEqual(asked, ['/first', '/third']);
});

test('what is given up while it waits takes no connection, and no failure of one', async (t) => {
  const held: ServerResponse[] = [];
  const { pool, sockets } = await httpPeer(t, (_request, response) => void held.push(response), { connections: 1 });
  const first = ask(pool, '/');
  await eventually(
    async () => held.length,
    (count) => count === 1,
  );
  const failure = Promise.withResolvers<Error>();
  const handler = { onResponseError: (_controller: unknown, error: Error) => failure.resolve(error) };
  pool.dispatch({ method: 'GET', path: '/', headers: {} }, handler).abort(new Error('given up'));
  assert.match(String(await failure.promise), /given up/);
  const third = ask(pool, '/');
  held[0]?.end('first');
  await eventually(
    async () => held.length,
    (count) => count === 2,
  );
  held[1]?.end('third');
  assert.deepEqual([await first.body, await third.body, sockets.length], ['first', 'third', 1]);
});

test('what goes wrong where an answer is taken is heard there, and the next one is given', async (t) => {
  const { pool } = await httpPeer(t, ({ url = '' }, response) => response.end(url), { connections: 1 });
  const heard = new Promise<Error>((resolve) => {
    pool.dispatch(
      { method: 'GET', path: '/first', headers: {} },
      {
        onRequestStart: () => undefined,
        onResponseEnd: () => {
          throw new Error('cannot be taken');
        },
        onResponseError: (_controller, error) => resolve(error),
      },
    );
  });

  assert.equal((await heard).message, 'cannot be taken');
  assert.equal(await ask(pool, '/second').body, '/second');
});

test('a connection that the node has ended is not used again', async (t) => {
  const { pool, sockets } = await httpPeer(t, ({ url }, response) => response.end(url));
  await ask(pool, '/1').body;
  sockets[0]?.end();
  await eventually(
    async () => sockets[0]?.destroyed,
    (is) => is === true,
  );
  assert.equal(await ask(pool, '/2').body, '/2');
  assert.equal(sockets.length, 2);
});

test('a node that speaks on a connection unasked loses it', async (t) => {
  const { pool, sockets } = await httpPeer(t, ({ url }, response) => response.end(url));
  await ask(pool, '/1').body;
  sockets[0]?.write('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong');
  await eventually(
    async () => sockets[0]?.destroyed,
    (is) => is === true,
  );
  assert.equal(await ask(pool, '/2').body, '/2');
});

test('an answer that breaks off fails as a lost connection does', async (t) => {
  const { pool } = await poolOf(
    t,
    createRawServer((socket) =>
      socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel')),
    ),
  );
  await assert.rejects(ask(pool, '/').body, { code: 'ECONNRESET' });
});

test('a node that is not there is told of to each that waits for it', async (t) => {
  const { pool, sockets } = await httpPeer(t, (_request, response) => response.end());
  const gone = createRawServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  const { port } = gone.address() as AddressInfo;
  gone.close();
  await once(gone, 'close');
  const dead = new NodePool(new URL(`http://127.0.0.1:${port}`), bounds);
  t.after(() => dead.destroy());
  for (const { body } of Array.from({ length: 10 }, () => ask(dead, '/'))) {
    await assert.rejects(body, { code: 'ECONNREFUSED' });
  }
  assert.deepEqual([await ask(pool, '/').body, sockets.length], ['', 1]);
});

const sayingHowLong: Respond = ({ url }, response) => {
  if (url === '/short') response.setHeader('keep-alive', 'timeout=3');
  if (url === '/none') response.setHeader('keep-alive', 'timeout=1');
  response.end(url);
};

test('an idle connection is closed before the node would', async (t) => {
  const { pool, sockets } = await httpPeer(t, sayingHowLong, { keepAliveMs: 60_000, keepAliveMarginMs: 2_900 });
  await ask(pool, '/none').body;
  assert.equal(await ask(pool, '/short').body, '/short');
  assert.equal(sockets.length, 2, 'one that the node may close at any moment is not used');
  // Nobody asks any more: it is found and closed.
  await eventually(
    async () => sockets[1]?.destroyed,
    (is) => is === true,
  );
  await ask(pool, '/long').body;
  assert.equal(await ask(pool, '/long').body, '/long');
  assert.equal(sockets.length, 3);
});

test('a pool that is closed fails what it was asked, and all that comes', async (t) => {
  const { pool } = await httpPeer(t, () => undefined, { connections: 1 });
  const asked = [ask(pool, '/'), ask(pool, '/')];
  const failed = asked.map(({ body }) => assert.rejects(body, /closed/));
  await asked[0]?.controller;
  await pool.destroy();
  await Promise.all(failed);
  await assert.rejects(ask(pool, '/').body, /closed/);
});

test('localhost is found under whichever address it is there', async (t) => {
  const server = createServer((_request, response) => response.end('here'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const pool = new NodePool(new URL(`http://localhost:${port}`), bounds);
  t.after(() => pool.destroy());
  assert.equal(await ask(pool, '/').body, 'here');
});
