/** Counts of the last 10, 100 and 1,000 seconds, and of each 15 seconds in the last 15 minutes. */
import { mergeCounts, type Counts } from './counts.ts';

/** In seconds. */
const spans = [10, 100, 1_000] as const;
/** Snapshots per span: a window covers its span and at most a tenth more. */
const parts = 10;
/** A step of the trend, and steps that it keeps. */
export const stepSeconds = 15;
const stepMs = stepSeconds * 1_000;
const mostPoints = 60;

/** One window: structured-clone data, so that a worker can send it. */
export interface WindowCounts {
  readonly seconds: number;
  /** Age of the window's first snapshot in seconds: less than its span after a start. */
  readonly coveredSeconds: number;
  readonly counts: Counts;
}

/** The counts of one step: `requests` and `outcome` cells, and `calls` of nodes. */
export interface TrendPoint {
  /** End of the step, a multiple of 15 s of Unix time in milliseconds. */
  readonly atMs: number;
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

/** Keeps the snapshots of one process, and its trend. */
export class Windows {
  /** The last 15 minutes, oldest first. */
  readonly points: TrendPoint[] = [];
  /** Positions of cells in the snapshots. */
  readonly #index = new Map<string, number>();
  /** By window, oldest first; at most 13 snapshots each. */
  #kept: readonly { readonly seconds: number; readonly snapshots: Snapshots }[];
  /** The step in progress, and the counts at its first sample. */
  #step: { readonly number: number; readonly counts: Float64Array } | undefined;

  /** `nowMs`: monotonic, as in the other methods. Counts begin at zero. */
  constructor(nowMs: number) {
    this.#kept = beginAt({ atMs: nowMs, counts: new Float64Array() });
  }

  /** Takes a snapshot of `counts` (since the start) where a window or the trend needs one. */
  record(counts: Counts, nowMs: number, unixMs: number): void {
    if (this.#index.size > mostCells) {
      this.#index.clear();
      this.#step = undefined;
      this.#kept = beginAt({ atMs: nowMs, counts: this.#pack(counts) });
    }
    let snapshot: Snapshot | undefined;
    for (const { seconds, snapshots } of this.#kept) {
      // A timer of a second may fire a little early.
      const leastMs = 0.9 * (seconds / parts) * 1_000;
      if (nowMs - (snapshots.at(-1) ?? snapshots[0]).atMs >= leastMs)
        snapshots.push((snapshot ??= { atMs: nowMs, counts: this.#pack(counts) }));
      while (snapshots[1] !== undefined && nowMs - snapshots[1].atMs >= seconds * 1_000) snapshots.shift();
    }
    const number = Math.floor(unixMs / stepMs);
    if (this.#step?.number === number) return;
    // Steps without a sample have no point.
    if (this.#step?.number === number - 1)
      this.points.push({ atMs: number * stepMs, counts: trendCells(this.#difference(counts, this.#step.counts)) });
    if (this.points.length > mostPoints) this.points.shift();
    this.#step = { number, counts: snapshot?.counts ?? this.#pack(counts) };
  }

  /** The windows that end now, shortest first; `counts` are since the start. */
  read(counts: Counts, nowMs: number): readonly WindowCounts[] {
    return this.#kept.map(({ seconds, snapshots: [first] }) => ({
      seconds,
      coveredSeconds: (nowMs - first.atMs) / 1_000,
      counts: this.#difference(counts, first.counts),
    }));
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

function beginAt(snapshot: Snapshot): readonly { readonly seconds: number; readonly snapshots: Snapshots }[] {
  return spans.map((seconds) => ({ seconds, snapshots: [snapshot] }));
}

function trendCells(counts: Counts): Counts {
  const kept = new Map<string, number>();
  for (const [cell, count] of counts) {
    if (/^attempt .* \+Inf$/.test(cell)) kept.set('calls', (kept.get('calls') ?? 0) + count);
    else if (/^requests |^outcome .* \+Inf$/.test(cell)) kept.set(cell, count);
  }
  return kept;
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

/** The trends of several processes as one, oldest first. */
export function mergeTrends(trends: readonly (readonly TrendPoint[])[]): readonly TrendPoint[] {
  return [...Map.groupBy(trends.flat(), ({ atMs }) => atMs)]
    .map(([atMs, points]) => ({ atMs, counts: mergeCounts(points.map(({ counts }) => counts)) }))
    .sort((one, other) => one.atMs - other.atMs)
    .slice(-mostPoints);
}
