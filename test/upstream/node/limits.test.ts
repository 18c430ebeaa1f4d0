import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Semaphore } from '../../../src/upstream/node/limits.ts';

test('a semaphore gives out its limit, more where that is forced, and all again once released', () => {
  const semaphore = new Semaphore(2);
  assert.deepEqual([semaphore.tryAcquire(), semaphore.tryAcquire(), semaphore.tryAcquire()], [true, true, false]);
  semaphore.acquireUnbounded();
  semaphore.release();
  assert.deepEqual([semaphore.taken, semaphore.isFull], [2, true]);
  semaphore.release();
  assert.deepEqual([semaphore.isFull, semaphore.tryAcquire(), semaphore.taken], [false, true, 2]);
});
