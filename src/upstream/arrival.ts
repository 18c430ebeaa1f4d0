/**
 * What is done about a version after a node has failed, or has not got there: a pure function of what is known. Nodes
 * that lag are not asked for what they surely lack. One that is about to have it is waited for instead.
 */
import type { Course } from './course.ts';
import { passedOver, trustRank } from './ranking.ts';
import type { Upstream } from './upstream.ts';
import type { Known } from './useful.ts';

/**
 * `ask`: a node that was not asked may answer. `again`: the node that failed is the only one that has got there. `wait`:
 * a node that can be trusted is about to have it. `end`: nobody has more to say.
 */
export type Step = 'ask' | 'again' | 'wait' | 'end';

export interface Setting {
  readonly version: bigint;
  readonly course: Course;
  /** `course.waitUntilMs` is not over. */
  readonly mayWait: boolean;
  /** An attempt is left after the next one. */
  readonly mayRepeat: boolean;
}

/** `last`: the node that was asked last. */
export function stepAfter(known: readonly Known[], last: Upstream, setting: Setting): Step {
  const { version, course, mayWait, mayRepeat } = setting;
  const trusted = known.filter((node) => trustRank(node) < passedOver);
  if (trusted.some((node) => isUntried(node, setting))) return 'ask';
  const isAwaited = trusted.some(({ upstream, health }) => health === 'usable' && !course.failed.has(upstream));
  if (isAwaited) {
    // What fails now and then answers at once, mostly, where the others would have to be waited for.
    const failure = course.failures.at(-1);
    const hasErred = course.hasFailed && failure?.upstream === last && failure.sign === 'error' && !course.isNotNow;
    if (hasErred && headOf(last) >= version && mayRepeat && !course.hasRepeated) return 'again';
    if (mayWait) return 'wait';
  }
  // Then the word of a node that is passed over is better than none.
  return isAwaited && !known.some((node) => isUntried(node, setting)) ? 'end' : 'ask';
}

/** Whether the node has got to the version, by news that came after it failed to show that. */
export function hasArrived(upstream: Upstream, version: bigint, { behind, failed }: Course): boolean {
  const head = headOf(upstream);
  return head >= version && head > (behind.get(upstream) ?? -1n) && !failed.has(upstream);
}

/** The node whose head is the highest, of those that answer and are believed. */
export function nearest(known: readonly Known[]): Upstream | undefined {
  const usable = known
    .filter(({ health, isSuspect }) => health === 'usable' && isSuspect !== true)
    .map(({ upstream }) => upstream);
  return usable.reduce<Upstream | undefined>(
    (found, upstream) => (found === undefined || headOf(upstream) > headOf(found) ? upstream : found),
    undefined,
  );
}

/** Not asked yet, and its ledger is unknown or goes as far as the version. */
function isUntried({ upstream, window }: Known, { version, course }: Setting): boolean {
  return !course.asked.has(upstream) && (window === undefined || window.head >= version);
}

function headOf({ window }: Upstream): bigint {
  return window.info?.version ?? -1n;
}
