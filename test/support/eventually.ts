/**
 * Waits for a condition and fails when it does not come. Never without a bound: an endless loop would go on beside the
 * later tests.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

/** For what takes milliseconds, on a machine that is in no hurry. */
const withinMs = 30_000;

/** Pauses between two polls: a share of the wait so far, within bounds. A poll is often a scrape of all metrics. */
const pauses = { leastMs: 4, mostMs: 100, share: 0.25 };

/** Asks until `is` holds; resolves with that value. `everyMs`: in place of pauses that grow with the wait. */
export async function eventually<T>(
  ask: () => T | Promise<T>,
  is: (value: T) => boolean,
  everyMs?: number,
): Promise<T> {
  const startMs = performance.now();
  for (;;) {
    const value = await ask();
    if (is(value)) return value;
    const waitedMs = performance.now() - startMs;
    // Thrown in the line that waited.
    if (waitedMs > withinMs) assert.fail(`not within ${withinMs} ms: ${String(ask)}`);
    await sleep(everyMs ?? Math.min(pauses.mostMs, Math.max(pauses.leastMs, waitedMs * pauses.share)));
  }
}

/** Resolves when `holds` does; `everyMs` as above. */
export async function until(holds: () => boolean | Promise<boolean>, everyMs?: number): Promise<void> {
  await eventually(holds, Boolean, everyMs);
}
