// A node that says something, or leaves, while this process has other work: what is asked next gets its own answer.
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { NodePool } from '../../../src/upstream/wire/node-pool.ts';
import { ask, bounds } from './asking.ts';

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
  const pool = new NodePool(new URL(`http://127.0.0.1:${port}`), { ...bounds, connections: 1 });
  t.after(() => pool.destroy());
  return pool;
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

const submission = { method: 'POST', body: Buffer.from('signed') } as const;
const questions = [
  ['a read', {}],
  ['a submission', submission],
] as const;

for (const way of ['says 408', 'ends']) {
  for (const [what, question] of questions) {
    const title = `${what} that comes when a node ${way} goes over another connection`;

    test(title, async (t) => {
      const pool = await poolBefore(t, way);
      assert.equal(await ask(pool, '/first').body, 'first');
      await setImmediate();
      beBusy();

      assert.equal(await ask(pool, '/second', question).body, '/second');
    });

    test(`${title}, asked before the news can be read`, async (t) => {
      const pool = await poolBefore(t, way);
      assert.equal(await ask(pool, '/first').body, 'first');

      const second = fromSocket(t, () => {
        beBusy();
        return ask(pool, '/second', question).body;
      });

      assert.equal(await second, '/second');
    });
  }
}

for (const [what, question] of questions) {
  test(`what lies behind an answer is none to ${what} that waits`, async (t) => {
    const pool = await poolBefore(t, 'says too much');
    const first = ask(pool, '/first');
    const second = ask(pool, '/second', question);
    await first.controller;
    await setImmediate();
    beBusy();

    assert.match(await first.body, /^x+$/);
    assert.equal(await second.body, '/second');
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
  await ask(pool, '/first').body;

  await assert.rejects(ask(pool, '/second', submission).body, { code: 'ECONNRESET' });
});
