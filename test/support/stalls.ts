/** How long this process stood still: what a busy machine does to it, it does to the gateways beside it. */
import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { TestContext } from 'node:test';
import type { Ending } from './temporary-folder.ts';

export interface Stalls {
  /** The longest so far, in ms. */
  readonly longestMs: number;
  /** Fails where something took too long, unless this process stood still so long that nobody could be in time. */
  judge(isInTime: boolean, what: string): void;
}

/** Twice what a test process on a machine of its own stands still for: loading, compiling, collecting garbage. */
const calmMs = 150;

/** Watches until the end. Only a test's own context reports what is not judged. */
export function watchStalls(t: Ending & Partial<Pick<TestContext, 'diagnostic'>>): Stalls {
  const delay = monitorEventLoopDelay();
  delay.enable();
  t.after(() => delay.disable());
  return {
    get longestMs() {
      return delay.max / 1e6;
    },
    judge(isInTime, what) {
      if (isInTime) return;
      if (this.longestMs <= calmMs) assert.fail(what);
      t.diagnostic?.(`a busy machine, still for ${Math.round(this.longestMs)} ms: times are not judged: ${what}`);
    },
  };
}
