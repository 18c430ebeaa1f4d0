// A node that says something, or leaves, while this process has other work: what is asked next gets its own answer.
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { NodePool } from '../../../src/upstream/wire/node-pool.ts';

const program = new URL('leaving-node.ts', import.meta.url);
/** Longer than the node waits, and than a connection is taken for fresh. */
const busyMs = 400;

async function poolBefore(t: TestContext, way: string): Promise<NodePool> {
  const node = fork(program, [way]);
  t.after(() => node.kill());
  const [port] = (await once(node, 'message')) as [number];
  return poolTo(t, port);
}

function poolTo(t: TestContext, port: number): NodePool {
  const bounds = { connections: 1, connectTimeoutMs: 5_000, keepAliveMs: 4_000, keepAliveMarginMs: 2_000 };
  const pool = new NodePool(new URL(`http://127.0.0.1:${port}`), bounds);
  t.after(() => pool.destroy());
  return pool;
}

function ask(pool: NodePool, path: string, { body, onSent }: Asking = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    pool.dispatch(
      { method: body === undefined ? 'GET' : 'POST', path, headers: {}, body },
      {
        onRequestStart: () => onSent?.(),
        onResponseData: (_controller, chunk) => (text += chunk.toString('latin1')),
        onResponseEnd: () => resolve(text),
        onResponseError: (_controller, error) => reject(error),
      },
    );
  });
}

interface Asking {
  readonly body?: Buffer | undefined;
  readonly onSent?: () => void;
}

function beBusy(): void {
  for (const endMs = performance.now() + busyMs; performance.now() < endMs;);
}

/** Runs `work` in the callback of a socket, from which the event loop goes on without looking at others. */
async function fromSocket<T>(t: TestContext, work: () => Promise<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const server = createServer((socket) => socket.once('data', () => void work().then(resolve, reject)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  t.after(() => {
    client.destroy();
    server.close();
  });
  client.write('now');
  return promise;
}

for (const way of ['says 408', 'ends']) {
  for (const body of [undefined, Buffer.from('signed')]) {
    const title = `${body === undefined ? 'a read' : 'a submission'} that comes when a node ${way} goes over another connection`;

    test(title, async (t) => {
      const pool = await poolBefore(t, way);
      assert.equal(await ask(pool, '/first'), 'first');
      await setImmediate();
      beBusy();

      assert.equal(await ask(pool, '/second', { body }), '/second');
    });

    test(`${title}, asked before the news can be read`, async (t) => {
      const pool = await poolBefore(t, way);
      assert.equal(await ask(pool, '/first'), 'first');

      const second = fromSocket(t, () => {
        beBusy();
        return ask(pool, '/second', { body });
      });

      assert.equal(await second, '/second');
    });
  }
}

for (const body of [undefined, Buffer.from('signed')]) {
  test(`what lies behind an answer is none to ${body === undefined ? 'a read' : 'a submission'} that waits`, async (t) => {
    const pool = await poolBefore(t, 'says too much');
    const sent = Promise.withResolvers<void>();
    const first = ask(pool, '/first', { onSent: sent.resolve });
    const second = ask(pool, '/second', { body });
    await sent.promise;
    await setImmediate();
    beBusy();

    assert.match(await first, /^x+$/);
    assert.equal(await second, '/second');
  });
}

test('an answer 408 that crosses a request on its way is none, and the connection is lost', async (t) => {
  const node = createServer((socket) => {
    let answers = 0;
    socket.on('data', () => {
      answers += 1;
      if (answers === 1) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
      else socket.end('HTTP/1.1 408 Request Timeout\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbye');
    });
  });
  node.listen(0, '127.0.0.1');
  await once(node, 'listening');
  t.after(() => node.close());
  const pool = poolTo(t, (node.address() as AddressInfo).port);
  await ask(pool, '/first');

  await assert.rejects(ask(pool, '/second', { body: Buffer.from('signed') }), { code: 'ECONNRESET' });
});
