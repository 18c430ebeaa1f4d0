/** Bounds on requests in flight at a node. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConcurrencyLimit, Semaphore } from '../../../src/upstream/node/limits.ts';

interface World {
  /** Requests the node works on at once; the others wait there. */
  readonly capacity: number;
  readonly serviceMs: number;
  /** Requests that clients want to have under way. */
  readonly wanted: number;
}

/** Runs a node and its callers in steps of one service time. Returns the last answer time. */
function run(limit: ConcurrencyLimit, { capacity, serviceMs, wanted }: World, steps: number, fromMs = 0): number {
  let elapsedMs = serviceMs;
  for (let step = 0; step < steps; step += 1) {
    const inFlight = Math.min(wanted, limit.limit);
    elapsedMs = serviceMs * Math.max(1, inFlight / capacity);
    for (let index = 0; index < inFlight; index += 1) limit.enter();
    for (let index = 0; index < inFlight; index += 1) {
      limit.leave();
      limit.observe('head', elapsedMs, fromMs + step * 100);
    }
  }
  return elapsedMs;
}

test('a node that keeps up is given all that is configured', () => {
  const limit = new ConcurrencyLimit(128);
  run(limit, { capacity: 1_000, serviceMs: 20, wanted: 128 }, 100);
  assert.equal(limit.limit, 128);
});

test('requests that wait at the node bring the bound to where they wait for little', () => {
  const limit = new ConcurrencyLimit(128);
  run(limit, { capacity: 8, serviceMs: 20, wanted: 4 }, 20);
  const elapsedMs = run(limit, { capacity: 8, serviceMs: 20, wanted: 1_000 }, 300, 2_000);
  // Twice the usual time and 50 ms, and the way there and back.
  assert.ok(elapsedMs < 110, `${elapsedMs} ms at ${limit.limit}`);
  assert.ok(limit.limit >= 24 && limit.limit <= 44, String(limit.limit));
});

test('the bound comes back when the node does', () => {
  const limit = new ConcurrencyLimit(64);
  run(limit, { capacity: 2, serviceMs: 20, wanted: 2 }, 20);
  run(limit, { capacity: 2, serviceMs: 20, wanted: 64 }, 100, 2_000);
  assert.ok(limit.limit < 20, String(limit.limit));
  run(limit, { capacity: 100, serviceMs: 20, wanted: 64 }, 200, 12_000);
  assert.equal(limit.limit, 64);
});

test('a node that becomes slower by nature is not throttled for ever', () => {
  const limit = new ConcurrencyLimit(64);
  run(limit, { capacity: 100, serviceMs: 5, wanted: 40 }, 50);
  run(limit, { capacity: 100, serviceMs: 100, wanted: 40 }, 600, 5_000);
  assert.ok(limit.limit >= 40, String(limit.limit));
});

test('views and single slow answers do not count, and the limit has a floor', () => {
  const limit = new ConcurrencyLimit(64);
  run(limit, { capacity: 100, serviceMs: 5, wanted: 40 }, 20);
  for (let atMs = 2_000; atMs < 10_000; atMs += 10) limit.observe('view', 5_000, atMs);
  for (let atMs = 10_000; atMs < 20_000; atMs += 10) limit.observe('head', atMs % 50 === 0 ? 3_000 : 5, atMs);
  assert.equal(limit.limit, 64);
  for (let atMs = 20_000; atMs < 60_000; atMs += 100) limit.pushBack(atMs);
  assert.equal(limit.limit, 8);
});

test('a node that turns requests away gets fewer, once for many at a time', () => {
  const limit = new ConcurrencyLimit(100);
  for (let count = 0; count < 90; count += 1) limit.enter();
  for (let count = 0; count < 50; count += 1) limit.pushBack(1_000);
  assert.equal(limit.limit, 62);
  assert.equal(limit.isFull, true);
  for (let count = 0; count < 60; count += 1) limit.leave();
  assert.deepEqual([limit.isFull, limit.isHalfFree, limit.inFlight], [false, true, 30]);
});

test('while this process runs late, no node is given less for it', () => {
  let lagMs = 0;
  const limit = new ConcurrencyLimit(64, () => lagMs);
  run(limit, { capacity: 100, serviceMs: 5, wanted: 40 }, 20);
  lagMs = 30;
  run(limit, { capacity: 2, serviceMs: 20, wanted: 64 }, 100, 2_000);
  assert.equal(limit.limit, 64);
  lagMs = 5;
  run(limit, { capacity: 2, serviceMs: 20, wanted: 64 }, 100, 12_000);
  assert.ok(limit.limit < 20, String(limit.limit));
});

test('a semaphore gives out its limit, more where that is forced, and all again once released', () => {
  const semaphore = new Semaphore(2);
  assert.deepEqual([semaphore.tryAcquire(), semaphore.tryAcquire(), semaphore.tryAcquire()], [true, true, false]);
  semaphore.acquireUnbounded();
  semaphore.release();
  assert.deepEqual([semaphore.taken, semaphore.isFull], [2, true]);
  semaphore.release();
  assert.deepEqual([semaphore.isFull, semaphore.tryAcquire(), semaphore.taken], [false, true, 2]);
});
