/** Recent times of a node's answers: a histogram, so that a quantile needs no sort and memory is fixed. */

/** Four to a doubling: a quantile is exact to a fifth. */
const bucketsPerDoubling = 4;
const shortestMs = 0.1;
/** The last bucket begins above the longest configurable time-out. */
const bucketCount = 110;
/** Answers count for the rest of their span and for the next one. */
const spanMs = 10_000;
/** With fewer answers, a quantile near 1 is the slowest answer alone. */
const fewestAnswers = 20;

/** Times of the answers of one node and class, in ms. */
export class LatencyHistogram {
  #recent = new Uint32Array(bucketCount);
  #older = new Uint32Array(bucketCount);
  #recentCount = 0;
  #olderCount = 0;
  #beganAtMs = -Infinity;

  record(elapsedMs: number, nowMs: number): void {
    this.#turn(nowMs);
    const bucket = bucketOf(elapsedMs);
    this.#recent[bucket] = (this.#recent[bucket] ?? 0) + 1;
    this.#recentCount += 1;
  }

  /** The time within which `share` of the answers of the last 10 to 20 s came, in ms; `undefined`: too few came. */
  quantile(share: number, nowMs: number): number | undefined {
    this.#turn(nowMs);
    const count = this.#recentCount + this.#olderCount;
    if (count < fewestAnswers) return undefined;
    let left = count * share;
    for (let bucket = 0; bucket < bucketCount; bucket += 1) {
      left -= (this.#recent[bucket] ?? 0) + (this.#older[bucket] ?? 0);
      if (left <= 0) return endOf(bucket);
    }
    return endOf(bucketCount - 1);
  }

  #turn(nowMs: number): void {
    const sinceMs = nowMs - this.#beganAtMs;
    if (sinceMs < spanMs) return;
    [this.#older, this.#recent] = [this.#recent, this.#older];
    this.#olderCount = this.#recentCount;
    if (sinceMs >= 2 * spanMs) {
      this.#older.fill(0);
      this.#olderCount = 0;
    }
    this.#recent.fill(0);
    this.#recentCount = 0;
    this.#beganAtMs = nowMs;
  }
}

function bucketOf(elapsedMs: number): number {
  const bucket = Math.ceil(Math.log2(Math.max(elapsedMs, shortestMs) / shortestMs) * bucketsPerDoubling);
  return Math.min(bucket, bucketCount - 1);
}

/** The longest time that belongs to the bucket. */
function endOf(bucket: number): number {
  return shortestMs * 2 ** (bucket / bucketsPerDoubling);
}
