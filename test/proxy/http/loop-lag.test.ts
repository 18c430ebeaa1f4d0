import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LoopLag } from '../../../src/proxy/http/client-port.ts';

/** Takes samples at these intervals, in milliseconds. */
function lagAfter(gapsMs: readonly number[]): LoopLag {
  let nowMs = 1_000;
  const lag = new LoopLag(() => nowMs);
  for (const gapMs of gapsMs) {
    nowMs += gapMs;
    lag.sample();
  }
  return lag;
}

const repeated = (gapMs: number, times: number): readonly number[] => Array.from({ length: times }, () => gapMs);

const rows: readonly (readonly [string, readonly number[], boolean])[] = [
  ['a loop that is in time', repeated(50, 100), false],
  ['a loop that is a little late all the time', repeated(140, 100), false],
  ['a stall of ten seconds', [50, 10_000, 50], false],
  ['a stall of ten seconds, just over', [50, 10_000], false],
  ['three stalls one after the other', [...repeated(50, 10), ...repeated(1_000, 3)], false],
  ['half a second of stalls, with a turn in time between them', [...repeated(200, 3), 60, ...repeated(200, 3)], false],
  ['less than half a second of stalls', [50, ...repeated(150, 3)], false],
  ['half a second in which every turn is late', [50, ...repeated(150, 4)], true],
  ['many late turns', repeated(300, 20), true],
  ['many late turns, and one in time', [...repeated(300, 20), 50], false],
];

for (const [what, gapsMs, isOverloaded] of rows) {
  test(`${what} is ${isOverloaded ? '' : 'not '}overload`, () => {
    assert.equal(lagAfter(gapsMs).isOverloaded, isOverloaded);
  });
}

test('the lag is the delay of the newest sample', () => {
  assert.equal(lagAfter([50, 80]).lagMs, 30);
  assert.equal(lagAfter([49]).lagMs, 0);
});
