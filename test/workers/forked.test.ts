/** Processes that do not do what is expected of them, and one of which nothing more is. */
import assert from 'node:assert/strict';
import cluster from 'node:cluster';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Forked, idle, type Services } from '../../src/workers/forked.ts';

const longMs = 60_000;

/** A process that has loaded everything, and how it ends. */
async function loaded(t: TestContext) {
  cluster.setupPrimary({ exec: fileURLToPath(new URL('../../src/workers/worker-process.ts', import.meta.url)) });
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const ready = Promise.withResolvers<void>();
  const gone = Promise.withResolvers<string>();
  const role = { ...idle, onLoaded: () => ready.resolve(), onGone: (how: string) => gone.resolve(how) };
  const forked = new Forked(() => ({}) as Services, role);
  t.after(() => forked.kill());
  await ready.promise;
  return { forked, role, gone: gone.promise };
}

test('the spare waits for as long as it is not needed', async (t) => {
  const { forked } = await loaded(t);

  t.mock.timers.tick(longMs);

  await forked.channel.call('alive', undefined, longMs);
});

test('a worker that has loaded and does not serve is ended', async (t) => {
  const { forked, role, gone } = await loaded(t);

  forked.enlist(role);
  t.mock.timers.tick(longMs);

  assert.equal(await gone, 'did not serve within 30 s');
});

test('a message that cannot be delivered does not keep a process from being ended', async (t) => {
  const { forked, gone } = await loaded(t);

  const closed = forked.close(longMs);
  cluster.workers?.[forked.id]?.emit('error', new Error('write EPIPE'));

  await closed;
  assert.equal(await gone, 'code 0');
});
