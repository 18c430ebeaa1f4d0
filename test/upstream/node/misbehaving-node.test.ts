// A node writes, closes or resets a connection while this process is busy: the next request gets its own answer.
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect, createServer, type Socket } from 'node:net';
import { after, test, type TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { wasLostIdle } from '../../../src/upstream/dispatch/fetch-whole.ts';
import type { Upstream } from '../../../src/upstream/node/upstream.ts';
import { ask, exchangeOf, nodeAt, textOf } from '../../support/node-client.ts';
import { listen } from '../../support/listen.ts';
import { never, request, senderOf, type Answer } from '../../support/sender.ts';

const program = fork(new URL('misbehaving-node.ts', import.meta.url));
after(() => program.kill());
const [programPort] = (await once(program, 'message')) as [number];
/** Longer than the node waits before it misbehaves. */
const busyMs = 80;

async function rawNode(t: TestContext, answer: (socket: Socket, count: number) => void): Promise<Upstream> {
  const server = createServer((socket) => {
    let count = 0;
    socket.on('error', () => undefined).on('data', () => answer(socket, (count += 1)));
  });
  return nodeAt(t, await listen(t, server));
}

function beBusy(): void {
  for (const endMs = performance.now() + busyMs; performance.now() < endMs;);
}

/** Runs `work` in a callback of the poll phase, from which the event loop goes on without a look at other sockets. */
async function fromSocket<T>(t: TestContext, work: () => Promise<T>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const server = createServer((socket) => socket.once('data', () => void work().then(resolve, reject)));
  const client = connect(await listen(t, server), '127.0.0.1');
  client.on('error', () => undefined).write('now');
  return promise;
}

/** A read, as attempts and probes send it. */
function read(node: Upstream, path: string): Promise<string> {
  const exchange = exchangeOf();
  const send = (): Promise<string> => textOf(ask(node, path, { exchange }));
  return send().catch(async (error: unknown) => {
    if (!(await wasLostIdle(error, exchange))) throw error;
    return send();
  });
}

const submission = { purpose: 'submission', method: 'POST', body: Buffer.from('signed') } as const;
const requests = [
  ['a read', read],
  ['a submission', (node: Upstream, path: string) => textOf(ask(node, path, submission))],
] as const;

const ways = ['says 408', 'ends', 'resets', 'says an answer', 'says the start of an answer'];
for (const way of ways) {
  for (const [name, send] of requests) {
    const title = `${name} after an idle connection's node ${way} gets its own answer`;

    test(title, async (t) => {
      const node = nodeAt(t, programPort);
      assert.equal(await textOf(ask(node, `/first?${encodeURIComponent(way)}`)), 'first');
      await setImmediate();
      beBusy();

      assert.equal(await send(node, '/second'), '/second');
    });

    test(`${title}, though it is asked before the event loop reads the socket`, async (t) => {
      const node = nodeAt(t, programPort);
      assert.equal(await textOf(ask(node, `/first?${encodeURIComponent(way)}`)), 'first');

      const second = fromSocket(t, () => {
        beBusy();
        return send(node, '/second');
      });

      assert.equal(await second, '/second');
    });

    test(`${title}, though the connections to another node are closed in the same turn`, async (t) => {
      const node = nodeAt(t, programPort);
      const other = nodeAt(t, 9);
      assert.equal(await textOf(ask(node, `/first?${encodeURIComponent(way)}`)), 'first');

      const second = fromSocket(t, () => {
        beBusy();
        const answer = send(node, '/second');
        void other.client.close();
        return answer;
      });

      assert.equal(await second, '/second');
    });
  }
}

for (const [name, send] of requests) {
  test(`bytes behind an answer never answer ${name} that waits for the connection`, async (t) => {
    const node = nodeAt(t, programPort);
    const first = textOf(ask(node, '/first?says%20too%20much'));
    const second = send(node, '/second');
    await setImmediate();
    beBusy();

    assert.match(await first, /^x+$/);
    assert.equal(await second, '/second');
  });
}

const farewell = 'HTTP/1.1 408 Request Timeout\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbye';
const empty = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n';

test('a 408 that crosses a read counts as a lost connection', async (t) => {
  const node = await rawNode(t, (socket, count) => void (count === 1 ? socket.write(empty) : socket.end(farewell)));
  await ask(node, '/first');

  await assert.rejects(ask(node, '/second'), { code: 'ECONNRESET' });
});

test('a second 408 is the answer of the node', async (t) => {
  const node = await rawNode(t, (socket) => void socket.end(farewell));

  const exchange = { ...exchangeOf(), isRepeat: true };
  assert.equal((await ask(node, '/second', { exchange })).status, 408);
});

test('a 408 to a submission is the answer of the node: its connection was never idle', async (t) => {
  const node = await rawNode(t, (socket, count) => void (count === 1 ? socket.end(farewell) : socket.destroy()));

  assert.equal((await ask(node, '/submit', submission)).status, 408);
});

for (const [name, bytes] of [
  ['nothing', ''],
  ['an interim answer', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
  ['half of an answer', `HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nhe`],
] as const) {
  for (const end of ['end', 'resetAndDestroy'] as const) {
    test(`a submission is sent once when the connection is lost (${end}) after ${name}`, async (t) => {
      let requestsSeen = 0;
      const node = await rawNode(t, (socket) => {
        requestsSeen += 1;
        socket.write(bytes, () => socket[end]());
      });

      await assert.rejects(ask(node, '/submit', submission));

      // A repeated request would arrive before this one, which uses the same pool of one connection.
      await assert.rejects(ask(node, '/submit', submission));
      assert.equal(requestsSeen, 2);
    });
  }
}

test('every submission has a connection of its own, and closes it', async (t) => {
  const seen: string[] = [];
  const counts: number[] = [];
  const server = createServer((socket) => {
    let count = 0;
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      counts.push((count += 1));
      seen.push(/^connection: (\w+)/im.exec(chunk.toString('latin1'))?.[1] ?? '');
      // The node keeps the connection against the request's `Connection: close`.
      socket.write('HTTP/1.1 202 Accepted\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n');
    });
  });
  const port = await listen(t, server);
  const node = nodeAt(t, port);

  for (let at = 0; at < 3; at += 1) assert.equal((await ask(node, '/submit', submission)).status, 202);

  assert.deepEqual([counts, seen], [[1, 1, 1], Array(3).fill('close')]);
});

/** Answers the first round of requests; with the next request it closes every connection, as a restart would. */
function closingNode(roundSize: number) {
  const sockets = new Set<Socket>();
  const open: ServerResponse[] = [];
  const seen = { requests: 0 };
  const answer: Answer = ({ socket }, response) => {
    seen.requests += 1;
    if (sockets.has(socket)) {
      for (const known of sockets) known.end();
      sockets.clear();
      return;
    }
    if (seen.requests <= roundSize) sockets.add(socket);
    open.push(response);
    // All of a round are answered together, so that each has a connection of its own.
    if (seen.requests >= roundSize) for (const waiting of open.splice(0)) waiting.end('{}');
  };
  return { answer, seen };
}

test('when a node closes all idle connections, a read is asked once more, over a live one', async (t) => {
  const { answer, seen } = closingNode(8);
  const { sender, upstream, failures } = await senderOf(t, answer, { connections: 8 });
  await Promise.all(Array.from({ length: 8 }, () => sender.whole(request('/a'), never)));

  const whole = await sender.whole(request('/b'), never);

  assert.equal(whole.status, 200);
  assert.deepEqual([seen.requests, upstream.health, await failures('connection')], [10, 'usable', 0]);
});
