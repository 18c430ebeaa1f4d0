/**
 * Waits for what takes a moment, and says when it does not come. Never without a bound: a loop that nobody ends goes on
 * beside the tests after it, and keeps the process for as long as the runner lets it.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

/** For what takes milliseconds, on a machine that is in no hurry. */
const withinMs = 30_000;

/** Asks until `is` holds; what was told then. */
export async function eventually<T>(ask: () => Promise<T>, is: (value: T) => boolean): Promise<T> {
  const endMs = performance.now() + withinMs;
  for (;;) {
    const value = await ask();
    if (is(value)) return value;
    if (performance.now() > endMs) assert.fail(`it did not come to that within ${withinMs} ms`);
    await sleep(10);
  }
}

/** Resolves when `holds` does. What it asks of is left in peace in between. */
export async function until(holds: () => boolean | Promise<boolean>, everyMs = 2): Promise<void> {
  const endMs = performance.now() + withinMs;
  while (!(await holds())) {
    // Told with the line that waited.
    if (performance.now() > endMs) assert.fail(`not within ${withinMs} ms: ${String(holds)}`);
    await sleep(everyMs);
  }
}
