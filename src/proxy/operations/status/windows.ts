/** Counts of the last 10, 100 and 1,000 seconds, and of each 15 seconds in the last 15 minutes. */
import { requestSeconds } from '../../../metrics/index.ts';
import { hitsOf, mergeCounts, quantile, requestTimes, totalOf, type Buckets, type Counts } from './counts.ts';

/** In seconds. */
const spans = [10, 100, 1_000] as const;
/** Snapshots per span: a window covers its span and at most a tenth more. */
const parts = 10;

/** One window: structured-clone data, so that a worker can send it. */
export interface WindowCounts {
  readonly seconds: number;
  /** Age of the window's first snapshot in seconds: less than its span after a start. */
  readonly coveredSeconds: number;
  readonly counts: Counts;
}

/** Cells of departed nodes stay in the index; beyond this number the windows begin anew without them. */
const mostCells = 50_000;

interface Snapshot {
  readonly atMs: number;
  /** By position of the cell in the index: a tenth of a map's memory. */
  readonly counts: Float64Array;
}

type Snapshots = [Snapshot, ...Snapshot[]];

/** Keeps the snapshots of one process. */
export class Windows {
  /** Positions of cells in the snapshots. */
  readonly #index = new Map<string, number>();
  /** By window, oldest first; at most 13 snapshots each. */
  #kept: readonly { readonly seconds: number; readonly snapshots: Snapshots }[];

  /** `nowMs`: monotonic, as in the other methods. Counts begin at zero. */
  constructor(nowMs: number) {
    this.#kept = this.#beginAt({ atMs: nowMs, counts: new Float64Array() });
  }

  /** Takes a snapshot of `counts` (since the start) where a window needs one. */
  record(counts: Counts, nowMs: number): void {
    if (this.#index.size > mostCells) {
      this.#index.clear();
      this.#kept = this.#beginAt({ atMs: nowMs, counts: this.#pack(counts) });
    }
    let snapshot: Snapshot | undefined;
    for (const { seconds, snapshots } of this.#kept) {
      // A timer of a second may fire a little early.
      const leastMs = 0.9 * (seconds / parts) * 1_000;
      if (nowMs - (snapshots.at(-1) ?? snapshots[0]).atMs >= leastMs)
        snapshots.push((snapshot ??= { atMs: nowMs, counts: this.#pack(counts) }));
      while (snapshots[1] !== undefined && nowMs - snapshots[1].atMs >= seconds * 1_000) snapshots.shift();
    }
  }

  /** The windows that end now, shortest first; `counts` are since the start. */
  read(counts: Counts, nowMs: number): readonly WindowCounts[] {
    this.record(counts, nowMs);
    return this.#kept.map(({ seconds, snapshots: [first] }) => ({
      seconds,
      coveredSeconds: (nowMs - first.atMs) / 1_000,
      counts: this.#difference(counts, first.counts),
    }));
  }

  #beginAt(snapshot: Snapshot): readonly { readonly seconds: number; readonly snapshots: Snapshots }[] {
    return spans.map((seconds) => ({ seconds, snapshots: [snapshot] }));
  }

  #pack(counts: Counts): Float64Array {
    for (const cell of counts.keys()) if (!this.#index.has(cell)) this.#index.set(cell, this.#index.size);
    const packed = new Float64Array(this.#index.size);
    for (const [cell, count] of counts) packed[this.#index.get(cell) ?? 0] = count;
    return packed;
  }

  /** A count that fell began again: its node left the fleet and came back. */
  #difference(after: Counts, before: Float64Array): Counts {
    const added = new Map<string, number>();
    for (const [cell, count] of after) {
      const since = before[this.#index.get(cell) ?? -1] ?? 0;
      if (count !== since) added.set(cell, count > since ? count - since : count);
    }
    return added;
  }
}

/** The windows of several processes as those of one process. */
export function mergeWindows(processes: readonly (readonly WindowCounts[])[]): readonly WindowCounts[] {
  return (processes[0] ?? []).map(({ seconds }, index) => {
    const same = processes.flatMap((windows) => windows[index] ?? []);
    return {
      seconds,
      coveredSeconds: Math.max(...same.map(({ coveredSeconds }) => coveredSeconds)),
      counts: mergeCounts(same.map(({ counts }) => counts)),
    };
  });
}

/** A step of the trend, and steps that it keeps. */
const stepMs = 15_000;
const mostPoints = 60;

/** The counts of one step: plain data that adds up over processes. */
export interface TrendPoint {
  /** End of the step, a multiple of 15 s of Unix time in milliseconds. */
  readonly atMs: number;
  readonly hits: number;
  /** Reads that may be kept: hits, shared reads and misses. */
  readonly reads: number;
  /** Requests that failed (5xx). */
  readonly failed: number;
  /** Attempts at nodes. */
  readonly calls: number;
  /** Requests by bucket of their time, cumulative: `requestSeconds`, then all. */
  readonly times: readonly number[];
}

/** Counts since the start. */
type Totals = Omit<TrendPoint, 'atMs'>;

/** Keeps the points of the last 15 minutes in one process. */
export class Trend {
  readonly points: TrendPoint[] = [];
  #last: (Totals & { readonly step: number }) | undefined;

  /** Records a sample of counts since the start; `nowMs`: Unix time. Steps without a sample have no point. */
  record(counts: Counts, nowMs: number): void {
    const step = Math.floor(nowMs / stepMs);
    if (this.#last?.step === step) return;
    const totals = totalsOf(counts);
    if (this.#last?.step === step - 1) this.points.push({ ...sumOf(totals, this.#last, -1), atMs: step * stepMs });
    if (this.points.length > mostPoints) this.points.shift();
    this.#last = { ...totals, step };
  }
}

function totalsOf(counts: Counts): Totals {
  let calls = 0;
  for (const [cell, count] of counts) if (cell.startsWith('attempt +Inf ')) calls += count;
  return {
    ...hitsOf((outcome) => totalOf(requestTimes(counts, `outcome ${outcome}`))),
    failed: totalOf(requestTimes(counts, 'outcome failed')),
    calls,
    times: requestTimes(counts).map(([, count]) => count),
  };
}

function sumOf(one: Totals, other: Totals, sign: 1 | -1): Totals {
  return {
    hits: one.hits + sign * other.hits,
    reads: one.reads + sign * other.reads,
    failed: one.failed + sign * other.failed,
    // A count falls when the node that it was of has left the fleet.
    calls: Math.max(0, one.calls + sign * other.calls),
    times: one.times.map((count, index) => count + sign * (other.times[index] ?? 0)),
  };
}

/** The trends of several processes as one, oldest first. */
export function mergeTrends(trends: readonly (readonly TrendPoint[])[]): readonly TrendPoint[] {
  const merged = new Map<number, TrendPoint>();
  for (const point of trends.flat()) {
    const known = merged.get(point.atMs);
    merged.set(point.atMs, known === undefined ? point : { ...sumOf(known, point, 1), atMs: point.atMs });
  }
  return [...merged.values()].sort((one, other) => one.atMs - other.atMs).slice(-mostPoints);
}

/** A point for people: rates, a share and a time; `undefined` where nothing was counted. */
export function trendFacts({ atMs, hits, reads, failed, calls, times }: TrendPoint) {
  const buckets: Buckets = times.map((count, index) => [requestSeconds[index] ?? Infinity, count]);
  return {
    at: new Date(atMs).toISOString(),
    hitShare: reads === 0 ? undefined : hits / reads,
    failedShare: totalOf(buckets) === 0 ? undefined : failed / totalOf(buckets),
    p99Ms: quantile(buckets, 0.99),
    callsPerSecond: (calls * 1_000) / stepMs,
  };
}
