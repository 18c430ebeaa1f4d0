import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mergeTrends, Trend, trendFacts } from '../../../../src/proxy/operations/status/windows.ts';

const step = 15_000;
/** Counts since the start: so many hits, each below 1 ms, and misses, each below 5 ms with a call of a node. */
const counted = (hits: number, misses: number) =>
  new Map([
    ...['0.001', '0.0025', '0.005', '+Inf'].map((le) => [`outcome memory ${le}`, hits] as const),
    ...['0.005', '+Inf'].map((le) => [`outcome miss ${le}`, misses] as const),
    ...['0.001', '0.0025'].map((le) => [`requests ${le}`, hits] as const),
    ...['0.005', '+Inf'].map((le) => [`requests ${le}`, hits + misses] as const),
    ['attempt +Inf full-a', misses] as const,
  ]);

test('a point holds what was counted between two marks of 15 s', () => {
  const trend = new Trend();
  for (let second = 0; second <= 45; second += 1) trend.record(counted(second * 3, second), 30_000 + second * 1_000);

  assert.deepEqual(
    trend.points.map(({ atMs, hits, reads, calls }) => ({ atMs, hits, reads, calls })),
    [45_000, 60_000, 75_000].map((atMs) => ({ atMs, hits: 45, reads: 60, calls: 15 })),
  );
  const [point] = trend.points;
  assert.ok(point);
  const { at, hitShare, p99Ms = 0, callsPerSecond } = trendFacts(point);
  assert.deepEqual(
    { at, hitShare, callsPerSecond },
    { at: '1970-01-01T00:00:45.000Z', hitShare: 0.75, callsPerSecond: 1 },
  );
  assert.ok(p99Ms > 2.5 && p99Ms <= 5);
});

test('a process that stood still has no point for the step, and a quarter of an hour is kept', () => {
  const trend = new Trend();
  for (const steps of [0, 1, 4, 5]) trend.record(counted(steps, 0), steps * step);
  assert.deepEqual(
    trend.points.map(({ atMs }) => atMs / step),
    [1, 5],
  );
  for (let steps = 6; steps < 200; steps += 1) trend.record(counted(steps, 0), steps * step);
  assert.equal(trend.points.length, 60);
  assert.equal(trend.points.at(-1)?.atMs, 199 * step);
});

test('points of one mark add up over processes', () => {
  const trends = [0, 1].map((late) => {
    const trend = new Trend();
    for (let steps = late; steps < 4; steps += 1) trend.record(counted(steps * 10, steps), steps * step);
    return trend.points;
  });
  assert.deepEqual(
    mergeTrends(trends).map(({ atMs, hits, calls }) => [atMs / step, hits, calls]),
    [
      [1, 10, 1],
      [2, 20, 2],
      [3, 20, 2],
    ],
  );
});

test('a step without reads has no share and no time', () => {
  const trend = new Trend();
  trend.record(new Map(), 0);
  trend.record(new Map(), step);
  const [point] = trend.points;
  assert.ok(point);
  const { hitShare, p99Ms, callsPerSecond } = trendFacts(point);
  assert.deepEqual({ hitShare, p99Ms, callsPerSecond }, { hitShare: undefined, p99Ms: undefined, callsPerSecond: 0 });
});
