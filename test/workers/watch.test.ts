/** Who is taken for hung, and who is not. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Channel } from '../../src/workers/channel.ts';
import type { Member } from '../../src/workers/forked.ts';
import type { WorkerHandlers } from '../../src/workers/protocol.ts';
import { Watch } from '../../src/workers/watch.ts';
import { until } from '../support/eventually.ts';

interface Watched {
  readonly member: Member;
  isStuck: boolean;
  asked: number;
}

/** A worker that answers at the next turn of the event loop, unless it is stuck. */
function worker(id: number): Watched {
  const channel: Channel<WorkerHandlers> = new Channel((message) => {
    watched.asked += 1;
    setImmediate(() => watched.isStuck || there.take(message));
  }, {});
  const there: Channel<object> = new Channel((message) => channel.take(message), { alive: () => undefined });
  const watched: Watched = { member: { id, channel, isServing: true }, isStuck: false, asked: 0 };
  return watched;
}

function watch(t: TestContext, workers: readonly Watched[]): { readonly hung: number[] } {
  const hung: number[] = [];
  const watching = new Watch({
    members: () => workers.map(({ member }) => member),
    onHung: ({ id }) => hung.push(id),
    silentMs: 300,
    everyMs: 50,
  });
  t.after(() => watching.close());
  return { hung };
}

test('a worker that gives no sign of life is hung, once, and is not asked again and again', async (t) => {
  const [well, stuck] = [worker(1), worker(2)];
  stuck.isStuck = true;
  const { hung } = watch(t, [well, stuck]);

  await until(() => hung.length !== 0);
  await sleep(500);

  assert.deepEqual(hung, [2]);
  assert.equal(stuck.asked, 1);
  assert.ok(well.asked > 5);
});

test('a worker that was stuck for a while starts anew', async (t) => {
  const other = worker(1);
  const { hung } = watch(t, [other]);
  for (let round = 0; round < 4; round += 1) {
    const { asked } = other;
    await until(() => other.asked !== asked);
    // The answers that it owes come when it goes on.
    const stopped = performance.now();
    while (performance.now() - stopped < 150) await new Promise((resolve) => setImmediate(resolve));
  }
  assert.deepEqual(hung, []);
});

test('nobody is hung because the primary itself stood still', async (t) => {
  const other = worker(1);
  const { hung } = watch(t, [other]);
  for (let pause = 0; pause < 3; pause += 1) {
    const { asked } = other;
    await until(() => other.asked !== asked);
    // Nobody runs in this time, and the answer is read only after it.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600);
  }
  await sleep(200);
  assert.deepEqual(hung, []);
});
