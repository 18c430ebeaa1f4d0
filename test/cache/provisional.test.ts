/** Answers above the second newest head: when each of them ends, and how. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { ProvisionalReads } from '../../src/cache/read-through.ts';
import { keyAt } from '../support/answers.ts';

/** Reads whose ends are noted as `version end`. */
function noted(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const ends: string[] = [];
  const reads = new ProvisionalReads();
  const add = (version: bigint, { isNear = true, withinMs = 1_000 } = {}): void =>
    reads.add(keyAt(version), { version, isNear, withinMs, head: () => version }, (end) =>
      ends.push(`${version} ${end}`),
    );
  return { reads, ends, add };
}

test('the second head makes final what it has passed, if it was near', (t) => {
  const { reads, ends, add } = noted(t);
  for (const version of [12n, 10n, 11n]) add(version);
  add(13n, { isNear: false });

  reads.settle(9n);
  assert.deepEqual(ends, []);
  reads.settle(11n);
  assert.deepEqual(ends, ['10 final', '11 final']);
  assert.deepEqual([reads.has(keyAt(11n)), reads.has(keyAt(12n))], [false, true]);
  reads.settle(20n);
  assert.deepEqual(ends.slice(2), ['12 final', '13 unproven']);
});

test('a read ends unproven when no second head comes in time, each at its own', (t) => {
  t.mock.method(performance, 'now', () => nowMs);
  let nowMs = 0;
  const { reads, ends, add } = noted(t);
  const pass = (ms: number): void => {
    nowMs += ms;
    t.mock.timers.tick(ms);
  };
  add(10n);
  pass(600);
  add(11n);
  pass(399);
  assert.deepEqual(ends, []);
  pass(1);
  assert.deepEqual(ends, ['10 unproven']);
  pass(599);
  assert.equal(reads.has(keyAt(11n)), true);
  pass(1);
  assert.deepEqual(ends, ['10 unproven', '11 unproven']);
});

test('another answer to a read takes the place of the first, and a purge ends what it covers', (t) => {
  const { reads, ends, add } = noted(t);
  for (const version of [10n, 10n, 11n, 12n]) add(version);
  reads.drop(keyAt(11n));
  reads.dropAll(({ slot }) => slot === keyAt(12n).slot);
  reads.settle(20n);
  assert.deepEqual(ends, ['10 dropped', '11 dropped', '12 dropped', '10 final']);
});

test('of more than ten thousand reads the oldest end unproven', (t) => {
  const { ends, add } = noted(t);
  for (let version = 1n; version <= 10_002n; version += 1n) add(version);
  assert.deepEqual(ends, ['1 unproven', '2 unproven']);
});

test('a head that passes a thousand reads ends them by turns, so that the other tiers take them all', (t) => {
  const { reads, ends, add } = noted(t);
  for (let version = 1n; version <= 1_000n; version += 1n) add(version);
  const counts: number[] = [];
  reads.settle(600n);
  counts.push(ends.length);
  reads.settle(999n);
  for (let turns = 0; turns < 4; turns += 1) {
    counts.push(ends.length);
    t.mock.timers.tick(5);
  }
  assert.deepEqual([...counts, ends.length], [256, 256, 512, 768, 999, 999]);
  reads.settle(1_000n);
  assert.equal(ends.at(-1), '1000 final');
});
