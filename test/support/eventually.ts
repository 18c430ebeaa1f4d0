/**
 * Waits for a condition and fails when it does not come. Never without a bound: an endless loop would go on beside the
 * later tests.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

/** For what takes milliseconds, on a machine that is in no hurry. */
const withinMs = 30_000;

/** Asks until `is` holds; resolves with that value. */
export async function eventually<T>(ask: () => Promise<T>, is: (value: T) => boolean): Promise<T> {
  const endMs = performance.now() + withinMs;
  for (;;) {
    const value = await ask();
    if (is(value)) return value;
    if (performance.now() > endMs) assert.fail(`it did not come to that within ${withinMs} ms`);
    await sleep(10);
  }
}

/** Pauses between two polls: a tenth of the wait so far, within these. */
const pauses = { leastMs: 2, mostMs: 50 };

/** Resolves when `holds` does. `everyMs`: the pause between two polls; default: the longer, the longer the wait. */
export async function until(holds: () => boolean | Promise<boolean>, everyMs?: number): Promise<void> {
  const startMs = performance.now();
  while (!(await holds())) {
    const waitedMs = performance.now() - startMs;
    // Thrown in the line that waited.
    if (waitedMs > withinMs) assert.fail(`not within ${withinMs} ms: ${String(holds)}`);
    await sleep(everyMs ?? Math.min(pauses.mostMs, Math.max(pauses.leastMs, waitedMs / 10)));
  }
}
