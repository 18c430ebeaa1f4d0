/** Calls between processes, and what becomes of those that cannot be made. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Channel } from '../../src/workers/channel.ts';

interface Theirs {
  double(value: unknown): unknown;
}

/** Two ends, joined as processes are: what has no structured clone cannot be sent. */
function channelTo(handlers: Theirs): Channel<Theirs> {
  const here: Channel<Theirs> = new Channel((message) => there.take(structuredClone(message)), {});
  const there: Channel<object> = new Channel((message) => here.take(structuredClone(message)), handlers);
  return here;
}

test('a call is answered, or fails as the other side does', async () => {
  const channel = channelTo({
    double: (value) => {
      if (typeof value !== 'number') throw new TypeError('no number');
      return value * 2;
    },
  });
  assert.equal(await channel.call('double', 21, 1_000), 42);
  await assert.rejects(channel.call('double', 'x', 1_000), /no number/);
});

test('a question that cannot be sent fails at once, and not once more when its time is over', async () => {
  const channel = channelTo({ double: (value) => value });
  await assert.rejects(
    channel.call('double', () => {}, 20),
    { name: 'DataCloneError' },
  );
  // A rejection that nobody waits for would end the process.
  await sleep(60);
});

test('an answer that cannot be sent is a fault', async () => {
  const channel = channelTo({ double: () => () => {} });
  await assert.rejects(channel.call('double', 1, 1_000), /DataCloneError/);
});
