/** How long this process stood still: what a busy machine does to it, it does to the gateways beside it. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { TestContext } from 'node:test';

export interface Stalls {
  /** The longest so far, in ms. */
  readonly longestMs: number;
}

/** Watches until the test ends. */
export function watchStalls(t: TestContext): Stalls {
  const delay = monitorEventLoopDelay();
  delay.enable();
  t.after(() => delay.disable());
  return {
    get longestMs() {
      return delay.max / 1e6;
    },
  };
}
