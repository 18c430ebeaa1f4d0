/** Waits for what takes a moment, and says when it does not come. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

/** Asks until `is` holds, some five seconds; what was told then. */
export async function eventually<T>(ask: () => Promise<T>, is: (value: T) => boolean): Promise<T> {
  for (let tries = 0; tries < 500; tries += 1) {
    const value = await ask();
    if (is(value)) return value;
    await sleep(10);
  }
  assert.fail('it did not come to that');
}
