import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AttemptOutcome } from '../../../src/upstream/dispatch/attempt-history.ts';
import { withHedge, type RunningAttempt } from '../../../src/upstream/dispatch/hedge.ts';
import type { Upstream } from '../../../src/upstream/node/upstream.ts';

test('a request that can be sent to no node takes its hedge along', async () => {
  const refused = Promise.withResolvers<AttemptOutcome<never>>();
  const cancelled: string[] = [];
  const run = (name: string, outcome: Promise<AttemptOutcome<never>>): RunningAttempt<never> => ({
    upstream: { name } as Upstream,
    sentAtMs: 0,
    outcome,
    cancel: () => void cancelled.push(name),
  });
  const pending = new Promise<never>(() => undefined);
  const raced = withHedge(run('first', pending), 1, () => {
    setImmediate(() => refused.reject(new Error('unsendable')));
    return run('hedge', refused.promise);
  });
  await assert.rejects(raced, /unsendable/);
  assert.deepEqual(cancelled, ['first', 'hedge']);
});
