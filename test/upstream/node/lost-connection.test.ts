import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { never, request, senderOf, type Answer } from '../../support/sender.ts';

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

test('a submission that was lost with its connection is not sent again', async (t) => {
  let submissions = 0;
  const { sender, failures } = await senderOf(
    t,
    ({ method, socket }, response) => {
      if (method === 'GET') return void response.end('{}');
      submissions += 1;
      return void socket.end();
    },
    { connections: 1 },
  );
  await sender.whole(request('/a'), never);
  const wire = { method: 'POST', path: '/transactions', headers: {}, body: Buffer.from('signed') } as const;

  await assert.rejects(sender.whole({ ...request('/transactions'), wire, isIdempotent: false }, never));

  assert.deepEqual([submissions, await failures('connection')], [1, 1]);
});

test('a second loss in a row is a failure', async (t) => {
  const { sender, failures } = await senderOf(t, ({ socket }) => socket.resetAndDestroy(), { connections: 1 });
  await assert.rejects(sender.whole(request('/a'), never));
  assert.equal(await failures('connection'), 1);
});
