import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  binBounds,
  binOf,
  countsOf,
  distanceBins,
  Distances,
  distancesOf,
} from '../../../../src/proxy/operations/status/counts.ts';

test('distances from the head fall into doublings, from the head itself to version 0 of any ledger', () => {
  const distances = [0, 1, 2, 3, 4, 1_023, 1_024, 2 ** 31 - 1, 2 ** 31, 2 ** 40, 2 ** 46, 2 ** 60];
  assert.deepEqual(distances.map(binOf), [0, 1, 2, 2, 3, 10, 11, 31, 32, 41, 47, distanceBins - 1]);
  for (const distance of distances.slice(0, -1)) {
    const [from, to] = binBounds(binOf(distance));
    assert.ok(from <= distance && distance < to, String(distance));
  }
});

test('reads are counted by distance from the head, those without a node apart', () => {
  const distances = new Distances();
  // Without a head there is no distance.
  distances.count('memory', 5n);
  distances.head = 1_000n;
  distances.count('memory', 1_000n);
  distances.count('memory', 1_007n);
  distances.count('miss', 0n);
  distances.count('miss', undefined);

  const bins = distancesOf(countsOf([], distances.cells()));

  assert.equal(
    bins.reduce((sum, { held, asked }) => sum + held + asked, 0),
    3,
  );
  assert.deepEqual(bins[0], { held: 2, asked: 0 });
  assert.deepEqual(bins[binOf(1_000)], { held: 0, asked: 1 });
});
