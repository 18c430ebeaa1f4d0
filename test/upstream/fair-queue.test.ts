import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FairQueue, type Waited } from '../../src/upstream/fair-queue.ts';

const { signal } = new AbortController();
const whenever = { signal, withinMs: 10_000, nowMs: 0 };

const settled = (): Promise<void> => new Promise(setImmediate);

/** A queue whose outcomes are noted as they come, by the names of who waited. */
function queueOf(options: { readonly fewest: number; readonly most: number }) {
  const queue = new FairQueue<string>({ usualWaitMs: 500, ...options });
  const outcomes: string[] = [];
  const wait = (client: string, name: string, place = 'n'): void => {
    const note = (waited: Waited<string>): void =>
      void outcomes.push('place' in waited ? name : `${name} ${waited.refused}`);
    void queue.wait(client, (offered) => offered === place, whenever).then(note);
  };
  return { queue, outcomes, wait };
}

test('clients take turns, each in its own order', async () => {
  const { queue, outcomes, wait } = queueOf({ fewest: 10, most: 10 });
  for (const name of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) wait(name.charAt(0), name);
  while (queue.offer('n'));
  await settled();
  assert.deepEqual(outcomes, ['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  assert.equal(queue.waiting, 0);
});

test('a place goes only to who can use it', async () => {
  const { queue, outcomes, wait } = queueOf({ fewest: 10, most: 10 });
  wait('a', 'a1', 'archive');
  wait('a', 'a2');
  assert.deepEqual([queue.offer('n'), queue.offer('n'), queue.offer('archive')], [true, false, true]);
  await settled();
  assert.deepEqual(outcomes, ['a2', 'a1']);
});

test('beyond the bound whoever asks is refused, but who has many waiting gives way to who has few', async () => {
  const { queue, outcomes, wait } = queueOf({ fewest: 4, most: 4 });
  for (const name of ['a1', 'a2', 'a3', 'a4', 'a5']) wait('a', name);
  await settled();
  assert.deepEqual(outcomes, ['a5 full']);
  wait('b', 'b1');
  wait('b', 'b2');
  wait('b', 'b3');
  await settled();
  // Two each: nobody has clearly more than the other.
  assert.deepEqual(outcomes, ['a5 full', 'a4 full', 'a3 full', 'b3 full']);
  assert.equal(queue.waiting, 4);
});

test('as many may wait as can be served soon, within fixed bounds', () => {
  const { queue } = queueOf({ fewest: 10, most: 1_000 });
  assert.equal(queue.bound(0), 10);
  for (let count = 0; count < 400; count += 1) queue.noteFreed(500);
  assert.equal(queue.bound(1_500), 200);
  assert.equal(queue.bound(2_600), 10);
  for (let count = 0; count < 100_000; count += 1) queue.noteFreed(3_000);
  assert.equal(queue.bound(3_000), 1_000);
});

test('who has waited long enough, or has gone, is late and leaves nothing behind', async () => {
  const queue = new FairQueue<string>({ usualWaitMs: 500, fewest: 10, most: 10 });
  const gone = new AbortController();
  const impatient = queue.wait('a', () => true, { signal, withinMs: 5, nowMs: 0 });
  const leaving = queue.wait('a', () => true, { ...whenever, signal: gone.signal });
  gone.abort();
  assert.deepEqual([await impatient, await leaving], [{ refused: 'late' }, { refused: 'late' }]);
  assert.deepEqual(await queue.wait('a', () => true, { ...whenever, signal: gone.signal }), { refused: 'late' });
  assert.deepEqual([queue.waiting, queue.offer('n')], [0, false]);
});
