import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Channel } from '../../src/workers/channel.ts';
import { HangWatch, type WatchedWorker } from '../../src/workers/worker-pool.ts';
import type { WorkerHandlers } from '../../src/workers/protocol.ts';
import { until } from '../support/eventually.ts';

interface TestWorker {
  readonly worker: WatchedWorker;
  isStuck: boolean;
  asked: number;
}

/** A worker that answers at the next turn of the event loop, unless it is hung. */
function worker(id: number): TestWorker {
  const channel: Channel<WorkerHandlers> = new Channel((message) => {
    watched.asked += 1;
    setImmediate(() => watched.isStuck || there.take(message));
  }, {});
  const there: Channel<object> = new Channel((message) => channel.take(message), { alive: () => undefined });
  const watched: TestWorker = { worker: { id, channel }, isStuck: false, asked: 0 };
  return watched;
}

function watch(t: TestContext, workers: readonly TestWorker[]): { readonly hung: number[] } {
  const hung: number[] = [];
  const watching = new HangWatch({
    workers: () => workers.map(({ worker }) => worker),
    onHung: ({ id }) => hung.push(id),
    silentMs: 300,
    everyMs: 50,
  });
  t.after(() => watching.close());
  return { hung };
}

test('a worker without an answer counts as hung once, and gets one query', async (t) => {
  const [well, stuck] = [worker(1), worker(2)];
  stuck.isStuck = true;
  const { hung } = watch(t, [well, stuck]);

  await until(() => hung.length !== 0);
  await sleep(500);

  assert.deepEqual(hung, [2]);
  assert.equal(stuck.asked, 1);
  assert.ok(well.asked > 5);
});

test('an answer resets the silence of a worker', async (t) => {
  const other = worker(1);
  const { hung } = watch(t, [other]);
  for (let round = 0; round < 4; round += 1) {
    const { asked } = other;
    await until(() => other.asked !== asked);
    const stopped = performance.now();
    while (performance.now() - stopped < 150) await new Promise((resolve) => setImmediate(resolve));
  }
  assert.deepEqual(hung, []);
});

test('no worker counts as hung while the primary itself is stopped', async (t) => {
  const other = worker(1);
  const { hung } = watch(t, [other]);
  for (let pause = 0; pause < 3; pause += 1) {
    const { asked } = other;
    await until(() => other.asked !== asked);
    // Neither runs in this time, and the answer is read only after it.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600);
  }
  await sleep(200);
  assert.deepEqual(hung, []);
});
