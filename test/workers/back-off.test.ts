import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BackOff } from '../../src/workers/worker-pool.ts';

test('a worker that crashes at once restarts at growing intervals of up to 10 s', () => {
  const backOff = new BackOff();
  const waits = Array.from({ length: 9 }, () => backOff.next(0));
  assert.deepEqual(waits, [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
});

test('the lifetime of a process is subtracted from the wait', () => {
  const backOff = new BackOff();
  assert.deepEqual([backOff.next(60), backOff.next(5_000), backOff.next(250)], [40, 0, 150]);
});

test('a long lifetime resets the wait', () => {
  const backOff = new BackOff();
  for (let count = 0; count < 9; count += 1) backOff.next(0);
  assert.deepEqual([backOff.next(30_000), backOff.next(0)], [0, 200]);
});
