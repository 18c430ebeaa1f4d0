/** Lets a test see the end of a long bound without a wait for it. */
import type { TestContext } from 'node:test';

/** Every `AbortSignal.timeout(ms)` of exactly these `ms` aborts after half a second instead, until the test ends. */
export function shortenTimeouts(t: TestContext, ms: number): void {
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  t.mock.method(AbortSignal, 'timeout', (asked: number) => timeout(asked === ms ? 500 : asked));
}
