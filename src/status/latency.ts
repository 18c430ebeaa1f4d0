/** Times as counts by bucket: mergeable, and a quantile costs no sorting. */

/** Upper ends of buckets, in milliseconds, rising, with how many times fell into each. */
export type LatencyCounts = readonly (readonly [endMs: number, count: number])[];

/** Two to a doubling, from 0.03 ms to half a minute. */
export const bucketCount = 40;
const perDoubling = 2;
const shortestMs = 0.03;
/** `log2` of the shortest in seconds, so that a time in seconds costs one logarithm. */
const offset = Math.log2(shortestMs / 1_000);

/** The bucket of a time in seconds. */
export function bucketOf(seconds: number): number {
  const bucket = Math.ceil((Math.log2(seconds) - offset) * perDoubling);
  // No time at all has no logarithm.
  return bucket > 0 ? (bucket < bucketCount ? bucket : bucketCount - 1) : 0;
}

/** What `cells` hold from `from` on, one cell per bucket. */
export function countsOf(cells: Uint32Array, from: number): LatencyCounts {
  const counts: [number, number][] = [];
  for (let bucket = 0; bucket < bucketCount; bucket += 1) {
    const count = cells[from + bucket] ?? 0;
    if (count > 0) counts.push([shortestMs * 2 ** (bucket / perDoubling), count]);
  }
  return counts;
}

export function mergeCounts(told: readonly LatencyCounts[]): LatencyCounts {
  const sum = new Map<number, number>();
  for (const [endMs, count] of told.flat()) sum.set(endMs, (sum.get(endMs) ?? 0) + count);
  return [...sum].sort(([one], [other]) => one - other);
}

export function totalOf(counts: LatencyCounts): number {
  return counts.reduce((sum, [, count]) => sum + count, 0);
}

/** The time that `share` of all took at most, right to a bucket, in milliseconds; `undefined`: there are none. */
export function quantile(counts: LatencyCounts, share: number): number | undefined {
  let left = totalOf(counts) * share;
  for (const [endMs, count] of counts) {
    left -= count;
    // On the way through the bucket, which begins a fraction below its end.
    if (left <= 0) return endMs * 2 ** ((left / count) * (1 / perDoubling));
  }
  return undefined;
}
