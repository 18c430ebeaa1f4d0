import assert from 'node:assert/strict';
import cluster from 'node:cluster';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { WorkerProcess, type Services } from '../../src/workers/worker-process.ts';

const longMs = 60_000;

/** A loaded process, and the reason of its end. */
async function loaded(t: TestContext) {
  cluster.setupPrimary({ exec: fileURLToPath(new URL('../../src/workers/worker-main.ts', import.meta.url)) });
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const ready = Promise.withResolvers<void>();
  const gone = Promise.withResolvers<string>();
  const worker = new WorkerProcess(() => ({}) as Services, {
    loaded: () => ready.resolve(),
    serving: () => assert.fail('it has no setup'),
    failed: () => assert.fail('it has no setup'),
    gone: (how) => gone.resolve(how),
  });
  t.after(() => worker.kill());
  await ready.promise;
  return { worker, gone: gone.promise };
}

test('a loaded worker that does not serve is killed', async (t) => {
  const { gone } = await loaded(t);

  t.mock.timers.tick(longMs);

  assert.equal(await gone, 'did not serve within 30 s');
});

test('an undeliverable message does not prevent the end of a process', async (t) => {
  const { worker, gone } = await loaded(t);

  const closed = worker.close(longMs);
  cluster.workers?.[worker.id]?.emit('error', new Error('write EPIPE'));

  await closed;
  assert.equal(await gone, 'code 0');
});
