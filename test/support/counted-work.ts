/**
 * Counts what code does instead of how long it takes, so that a busy machine changes nothing: how often V8 runs each
 * block of it. Loops inside of V8 itself (regular expressions, searches in strings) are no blocks, and are not counted.
 */
import { Session } from 'node:inspector/promises';

const session = new Session();

/** To be called ahead of the first call of what is counted: code that was compiled before is counted by function. */
export async function startCounting(): Promise<void> {
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
}

/** Runs `work`, and resolves to how many blocks of code were run meanwhile in files whose URL matches `files`. */
export async function countWork(files: RegExp, work: () => unknown): Promise<number> {
  await session.post('Profiler.takePreciseCoverage');
  await work();
  const { result } = await session.post('Profiler.takePreciseCoverage');
  return result
    .filter(({ url }) => files.test(url))
    .flatMap(({ functions }) => functions)
    .flatMap(({ ranges }) => ranges)
    .reduce((sum, { count }) => sum + count, 0);
}
