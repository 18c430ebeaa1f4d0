import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Bound } from '../../src/upstream/bound.ts';

test('a bound ends by itself, and says so', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const bound = new Bound(new AbortController().signal, 100);
  t.mock.timers.tick(99);
  await setImmediate();
  assert.equal(bound.signal.aborted, false);
  t.mock.timers.tick(1);
  await setImmediate();
  assert.deepEqual([bound.isOver, bound.signal.aborted], [true, true]);
});

test('what has come by the time that a bound is up is taken first', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const bound = new Bound(new AbortController().signal, 100);
  t.mock.timers.tick(100);
  // As an answer does that is read in the same turn of the event loop.
  bound.release();
  await setImmediate();
  assert.deepEqual([bound.isOver, bound.signal.aborted], [false, false]);
});

test('a bound follows its parent, also one that has ended before', () => {
  const parent = new AbortController();
  const bound = new Bound(parent.signal, 60_000);
  bound.release();
  parent.abort('gone');
  assert.deepEqual([bound.isOver, bound.signal.reason], [false, 'gone']);
  const late = new Bound(parent.signal, 60_000);
  late.end();
  assert.equal(late.signal.reason, 'gone');
});

test('a parent that outlives thousands of requests keeps none of their listeners', () => {
  const { signal } = new AbortController();
  for (let index = 0; index < 5_000; index += 1) {
    const bound = new Bound(signal, 60_000);
    assert.equal(getEventListeners(signal, 'abort').length, 1);
    bound.end();
  }
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});
