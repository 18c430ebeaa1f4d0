/** Parts of the simulation that are easily wrong without being seen. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { storedBytes } from '../../simulate/measured.ts';
import { randomOf, Zipf } from '../../simulate/random.ts';
import { sharesTable, withTables } from '../../simulate/report.ts';
import { requestShapes } from '../../simulate/shapes.ts';

test('ranks are drawn in proportion to their share', () => {
  const zipf = new Zipf(100, 1);
  const random = randomOf(5);
  const counts = Array.from({ length: 100 }, () => 0);
  for (let draw = 0; draw < 50_000; draw += 1) counts[zipf.draw(random)]! += 1;
  for (const rank of [0, 1, 9, 50]) {
    assert.ok(Math.abs(counts[rank]! / 50_000 / zipf.shareOf(rank) - 1) < 0.15, `rank ${rank}`);
  }
});

test('sizes of records are those that were measured, and lie between them otherwise', () => {
  assert.deepEqual([storedBytes(400), storedBytes(701), storedBytes(3_959)], [438, 739, 3_997]);
  assert.deepEqual([storedBytes(8_191), storedBytes(8_192), storedBytes(15_576)], [8_229, 1_751, 4_576]);
  assert.ok(storedBytes(60_000) > 12_000 && storedBytes(60_000) < 14_000);
});

test('tables go between the marks of a page, and a page without marks is refused', () => {
  const page = 'before\n<!-- simulated: begin -->\nold\n<!-- simulated: end -->\nafter';
  const once = withTables(page, ['new']);
  assert.equal(withTables(once, ['new']), once);
  assert.match(once, /^before\n.*\n\nnew\n\n.*\nafter$/);
  assert.throws(() => withTables('nothing', ['new']));
});

test('bench/RESULTS.md states the shares that are simulated', () => {
  const page = readFileSync(new URL('../../bench/RESULTS.md', import.meta.url), 'utf8');
  assert.equal(withTables(page, [sharesTable(requestShapes)], 'shares'), page);
});
