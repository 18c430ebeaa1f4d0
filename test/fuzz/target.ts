/** What a fuzz target is, and how it is run: in the tests for a moment, by `npm run fuzz` for as long as wanted. */
import assert from 'node:assert/strict';
import process from 'node:process';
import { fc } from '../support/fast-check.ts';

export interface FuzzTarget {
  readonly name: string;
  run(options: FuzzOptions): Promise<FuzzResult>;
}

export interface FuzzOptions {
  readonly runs: number;
  readonly seed: number;
}

/** `failure`: how to see it again, and what went wrong. */
export interface FuzzResult {
  readonly runs: number;
  readonly slowestMs: number;
  readonly failure: string | undefined;
}

/** Far above what garbage collection takes, and far below what a parser takes that goes back over a long text. */
const mostMs = 1_000;

/** `check` throws for what must not be. Every input has to be done with within a second. */
export function fuzzTarget<T>(
  name: string,
  inputs: fc.Arbitrary<T>,
  check: (input: T) => void | Promise<void>,
): FuzzTarget {
  return {
    name,
    async run({ runs, seed }) {
      let slowestMs = 0;
      const property = fc.asyncProperty(inputs, async (input) => {
        // Of the processor: what else the machine does is not the parser's.
        const started = process.cpuUsage();
        await check(input);
        const { user, system } = process.cpuUsage(started);
        const ms = (user + system) / 1_000;
        slowestMs = Math.max(slowestMs, ms);
        assert.ok(ms < mostMs, `${ms} ms`);
      });
      const details = await fc.check(property, { numRuns: runs, seed });
      const failure = details.failed ? fc.defaultReportMessage(details) : undefined;
      return { runs: details.numRuns, slowestMs, failure };
    },
  };
}

/** What `parse` makes; `undefined` where it throws what it may throw. Anything else is thrown on. */
export function attempt<T>(parse: () => T, mayThrow: (error: unknown) => boolean): T | undefined {
  try {
    return parse();
  } catch (error) {
    if (mayThrow(error)) return undefined;
    throw error;
  }
}
