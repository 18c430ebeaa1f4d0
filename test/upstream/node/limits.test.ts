/** Bounds on requests in flight at a node. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConcurrencyLimit, Semaphore } from '../../../src/upstream/node/limits.ts';
import { runScript, scriptsIn, type Steps } from '../../support/script.ts';

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

function stepsOf(): Steps {
  let lagMs = 0;
  let limit = new ConcurrencyLimit(100, () => lagMs);
  const observe = (readClass: 'head' | 'archive') => (elapsedMs: number, nowMs: number, times: number) => {
    for (let left = times; left > 0; left -= 1) limit.observe(readClass, elapsedMs, nowMs);
  };
  return {
    most: (most: number) => (limit = new ConcurrencyLimit(most)),
    late: (ms: number) => (lagMs = ms),
    enter: () => limit.enter(),
    leave: () => limit.leave(),
    /** So many answers, each after so many ms, at one moment. */
    head: observe('head'),
    archive: observe('archive'),
    push: (nowMs: number) => limit.pushBack(nowMs),
    limit: () => limit.limit,
    full: () => limit.isFull,
    halfFree: () => limit.isHalfFree,
  };
}

/** Claim and script, of a bound of 100. With a usual time of 10 ms, answers are slow above 70 ms. */
const scripts = `
a node is full at its bound | 99x enter, full = false, enter, full = true
half of it is free below the half | 49x enter, halfFree = true, enter, halfFree = false
ten answers in 100 ms decide, of which more than half are slow | 90x enter, head 10 0 10, head 71 100 6, head 10 100 4, limit = 81
half are not most | 90x enter, head 10 0 10, head 71 100 5, head 10 100 5, limit = 100
twice the usual time and 50 ms is not slow | 90x enter, head 10 0 10, head 70 100 10, limit = 100
before 100 ms nothing is decided | 90x enter, head 10 0 10, head 71 99 10, limit = 100, head 71 100 1, limit = 81
nor on nine answers | 90x enter, head 10 0 10, head 71 100 9, limit = 100, head 71 100 1, limit = 81
nor the first time | 90x enter, head 10 0 9, head 71 50 1, head 71 100 10, limit = 100, head 71 150 1, limit = 81
answers of both classes count, each by its own time | 90x enter, head 10 0 10, head 71 100 6, archive 500 100 4, limit = 81
those of a class without a usual time are not slow | 90x enter, head 10 0 10, head 71 100 5, archive 500 100 5, limit = 100
the usual time is the median | 90x enter, head 10 0 4, head 90 0 4, head 10 0 2, head 71 100 10, limit = 81
it falls at once | 90x enter, head 100 0 10, head 10 100 10, head 71 200 10, limit = 81
it rises by a tenth of the difference, while less than half of the bound is in use | 10x enter, head 10 0 10, head 20 100 10, 80x enter, head 72 200 10, limit = 100
from there on slow answers count | 10x enter, head 10 0 10, head 20 100 10, 80x enter, head 73 200 10, limit = 81
with half of the bound in use it stays | 50x enter, head 10 0 10, head 20 100 10, 40x enter, head 71 200 10, limit = 81
without answers as well | 10x enter, archive 10 0 10, head 10 100 10, 80x enter, archive 71 200 10, limit = 81
while this process is more than 20 ms late no bound falls | 90x enter, head 10 0 10, late 21, head 71 100 10, limit = 100, late 20, head 71 200 10, limit = 81
or grows by slow answers | 90x enter, head 10 0 10, head 71 100 10, limit = 81, late 30, head 71 200 10, limit = 81
a bound that is in use to four fifths grows | most 200, 100x enter, head 10 0 10, head 71 100 9, 28x leave, head 71 100 1, limit = 90, head 10 200 10, limit = 95
a bound that is not in use does not | 90x enter, head 10 0 10, head 71 100 10, 80x leave, head 10 200 10, limit = 86, head 10 300 10, limit = 86
requests that are turned away count once in 100 ms | 90x enter, push 1000, limit = 62, push 1099, limit = 62, push 1100, limit = 44
`;

for (const [claim, script] of scriptsIn(scripts)) test(claim, () => runScript(stepsOf(), script));

test('who waits for a semaphore goes on at a release, one for each, or when the time or the caller has gone', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const semaphore = new Semaphore(1);
  const [ended, never, leaving] = [[] as string[], new AbortController(), new AbortController()];
  const wait = (name: string, { signal }: AbortController): Promise<unknown> =>
    semaphore.released(1_000, signal).then(() => ended.push(name));
  const waits = [wait('first', never), wait('left', leaving), wait('second', never), wait('third', never)];
  leaving.abort();
  await waits[1];
  for (const name of ['first', 'second']) {
    semaphore.release();
    await new Promise(setImmediate);
    assert.equal(ended.at(-1), name);
  }
  t.mock.timers.tick(1_000);
  await Promise.all(waits);
  assert.deepEqual(ended, ['left', 'first', 'second', 'third']);
});
