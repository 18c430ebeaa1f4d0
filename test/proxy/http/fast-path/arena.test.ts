import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AnswerTurn, type Arena } from '../../../../src/proxy/http/fast-path/answer-queue.ts';

/** Reserves `size` bytes for an answer. */
function take(arenas: AnswerTurn, size: number): Arena {
  const arena = arenas.withRoom(size);
  arena.used += size;
  arena.waiting += 1;
  return arena;
}

test('answers of one turn lie behind one another, and the next turn begins at offset 0', () => {
  const arenas = new AnswerTurn();
  const first = take(arenas, 1_000);
  assert.equal(take(arenas, 1_000), first);
  assert.equal(first.used, 2_000);
  arenas.release(first, true);
  assert.equal(first.used, 2_000, 'one of them is still to be sent');
  arenas.release(first, true);
  assert.equal(arenas.withRoom(1_000), first);
  assert.equal(first.used, 0);
});

test('an answer without room begins another arena, and the full one is reused once it is sent', () => {
  const arenas = new AnswerTurn();
  const full = take(arenas, 60_000);
  const next = take(arenas, 60_000);
  assert.notEqual(next, full);
  arenas.release(full, true);
  assert.equal(take(arenas, 60_000), full);
});

test('bytes that the kernel has not accepted are never overwritten', () => {
  const arenas = new AnswerTurn();
  const lent = take(arenas, 1_000);
  take(arenas, 1_000);
  arenas.release(lent, false);
  assert.notEqual(arenas.withRoom(1_000), lent);
  arenas.release(lent, true);
  for (let at = 0; at < 100; at += 1) {
    const arena = take(arenas, 60_000);
    assert.notEqual(arena, lent);
    if (at % 3 > 0) arenas.release(arena, true);
  }
});
