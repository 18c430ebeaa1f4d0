import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Channel } from '../../src/workers/channel.ts';

interface Theirs {
  double(value: unknown): unknown;
}

/** Two ends, with structured clones in between as between processes. */
function channelTo(handlers: Theirs): Channel<Theirs> {
  const here: Channel<Theirs> = new Channel((message) => there.take(structuredClone(message)), {});
  const there: Channel<object> = new Channel((message) => here.take(structuredClone(message)), handlers);
  return here;
}

test('a call resolves or rejects like the handler', async () => {
  const channel = channelTo({
    double: (value) => {
      if (typeof value !== 'number') throw new TypeError('no number');
      return value * 2;
    },
  });
  assert.equal(await channel.call('double', 21, 1_000), 42);
  await assert.rejects(channel.call('double', 'x', 1_000), /no number/);
});

test('a call without a structured clone rejects at once, and only once', async () => {
  const channel = channelTo({ double: (value) => value });
  await assert.rejects(
    channel.call('double', () => {}, 20),
    { name: 'DataCloneError' },
  );
  // A second, unhandled rejection would end the process.
  await sleep(60);
});

test('an answer without a structured clone is a fault', async () => {
  const channel = channelTo({ double: () => () => {} });
  await assert.rejects(channel.call('double', 1, 1_000), /DataCloneError/);
});
