/** Streamed answers and the connections they hold: a sender in front of raw nodes. */
import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { ByteBudget } from '../../../src/upstream/byte-budget.ts';
import type { StreamedAnswer } from '../../../src/upstream/dispatch/exchange.ts';
import { onceClosed } from '../../../src/upstream/dispatch/node-stream.ts';
import type { Sender } from '../../../src/upstream/dispatch/sender.ts';
import { never, request, senderOf, type Answer } from '../../support/sender.ts';

const endless: Answer = (_request, response) => {
  const block = Buffer.alloc(64 * 1024, 'x');
  const more = (): void => {
    while (!response.destroyed && response.write(block));
  };
  response.writeHead(200, { 'content-type': 'application/json' });
  response.on('drain', more);
  more();
};

const short: Answer = (_request, response) => response.end('{}');

const large: Answer = (_request, response) => response.end(JSON.stringify(' '.repeat(100_000)));

const endlessOrShort: Answer = (incoming, response) => {
  if (incoming.url === '/v1/endless') endless(incoming, response);
  else if (incoming.url === '/v1/large') large(incoming, response);
  else short(incoming, response);
};

async function streamed(sender: Sender, signal = never): Promise<StreamedAnswer> {
  const answer = await sender.stream(request('/endless'), signal);
  assert.ok('stream' in answer);
  return answer;
}

/** Resolves after the stream's close event. `once` would reject for its error. */
function closed({ stream }: StreamedAnswer): Promise<void> {
  return new Promise((resolve) => onceClosed(stream, () => setImmediate(resolve)));
}

test('a stream without reads ends after the bound, and a waiting request gets its place', async (t) => {
  const { sender, upstream, failures } = await senderOf(t, endless, { connections: 1 });
  const first = await streamed(sender);
  const broken = closed(first);
  assert.equal(upstream.inFlight, 1);

  const second = await streamed(sender);

  await broken;
  assert.match(String(first.stream.errored), /the client has read nothing for 300 ms/);
  assert.equal(upstream.inFlight, 1);
  second.stream.destroy();
  await closed(second);
  assert.deepEqual([upstream.inFlight, upstream.health, await failures('queue')], [0, 'usable', 0]);
});

test('a stream with reads goes on for longer than the bound', async (t) => {
  const { sender } = await senderOf(t, endless, { connections: 1, limits: { stallMs: 50 } });
  const { stream } = await streamed(sender);
  const startedMs = performance.now();
  for await (const _ of stream) {
    if (performance.now() - startedMs > 200) break;
  }
  assert.ok(performance.now() - startedMs > 200);
});

test('a client that takes much at once is given time for it, and no more than that', async (t) => {
  const { sender } = await senderOf(t, endless, { connections: 1, limits: { stallMs: 200 } });
  const answer = await streamed(sender);
  const { stream } = answer;
  let taken = 0;
  const step = async (bytes: number): Promise<void> => {
    for (const until = taken + bytes; taken < until && !stream.destroyed;) {
      const chunk = stream.read() as Buffer | null;
      if (chunk === null) await Promise.race([once(stream, 'readable'), closed(answer)]);
      else taken += chunk.length;
    }
  };

  for (let round = 0; round < 3; round += 1) {
    await step(1024 * 1024);
    await setTimeout(300);
    assert.equal(stream.destroyed, false);
  }
  await closed(answer);

  assert.match(String(stream.errored), /the client has read nothing for \d+ ms/);
});

test('a complete answer without reads ends as well', async (t) => {
  const { sender, upstream } = await senderOf(t, large, { connections: 1, limits: { stallMs: 20 } });
  await closed(await streamed(sender));
  assert.equal(upstream.inFlight, 0);
});

test('streams leave a quarter of the connections to everything else', async (t) => {
  const { sender, upstream, failures, refusals } = await senderOf(t, endlessOrShort, {
    connections: 4,
    limits: { stallMs: 60_000, deadlineMs: 200 },
  });
  const streams = await Promise.all([streamed(sender), streamed(sender), streamed(sender)]);

  const whole = await sender.whole(request('/small'), never);
  await assert.rejects(streamed(sender), /nodes are at capacity/);

  assert.equal(whole.status, 200);
  assert.deepEqual([await failures('queue'), await refusals('late')], [0, 1]);
  assert.equal(upstream.health, 'usable');
  for (const { stream } of streams) stream.destroy();
});

test('a request that waited in vain for one of our own to end is no failure of the node', async (t) => {
  const limits = { timeoutMs: 150, deadlineMs: 150 };
  const { sender, upstream, failures, refusals } = await senderOf(t, () => undefined, { connections: 1, limits });
  const why = /no node answered|nodes are at capacity/;
  const all = [1, 2, 3, 4].map(() => assert.rejects(sender.whole(request('/hang'), never), why));
  await Promise.all(all);

  // The one that had the place may end a moment before the others, and the next gets it for that moment.
  const [late, timedOut] = [await refusals('late'), await failures('timeout')];
  assert.deepEqual([late + timedOut, await failures('queue'), timedOut >= 1 && late >= 1], [4, 0, true]);
  assert.equal(upstream.health, 'usable');
});

test('a node that takes no connection at all fails, however few connections it is allowed', async (t) => {
  const { sender, upstream, failures, server } = await senderOf(t, () => undefined, { connections: 1 });
  server.close();
  await once(server, 'close');
  for (let index = 0; index < 2; index += 1) await assert.rejects(sender.whole(request('/small'), never));
  assert.deepEqual([await failures('connection'), upstream.health], [2, 'down']);
});

test('a node without a place for a stream is passed over for one that has one', async (t) => {
  const { sender } = await senderOf(t, endless, { connections: 1, nodes: 3, limits: { stallMs: 60_000 } });
  const answers = [await streamed(sender), await streamed(sender), await streamed(sender)];
  assert.equal(new Set(answers.map(({ upstream }) => upstream)).size, 3);
  for (const { stream } of answers) stream.destroy();
});

test('an aborted client ends its stream, and the place is free again', async (t) => {
  const { sender, upstream } = await senderOf(t, endless, { connections: 1 });
  const client = new AbortController();
  const answer = await streamed(sender, client.signal);
  client.abort(new Error('gone'));
  await closed(answer);
  assert.equal(upstream.streams.isFull, false);
  assert.match(String(answer.stream.errored), /gone/);
});

test('hundreds of requests under one signal leave no listener on it, however they end', async (t) => {
  const { sender, upstream } = await senderOf(t, endlessOrShort, { connections: 8 });
  const { signal } = new AbortController();
  for (let round = 0; round < 30; round += 1) {
    await Promise.all(Array.from({ length: 20 }, () => sender.whole(request('/small'), signal)));
    const answer = await streamed(sender, signal);
    answer.stream.destroy();
    await closed(answer);
    const passed = await sender.stream(request('/large'), signal);
    assert.ok('stream' in passed);
    passed.stream.resume();
    await closed(passed);
  }
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  assert.equal(upstream.inFlight, 0);
});

test('an answer too large to be read whole is no failure of the node, and what it took is free again', async (t) => {
  const budget = new ByteBudget({ largest: 4 * 2 ** 20, all: 6 * 2 ** 20 });
  const { sender, upstream, failures } = await senderOf(t, endlessOrShort, { connections: 1, budget });
  for (let round = 0; round < 5; round += 1) {
    await assert.rejects(sender.whole(request('/endless'), never), /no node answered/);
  }
  assert.deepEqual([await failures('size'), upstream.health, budget.held], [5, 'usable', 0]);
  assert.equal((await sender.whole(request('/small'), never)).status, 200);
});
