import assert from 'node:assert/strict';
import cluster from 'node:cluster';
import { test } from 'node:test';
import { WorkerPool, type PoolEvents } from '../../src/workers/worker-pool.ts';

const failures = [
  { how: 'at once', settings: { gid: 'none' as never }, reason: /ERR_INVALID_ARG_TYPE|must be/ },
  { how: 'a moment later', settings: { cwd: '/nonexistent' }, reason: /ENOENT/ },
];

for (const { how, settings, reason } of failures) {
  test(`a fork that fails ${how} is repeated, after growing pauses`, async () => {
    const lost: string[] = [];
    const pauses: number[] = [];
    const { promise: again, resolve } = Promise.withResolvers<void>();
    const events = {
      servicesFor: () => ({}),
      onGone: () => undefined,
      onLost: (_id: number | undefined, reason: string, againMs: number) => {
        lost.push(reason);
        pauses.push(againMs);
        if (lost.length === 3) resolve();
      },
    };
    const pool = new WorkerPool(0, events as unknown as PoolEvents);
    cluster.setupPrimary(settings);

    await assert.rejects(pool.start(1), reason);
    await again;
    pool.kill();

    assert.match(lost.join('\n'), reason);
    // From start to start: the life of a process is a part of its pause.
    const [first = NaN, second = NaN, third = NaN] = pauses;
    assert.ok(first <= 100 && second <= 200 && third <= 400 && third > 100, `pauses of ${pauses.join(', ')} ms`);
    assert.deepEqual(pool.workers, []);
    assert.deepEqual(Object.keys(cluster.workers ?? {}), []);
    cluster.setupPrimary({ gid: undefined as never, cwd: undefined as never });
  });
}
