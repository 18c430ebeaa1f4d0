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

/** Polls in quick succession, before a wait counts as a long one. */
const quickPolls = 50;

/**
 * Resolves when `holds` does. `everyMs`: the pause between two polls; default: 2, and 20 in a long wait, because a poll of
 * metrics takes as long.
 */
export async function until(holds: () => boolean | Promise<boolean>, everyMs?: number): Promise<void> {
  const endMs = performance.now() + withinMs;
  for (let polls = 0; !(await holds()); polls += 1) {
    // Thrown in the line that waited.
    if (performance.now() > endMs) assert.fail(`not within ${withinMs} ms: ${String(holds)}`);
    await sleep(everyMs ?? (polls < quickPolls ? 2 : 20));
  }
}
