import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mergeWindows, Windows } from '../../src/status/windows.ts';

const second = 1_000;

/** What each window holds of the first cell. */
function counts(windows: Windows, nowMs: number): readonly number[] {
  return windows.told(nowMs).map(({ cells }) => cells[0] ?? 0);
}

test('what is counted leaves each window when its time is over, and never the sum of all', () => {
  const windows = new Windows(2, 0);
  windows.second[0]! += 3;

  const seen = [0, 5, 12, 60, 111, 500, 1_101].map((at) => counts(windows, at * second));

  assert.deepEqual(seen, [
    [3, 3, 3],
    [3, 3, 3],
    [0, 3, 3],
    [0, 3, 3],
    [0, 0, 3],
    [0, 0, 3],
    [0, 0, 0],
  ]);
  assert.deepEqual(windows.all, [3, 0]);
});

test('a window holds its whole span and at most a tenth more', () => {
  const windows = new Windows(1, 0);
  for (let at = 0; at < 3_000; at += 1) {
    windows.roll(at * second);
    windows.second[0]! += 1;
  }

  const told = windows.told(2_999.5 * second);

  for (const { seconds, coveredSeconds, cells } of told) {
    assert.ok(coveredSeconds >= seconds && coveredSeconds <= seconds * 1.1 + 1, `${seconds}: ${coveredSeconds}`);
    // One a second, the one that runs included.
    assert.ok(Math.abs((cells[0] ?? 0) - coveredSeconds) <= 1, `${seconds}: ${cells[0]} in ${coveredSeconds}`);
  }
});

test('after a start a window covers what there was, and a stall of seconds is made up for', () => {
  const windows = new Windows(1, 0);
  windows.second[0]! += 10;

  assert.deepEqual(
    windows.told(4 * second).map(({ coveredSeconds }) => coveredSeconds),
    [4, 4, 4],
  );
  assert.deepEqual(counts(windows, 15 * second), [0, 10, 10]);
  assert.deepEqual(
    windows.told(5_000 * second).map(({ cells }) => cells[0]),
    [0, 0, 0],
  );
});

test('windows of several processes add up', () => {
  const [one, other] = [new Windows(2, 0), new Windows(2, 0)];
  one.second[0]! += 2;
  other.second[0]! += 5;
  other.second[1]! += 1;

  const merged = mergeWindows([one.told(3_000), other.told(9_000)]);

  assert.deepEqual([...(merged[0]?.cells ?? [])], [7, 1]);
  assert.equal(merged[0]?.coveredSeconds, 9);
  assert.deepEqual(mergeWindows([]), []);
});
