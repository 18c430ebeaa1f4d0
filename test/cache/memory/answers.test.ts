import assert from 'node:assert/strict';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { CacheKey } from '../../../src/cache/key.ts';
import { Answers, WideMap } from '../../../src/cache/memory/answers.ts';
import { largestPiece, Slabs, type BlockRef } from '../../../src/cache/memory/slabs.ts';
import { ReadTable } from '../../../src/cache/memory/tables.ts';
import { marksOf } from '../../../src/cache/purge.ts';
import type { CachedResponse } from '../../../src/cache/record.ts';
import { answerOf, keyAt } from '../../support/answers.ts';
import { anyAnswer } from '../../support/any-answer.ts';
import { fc } from '../../support/fast-check.ts';

test('an answer is read back unchanged, whatever its content', () => {
  const answers = new Answers();
  const isUnchanged = (given: CachedResponse) => assert.deepEqual(answers.get(answers.hold(given)), given);
  fc.assert(fc.property(anyAnswer, isUnchanged), { numRuns: 400 });
});

test('equal answers are held once, and go with the last read that has them', () => {
  const answers = new Answers();
  const first = answers.hold(answerOf('the same'));
  assert.equal(answers.hold(answerOf('the same')), first);
  answers.release(first);
  assert.equal(answers.find(answerOf('the same').digest), first);
  answers.release(first);
  assert.deepEqual([answers.find(answerOf('the same').digest), answers.count, answers.bytes], [undefined, 0, 0]);
});

test("a reader's answer stays unchanged when its block is reused", () => {
  const answers = new Answers();
  const id = answers.hold(answerOf('first answer'));
  const given = answers.get(id);
  answers.release(id);
  for (let index = 0; index < 10_000; index += 1) answers.hold(answerOf(`other ${index}`));
  assert.equal(given.body.toString(), 'first answer');
});

test('answers are found by digest among many, while tables grow and others go', () => {
  const answers = new Answers();
  const ids = Array.from({ length: 20_000 }, (_, index) => answers.hold(answerOf(`answer ${index}`)));
  for (const [index, id] of ids.entries()) if (index % 3 === 0) answers.release(id);
  for (const [index, id] of ids.entries()) {
    const { digest } = answerOf(`answer ${index}`);
    assert.equal(answers.find(digest), index % 3 === 0 ? undefined : id);
  }
  assert.equal(answers.get(ids[1] as number).body.toString(), 'answer 1');
  answers.clear();
  assert.deepEqual([answers.count, answers.bytes, answers.find(answerOf('answer 1').digest)], [0, 0, undefined]);
  assert.equal(answers.get(answers.hold(answerOf('answer 1'))).body.toString(), 'answer 1');
});

test('compressed forms are kept with their answer, counted, and go with it', () => {
  const answers = new Answers();
  for (const body of [400, 60_000]) {
    const id = answers.hold(answerOf(body));
    const { bytes } = answers;
    answers.addCoded(id, 'gzip', Buffer.from('short'));
    const first = answers.bytes - bytes;
    answers.addCoded(id, 'gzip', Buffer.from('another'));
    assert.deepEqual(answers.get(id).coded, { gzip: Buffer.from('short') });
    answers.addCoded(id, 'br', Buffer.from('longer by 10   '));
    // Each counts for its bytes and for what a buffer takes beside them.
    assert.ok(first > 500, `${first} bytes`);
    assert.equal(answers.bytes - bytes, 2 * first + 10);
    answers.release(id);
    assert.equal(answers.bytes, 0);
  }
});

test('no stored answer retains a larger buffer', async () => {
  const answers = new Answers();
  const body = Buffer.allocUnsafe(20_000).fill('a');
  const coded = await promisify(gzip)(body);
  for (const pooled of [body, coded]) assert.ok(pooled.buffer.byteLength > 2 * pooled.length);

  const id = answers.hold(answerOf('', { body }));
  answers.addCoded(id, 'gzip', coded);

  const kept = answers.get(id);
  for (const [bytes, given] of [
    [kept.body, body],
    [kept.coded.gzip, coded],
  ] as const) {
    assert.deepEqual(bytes, given);
    assert.equal(bytes.buffer.byteLength, bytes.length);
  }
});

test('a buffer of its own is stored without a copy', () => {
  const answers = new Answers();
  const body = Buffer.alloc(60_000, 'a');
  assert.equal(answers.get(answers.hold(answerOf('', { body }))).body, body);
});

test("answers beyond the slabs' pages are stored all the same, each unchanged", () => {
  const answers = new Answers(3);
  const given = Array.from({ length: 5_000 }, (_, index) => answerOf(`answer ${index}`.padEnd(300)));
  const ids = given.map((answer) => answers.hold(answer));
  for (const [index, id] of ids.entries()) assert.deepEqual(answers.get(id), given[index]);
  // Objects count for more than blocks of this size.
  assert.ok(answers.bytes > 5_000 * 600, `${answers.bytes} bytes`);
  for (const id of ids) answers.release(id);
  assert.deepEqual([answers.count, answers.bytes], [0, 0]);
});

/** Under churn one Map of V8 takes half of 2^24: more for once, with 3 GB: LEDGERGATE_WIDE_MAP=9000000. */
const live = Number(process.env['LEDGERGATE_WIDE_MAP'] ?? 50_000);

test('entries of a wide map may come and go, however many there are', () => {
  const wide = new WideMap<number>();
  for (let next = 0; next < 3 * live; next += 1) {
    wide.set(next, next);
    if (next >= live) wide.delete(next - live);
  }
  const kept = [2 * live - 1, 2 * live, 3 * live - 1].map((next) => wide.get(next));
  assert.deepEqual(kept, [undefined, 2 * live, 3 * live - 1]);
});

const mebibyte = 1024 * 1024;

/** Slabs, and what should be in them. */
class World {
  readonly pieces = new Map<number, { ref: BlockRef; readonly bytes: Buffer }>();
  moves = 0;
  readonly slabs = new Slabs((owner, ref) => {
    const piece = this.pieces.get(owner);
    assert.ok(piece !== undefined, 'a block of nobody was moved');
    piece.ref = ref;
    this.moves += 1;
  });

  put(owner: number, length: number): void {
    const bytes = Buffer.alloc(length, `${owner}.`);
    const ref = this.slabs.take(length, owner);
    bytes.copy(this.slabs.bufferAt(ref), this.slabs.offsetAt(ref));
    this.pieces.set(owner, { ref, bytes });
  }

  drop(owner: number): void {
    const piece = this.pieces.get(owner);
    if (piece === undefined) return;
    this.pieces.delete(owner);
    this.slabs.give(piece.ref);
  }

  check(): void {
    let live = 0;
    for (const [owner, { ref, bytes }] of this.pieces) {
      const offset = this.slabs.offsetAt(ref);
      const held = this.slabs.bufferAt(ref).subarray(offset, offset + bytes.length);
      assert.ok(held.equals(bytes), `the piece of ${owner} is another`);
      live += this.slabs.blockBytes(ref);
    }
    assert.equal(this.slabs.liveBytes, live);
  }
}

test('pieces keep their bytes through any sequence of blocks taken, released and moved', () => {
  const size = fc.oneof(fc.integer({ min: 0, max: 600 }), fc.integer({ min: 0, max: largestPiece }));
  const step = fc.record({ count: fc.integer({ min: 1, max: 300 }), size, keepEvery: fc.integer({ min: 1, max: 12 }) });
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
      const world = new World();
      let next = 0;
      for (const { count, size, keepEvery } of steps) {
        const from = next;
        for (; next < from + count; next += 1) world.put(next, size);
        for (const owner of world.pieces.keys()) if (owner % keepEvery !== 0) world.drop(owner);
        world.check();
      }
      for (const owner of world.pieces.keys()) world.drop(owner);
      assert.equal(world.slabs.liveBytes, 0);
    }),
    { seed: 8, numRuns: 60 },
  );
});

test('slab pages that are nearly empty are moved into others, so that memory follows the contents', () => {
  const world = new World();
  for (let owner = 0; owner < 40_000; owner += 1) world.put(owner, 400);
  const full = world.slabs.pageBytes;
  for (let owner = 0; owner < 40_000; owner += 1) if (owner % 10 !== 0) world.drop(owner);
  world.check();

  assert.ok(full < 40_000 * 400 * 1.2, `${full} bytes for 16 MB`);
  assert.ok(world.slabs.pageBytes < 4_000 * 400 * 1.2 + mebibyte, `${world.slabs.pageBytes} bytes for 1.6 MB`);
  assert.ok(world.moves > 0);
});

test('room of one size is there for another when the work changes', () => {
  const world = new World();
  for (const length of [300, 1_000, 3_000, 9_000, 16_000]) {
    const before = [...world.pieces.keys()];
    const from = (before.at(-1) ?? -1) + 1;
    for (let index = 0; index < 16 * mebibyte; index += length) {
      world.put(from + index / length, length);
      const gone = before.pop();
      if (gone !== undefined) world.drop(gone);
    }
    for (const owner of before) world.drop(owner);
    world.check();
    assert.ok(
      world.slabs.pageBytes < world.slabs.liveBytes * 1.15 + 3 * mebibyte,
      `${length}: ${world.slabs.pageBytes}`,
    );
  }
});

test('the largest piece has a place, and a released block cannot be used', () => {
  const world = new World();
  world.put(1, largestPiece);
  world.put(2, 0);
  world.check();
  const { ref } = world.pieces.get(1) as { ref: BlockRef };
  world.put(3, largestPiece);
  world.drop(1);
  world.drop(3);
  world.check();
  assert.throws(() => new Slabs(() => undefined).give(ref), /after its release/);
});

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
