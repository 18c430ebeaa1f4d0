import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Deadline } from '../../src/upstream/deadline.ts';

test('a deadline ends by itself, with its reason', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const deadline = new Deadline(new AbortController().signal, 100);
  t.mock.timers.tick(99);
  await setImmediate();
  assert.equal(deadline.aborted, false);
  t.mock.timers.tick(1);
  await setImmediate();
  assert.deepEqual([deadline.isOver, deadline.aborted], [true, true]);
});

test('what has come by the time that a deadline is over is taken first', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const deadline = new Deadline(new AbortController().signal, 100);
  t.mock.timers.tick(100);
  // Like an answer that is read in the same turn of the event loop.
  deadline.release();
  await setImmediate();
  assert.deepEqual([deadline.isOver, deadline.aborted], [false, false]);
});

test('a deadline follows its parent, also one that has ended before', () => {
  const parent = new AbortController();
  const deadline = new Deadline(parent.signal, 60_000);
  deadline.release();
  parent.abort('gone');
  assert.deepEqual([deadline.isOver, deadline.reason], [false, 'gone']);
  const late = new Deadline(parent.signal, 60_000);
  late.end();
  assert.equal(late.reason, 'gone');
});

test('a parent that outlives thousands of requests keeps none of their listeners', () => {
  const { signal } = new AbortController();
  for (let index = 0; index < 5_000; index += 1) {
    const deadline = new Deadline(signal, 60_000);
    assert.equal(getEventListeners(signal, 'abort').length, 1);
    deadline.end();
  }
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});
