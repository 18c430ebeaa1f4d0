import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Counts } from '../../../../src/proxy/operations/status/counts.ts';
import { factsFrom } from '../../../support/process-status.ts';
import {
  mergeTrends,
  mergeWindows,
  Windows,
  type WindowCounts,
} from '../../../../src/proxy/operations/status/windows.ts';

const second = 1_000;
const counted = (count: number) => new Map([['hits', count]]);
const hits = ({ counts }: WindowCounts): number => counts.get('hits') ?? 0;

const record = (windows: Windows, counts: Counts, atMs: number): void => windows.record(counts, atMs, atMs);
const read = (windows: Windows, counts: Counts, atMs: number): readonly WindowCounts[] => {
  record(windows, counts, atMs);
  return windows.read(counts, atMs);
};

/** Three hits in the first second, and a sample in every second until `until`. */
function sampled(until: number): Windows {
  const windows = new Windows(0);
  for (let at = 1; at <= until; at += 1) record(windows, counted(3), at * second);
  return windows;
}

test('a count leaves each window at its end', () => {
  const seen = [1, 5, 12, 60, 111, 500, 1_101].map((at) => read(sampled(at), counted(3), at * second).map(hits));

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
    for (let at = stepMs; at <= 3_000_000; at += stepMs) record(windows, counted(at), at);

    for (const { seconds, coveredSeconds, counts } of read(windows, counted(3_000_000), 3_000_000)) {
      assert.ok(coveredSeconds >= seconds && coveredSeconds <= seconds * 1.1 + 1.05, `${seconds}: ${coveredSeconds}`);
      assert.equal(counts.get('hits'), coveredSeconds * 1_000);
    }
  }
});

test('after a start a window covers the time since, and a stall is part of what it covers', () => {
  const windows = new Windows(0);
  const readAt = (at: number) => read(windows, counted(10), at * second);

  assert.equal(
    readAt(4)
      .map(({ coveredSeconds }) => coveredSeconds)
      .join(),
    '4,4,4',
  );
  assert.deepEqual(readAt(15).map(hits), [0, 10, 10]);
  // The longest window has no younger snapshot than the one of the start.
  assert.deepEqual(
    readAt(5_000).map((window) => [window.coveredSeconds, hits(window)]),
    [
      [4_985, 0],
      [4_985, 0],
      [5_000, 10],
    ],
  );
});

test('a series that began again counts from zero', () => {
  const windows = new Windows(0);
  record(windows, counted(100), second);
  for (let at = 2; at <= 12; at += 1) record(windows, counted(7), at * second);

  assert.deepEqual(read(windows, counted(9), 12 * second).map(hits), [2, 9, 9]);
});

test('windows begin anew when nodes came and went without end, and count on from there', () => {
  const windows = new Windows(0);
  const many = new Map(Array.from({ length: 60_000 }, (_, index) => [`answered node-${index}`, 1]));
  record(windows, many, second);
  record(windows, counted(100), 2 * second);

  for (const window of read(windows, counted(103), 3 * second))
    assert.deepEqual([window.coveredSeconds, hits(window)], [1, 3]);
});

test('windows of several processes add up', () => {
  const window = (count: number, coveredSeconds: number) => [{ seconds: 10, coveredSeconds, counts: counted(count) }];

  const [merged] = mergeWindows([window(2, 3), window(5, 9)]);

  assert.deepEqual(merged, { seconds: 10, coveredSeconds: 9, counts: counted(7) });
  assert.deepEqual(mergeWindows([]), []);
});

const step = 15_000;
/** Counts since the start: so many hits, each below 1 ms, and misses, each below 5 ms with a call of a node. */
const trended = (hits: number, misses: number) =>
  new Map([
    ...['0.001', '0.0025', '0.005', '+Inf'].map((le) => [`outcome memory ${le}`, hits] as const),
    ...['0.005', '+Inf'].map((le) => [`outcome miss ${le}`, misses] as const),
    ...['0.001', '0.0025'].map((le) => [`requests ${le}`, hits] as const),
    ...['0.005', '+Inf'].map((le) => [`requests ${le}`, hits + misses] as const),
    ['attempt full-a +Inf', misses] as const,
  ]);

test('a point of the trend holds what was counted between two marks of 15 s', () => {
  const windows = new Windows(30_000);
  for (let at = 0; at <= 45; at += 1) record(windows, trended(at * 3, at), 30_000 + at * second);

  const points = factsFrom({ trend: windows.points }).trend;

  const [{ p99Ms = 0, ...rest } = {}, ...others] = points;
  assert.deepEqual(rest, { at: '1970-01-01T00:00:45.000Z', hitShare: 0.75, failedShare: 0, callsPerSecond: 1 });
  assert.ok(p99Ms > 2.5 && p99Ms <= 5);
  assert.deepEqual(
    others.map(({ at }) => at.slice(14, 19)),
    ['01:00', '01:15'],
  );
});

test('a process that stood still has no point for the step, and a quarter of an hour is kept', () => {
  const windows = new Windows(0);
  for (const steps of [0, 1, 4, 5]) record(windows, trended(steps, 0), steps * step);
  assert.deepEqual(
    windows.points.map(({ atMs }) => atMs / step),
    [1, 5],
  );
  for (let steps = 6; steps < 200; steps += 1) record(windows, trended(steps, 0), steps * step);
  assert.equal(windows.points.length, 60);
  assert.equal(windows.points.at(-1)?.atMs, 199 * step);
});

test('points of one mark add up over processes; calls are those of all nodes, of which some may have left', () => {
  const trends = [0, 1].map((late) => {
    const windows = new Windows(0);
    for (let steps = late; steps < 4; steps += 1) {
      const left = steps < 3 ? [['attempt full-b +Inf', 900] as const] : [];
      record(windows, new Map([...trended(steps * 10, steps), ...left]), steps * step);
    }
    return windows.points;
  });
  assert.deepEqual(
    mergeTrends(trends).map(({ atMs, counts }) => [
      atMs / step,
      counts.get('outcome memory +Inf'),
      counts.get('calls'),
    ]),
    [
      [1, 10, 1],
      [2, 20, 2],
      [3, 20, 2],
    ],
  );
});

test('a step without reads has no share and no time', () => {
  const [point] = factsFrom({ trend: [{ atMs: step, counts: new Map() }] }).trend;
  assert.deepEqual(
    [point?.at, point?.hitShare, point?.failedShare, point?.p99Ms, point?.callsPerSecond],
    ['1970-01-01T00:00:15.000Z', undefined, undefined, undefined, 0],
  );
});
