import assert from 'node:assert/strict';
import { test } from 'node:test';
import { largestPiece, Slabs, type BlockRef } from '../../../src/cache/memory/slabs.ts';
import { fc } from '../../support/fast-check.ts';

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
