import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mergeWindows, Windows, type WindowCounts } from '../../../../src/proxy/operations/status/windows.ts';

const second = 1_000;
const counted = (count: number) => new Map([['hits', count]]);
const hits = ({ counts }: WindowCounts): number => counts.get('hits') ?? 0;

/** Three hits in the first second, and a sample in every second until `until`. */
function sampled(until: number): Windows {
  const windows = new Windows(0);
  for (let at = 1; at <= until; at += 1) windows.record(counted(3), at * second);
  return windows;
}

test('a count leaves each window at its end', () => {
  const seen = [1, 5, 12, 60, 111, 500, 1_101].map((at) =>
    sampled(at)
      .read(counted(3), at * second)
      .map(hits),
  );

  assert.deepEqual(seen, [
    [3, 3, 3],
    [3, 3, 3],
    [0, 3, 3],
    [0, 3, 3],
    [0, 0, 3],
    [0, 0, 3],
    [0, 0, 0],
  ]);
});

test('a window covers its whole span and at most a tenth more, also where the timer is early or late', () => {
  for (const stepMs of [950, 1_000, 1_050]) {
    const windows = new Windows(0);
    for (let at = stepMs; at <= 3_000_000; at += stepMs) windows.record(counted(at), at);

    for (const { seconds, coveredSeconds, counts } of windows.read(counted(3_000_000), 3_000_000)) {
      assert.ok(coveredSeconds >= seconds && coveredSeconds <= seconds * 1.1 + 1.05, `${seconds}: ${coveredSeconds}`);
      assert.equal(counts.get('hits'), coveredSeconds * 1_000);
    }
  }
});

test('after a start a window covers the time since, and a stall is part of what it covers', () => {
  const windows = new Windows(0);
  const read = (at: number) => windows.read(counted(10), at * second);

  assert.deepEqual(
    read(4).map(({ coveredSeconds }) => coveredSeconds),
    [4, 4, 4],
  );
  assert.deepEqual(read(15).map(hits), [0, 10, 10]);
  // The longest window has no younger snapshot than the one of the start.
  assert.deepEqual(
    read(5_000).map((window) => [window.coveredSeconds, hits(window)]),
    [
      [4_985, 0],
      [4_985, 0],
      [5_000, 10],
    ],
  );
});

test('a series that began again counts from zero', () => {
  const windows = new Windows(0);
  windows.record(counted(100), second);
  for (let at = 2; at <= 12; at += 1) windows.record(counted(7), at * second);

  assert.deepEqual(windows.read(counted(9), 12 * second).map(hits), [2, 9, 9]);
});

test('windows begin anew when nodes came and went without end, and count on from there', () => {
  const windows = new Windows(0);
  const many = new Map(Array.from({ length: 60_000 }, (_, index) => [`answered node-${index}`, 1]));
  windows.record(many, second);
  windows.record(counted(100), 2 * second);

  const read = windows.read(counted(103), 3 * second);

  assert.deepEqual(
    read.map((window) => [window.coveredSeconds, hits(window)]),
    [
      [1, 3],
      [1, 3],
      [1, 3],
    ],
  );
});

test('windows of several processes add up', () => {
  const window = (count: number, coveredSeconds: number) => [{ seconds: 10, coveredSeconds, counts: counted(count) }];

  const [merged] = mergeWindows([window(2, 3), window(5, 9)]);

  assert.deepEqual(merged, { seconds: 10, coveredSeconds: 9, counts: counted(7) });
  assert.deepEqual(mergeWindows([]), []);
});
