import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CacheKey } from '../../../src/cache/key.ts';
import { marksOf } from '../../../src/cache/purge.ts';
import { ReadTable } from '../../../src/cache/memory/tables.ts';
import { keyAt } from '../../support/answers.ts';
import { fc } from '../../support/fast-check.ts';

/** Versions of three pages. */
function keyOf(name: number): CacheKey {
  return keyAt(BigInt((name % 14) + 4096 * Math.floor(name / 14)));
}

function add(table: ReadTable, key: CacheKey, answer: number): number {
  return table.add(key, marksOf(key.page), answer, undefined);
}

test('reads are found by their keys and leave in the order of use, after any sequence', () => {
  const step = fc.record({ what: fc.constantFrom('add', 'touch', 'remove', 'change'), name: fc.nat({ max: 41 }) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const table = new ReadTable();
      /** Answers by name, the least recently used read first. */
      const model = new Map<number, number>();
      for (const [index, { what, name }] of steps.entries()) {
        const read = table.find(keyOf(name));
        assert.equal(read === undefined ? undefined : table.answerOf(read), model.get(name));
        if (read === undefined) {
          if (what !== 'add') continue;
          add(table, keyOf(name), index);
          model.set(name, index);
        } else if (what === 'remove') {
          const stamp = table.stampOf(read);
          table.remove(read);
          model.delete(name);
          assert.deepEqual([table.holds(read), table.stampOf(read) === stamp], [false, false]);
        } else if (what === 'touch') {
          table.touch(read);
          const answer = model.get(name) as number;
          model.delete(name);
          model.set(name, answer);
        } else if (what === 'change') {
          const stamp = table.stampOf(read);
          table.setAnswer(read, index, undefined);
          model.set(name, index);
          assert.notEqual(table.stampOf(read), stamp);
        }
      }
      const left: number[] = [];
      for (let oldest = table.oldest; oldest !== undefined; oldest = table.oldest) {
        left.push(table.answerOf(oldest));
        table.remove(oldest);
      }
      assert.deepEqual([left, table.size], [[...model.values()], 0]);
    }),
  );
});

test('ids that differ in any of their first 160 bits, and slots that differ, are of different reads', () => {
  const table = new ReadTable();
  const key = keyAt(7n);
  const read = add(table, key, 1);
  for (let at = 0; at < 20; at += 1) {
    const id = key.id.slice(0, at) + String.fromCharCode(key.id.charCodeAt(at) ^ 1) + key.id.slice(at + 1);
    assert.equal(table.find({ ...key, id }), undefined);
  }
  for (let bit = 1; bit < 4096; bit *= 2) assert.equal(table.find({ ...key, slot: key.slot ^ bit }), undefined);
  assert.equal(table.find(key), read);
});

test('an answer with an end has ended then, and one without never does', () => {
  const table = new ReadTable();
  const now = performance.now();
  const ends = [undefined, now + 60_000, now - 1].map((endMs, index) =>
    table.add(keyAt(BigInt(index)), marksOf('4|resource|0x1/a|json|0'), 1, endMs),
  );
  assert.deepEqual(
    ends.map((read) => [table.endsAt(read), table.hasEnded(read)]),
    [
      [false, false],
      [true, false],
      [true, true],
    ],
  );
});
