/** Pages of lists: the parameters `start` and `limit`, and the part of a stream that a page holds (protocol 3.1). */
import type { SampleCall } from './call.ts';
import { u64Query } from './call.ts';
import { frameworkError, nodeError } from './node-error.ts';

/** Items of a page without `limit`, and the most of one: a larger `limit` counts as `most`. */
export interface PageSize {
  readonly usual: number;
  readonly most: number;
}

/** Pages of transactions and events. */
export const historyPage: PageSize = { usual: 25, most: 100 };

/** Pages of resources and modules. */
export const statePage: PageSize = { usual: 9999, most: 9999 };

/** `?limit=` within `size`. Throws 400: by the framework for text that is no u16, by the operation for 0. */
export function pageLimit(call: SampleCall, size: PageSize): number {
  const limit = u64Query(call, 'limit') ?? BigInt(size.usual);
  if (limit > 65_535n) {
    throw frameworkError(400, 'failed to parse parameter `limit`: number too large to fit in target type');
  }
  if (limit === 0n) throw nodeError(400, 'invalid_input', 'Given limit value (0) must not be zero');
  return Math.min(Number(limit), size.most);
}

/** The numbers of a page: `first` and the `count - 1` after it. */
export interface PageRange {
  readonly first: bigint;
  readonly count: number;
}

/**
 * The page of a list that ends at `last` (-1 for an empty one). Without `start` the newest page; a page that would run
 * beyond the end is cut there.
 */
export function pageOf(start: bigint | undefined, limit: number, last: bigint): PageRange {
  const newest = last - BigInt(limit) + 1n;
  const first = start ?? (newest < 0n ? 0n : newest);
  const left = last - first + 1n;
  if (left <= 0n) return { first, count: 0 };
  return { first, count: left < BigInt(limit) ? Number(left) : limit };
}

/** Maps each number of a range, in order. */
export function mapRange<T>({ first, count }: PageRange, map: (at: bigint) => T): readonly T[] {
  return Array.from({ length: count }, (_, index) => map(first + BigInt(index)));
}
