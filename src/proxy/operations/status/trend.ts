/** Counts of the last 15 minutes, a point for each 15 seconds: hits, calls of nodes and times. */
import { requestSeconds } from '../../../metrics/http-metrics.ts';
import { hitsOf, quantile, requestTimes, totalOf, type Buckets, type Counts } from './counts.ts';

const stepMs = 15_000;
const mostPoints = 60;

/** The counts of one step: plain data that adds up over processes. */
export interface TrendPoint {
  /** End of the step, a multiple of 15 s of Unix time in milliseconds. */
  readonly atMs: number;
  readonly hits: number;
  /** Reads that may be kept: hits, shared reads and misses. */
  readonly reads: number;
  /** Attempts at nodes. */
  readonly calls: number;
  /** Requests by bucket of their time, cumulative: the bounds of `requestSeconds`, then all. */
  readonly times: readonly number[];
}

/** Counts since the start. */
type Totals = Omit<TrendPoint, 'atMs'>;

/** Keeps the points of one process. */
export class Trend {
  readonly points: TrendPoint[] = [];
  #last: (Totals & { readonly step: number }) | undefined;

  /** Records a sample of counts since the start; `nowMs`: Unix time. Steps without a sample have no point. */
  record(counts: Counts, nowMs: number): void {
    const step = Math.floor(nowMs / stepMs);
    if (this.#last?.step === step) return;
    const totals = totalsOf(counts);
    if (this.#last?.step === step - 1) this.points.push({ ...difference(totals, this.#last), atMs: step * stepMs });
    if (this.points.length > mostPoints) this.points.shift();
    this.#last = { ...totals, step };
  }
}

function totalsOf(counts: Counts): Totals {
  let calls = 0;
  for (const [cell, count] of counts) if (cell.startsWith('attempt +Inf ')) calls += count;
  return {
    ...hitsOf((outcome) => totalOf(requestTimes(counts, { outcome }))),
    calls,
    times: requestTimes(counts, {}).map(([, count]) => count),
  };
}

/** A count falls when the node that it was of has left the fleet. */
function difference(after: Totals, before: Totals): Totals {
  return {
    hits: after.hits - before.hits,
    reads: after.reads - before.reads,
    calls: Math.max(0, after.calls - before.calls),
    times: after.times.map((count, index) => count - (before.times[index] ?? 0)),
  };
}

/** The trends of several processes as one, oldest first. */
export function mergeTrends(trends: readonly (readonly TrendPoint[])[]): readonly TrendPoint[] {
  const merged = new Map<number, TrendPoint>();
  for (const point of trends.flat()) {
    const known = merged.get(point.atMs);
    merged.set(point.atMs, known === undefined ? point : sumOf(known, point));
  }
  return [...merged.values()].sort((one, other) => one.atMs - other.atMs).slice(-mostPoints);
}

function sumOf(one: TrendPoint, other: TrendPoint): TrendPoint {
  return {
    atMs: one.atMs,
    hits: one.hits + other.hits,
    reads: one.reads + other.reads,
    calls: one.calls + other.calls,
    times: one.times.map((count, index) => count + (other.times[index] ?? 0)),
  };
}

/** A point for people: rates, a share and a time; `undefined` where nothing was counted. */
export function trendFacts({ atMs, hits, reads, calls, times }: TrendPoint) {
  const buckets: Buckets = times.map((count, index) => [requestSeconds[index] ?? Infinity, count]);
  return {
    at: new Date(atMs).toISOString(),
    hitShare: reads === 0 ? undefined : hits / reads,
    p99Ms: quantile(buckets, 0.99),
    callsPerSecond: (calls * 1_000) / stepMs,
  };
}
