/** Recent times of a node's answers: a histogram, so that a quantile needs no sort and memory is fixed. */
import { Spans } from '../../ledger/index.ts';

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
  /** A counter for each bucket, and the last one for all answers. */
  readonly #answers = new Spans(spanMs, bucketCount + 1);

  record(elapsedMs: number, nowMs: number): void {
    const answers = this.#answers.at(nowMs);
    answers.add(bucketOf(elapsedMs));
    answers.add(bucketCount);
  }

  /** The time within which `share` of the answers of the last 10 to 20 s came, in ms; `undefined`: too few came. */
  quantile(share: number, nowMs: number): number | undefined {
    const answers = this.#answers.at(nowMs);
    const count = answers.sum(bucketCount);
    if (count < fewestAnswers) return undefined;
    let left = count * share;
    for (let bucket = 0; bucket < bucketCount; bucket += 1) {
      left -= answers.sum(bucket);
      if (left <= 0) return endOf(bucket);
    }
    return endOf(bucketCount - 1);
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
