import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Bodies, type BodyReservation } from '../../../src/proxy/http/bodies.ts';

/** A pool of 1,000 bytes for bodies of at most 100, on a manual clock. */
function smallPool() {
  let nowMs = 0;
  const ended: string[] = [];
  const pool = new Bodies({ maxHeldBytes: 1_000, maxBytes: 100, now: () => nowMs });
  return {
    pool,
    ended,
    pass: (ms: number): void => void (nowMs += ms),
    open: (client: string, bytes: number, name = client): BodyReservation => {
      const reservation = pool.reserve(client, () => ended.push(name));
      reservation.arrive(bytes);
      return reservation;
    },
  };
}

test('a client may hold as much as it leaves free; beyond that, the pool ends its own slowest body', () => {
  const { pool, ended, open, pass } = smallPool();
  for (let count = 1; count <= 5; count += 1) open('a', 100, `a${count}`);
  assert.deepEqual([ended, pool.heldBytes], [[], 500]);
  pass(5_000);

  open('a', 20, 'a6');

  assert.deepEqual(ended, ['a1']);
  assert.equal(pool.heldBytes, 420);
});

test('with little left free, a client may still hold one body', () => {
  const { pool, ended, open } = smallPool();
  for (const client of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']) open(client, 100).arrived();

  open('j', 100);

  assert.deepEqual([ended, pool.heldBytes], [[], 1_000]);
});

test("a full pool ends the slowest body of its heaviest clients, not the newcomer's", () => {
  const { ended, open, pass } = smallPool();
  for (let count = 1; count <= 10; count += 1) open(`b${count}`, 98, 'still');
  pass(3_000);
  const moving = open('c', 20);
  pass(3_000);

  moving.arrive(70);

  assert.deepEqual(ended, ['still']);
});

test('the pool ends a stalled body before one that makes progress', () => {
  const { ended, open, pass } = smallPool();
  const moving = open('a', 50, 'moving');
  open('a', 50, 'still');
  for (let count = 1; count <= 4; count += 1) open('a', 100, 'whole').arrived();
  pass(3_000);
  moving.arrive(10);

  open('a', 10, 'new');

  assert.deepEqual(ended, ['still']);
});

test('the pool never ends a complete body: without another candidate, the newcomer is refused', () => {
  const { pool, ended, open } = smallPool();
  for (let count = 1; count <= 10; count += 1) open(`a${count}`, 100).arrived();

  open('b', 20);

  assert.deepEqual([ended, pool.heldBytes], [['b'], 1_000]);
});

test('an answer counts with its body until the last user releases both, and is never refused', async () => {
  const { pool, ended, open } = smallPool();
  const { promise: worked, resolve: finish } = Promise.withResolvers<void>();
  const reservation = open('a', 100);
  reservation.arrived();
  reservation.holdFor(worked);
  open('b', 90, 'b arrives');

  reservation.add(900);
  assert.deepEqual([ended, pool.heldBytes], [['b arrives'], 1_000]);

  reservation.release();
  assert.equal(pool.heldBytes, 1_000);
  finish();
  await worked;
  await Promise.resolve();
  assert.equal(pool.heldBytes, 0);
});

test('a closed reservation frees its memory once, and reserves no more', () => {
  const { pool, open } = smallPool();
  const reservation = open('a', 50);

  reservation.close();
  reservation.close();
  reservation.release();
  reservation.add(10);

  assert.equal(pool.heldBytes, 0);
});
