/**
 * The clock that all processes of one machine read: monotonic, in milliseconds, the same for all at one moment. Node's
 * `performance.now()` is the same clock, counted from the start of the process.
 */
import { performance } from 'node:perf_hooks';

const startMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();

export function sharedNow(): number {
  return performance.now() + startMs;
}

/** A time of this process's `performance.now()`, for others. */
export function toShared(ownMs: number): number {
  return ownMs + startMs;
}

/** A time that another process told, as this one's `performance.now()` counts. */
export function fromShared(sharedMs: number): number {
  return sharedMs - startMs;
}
