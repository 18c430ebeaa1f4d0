/**
 * One attempt, and beside it a second at another node when the first takes unusually long. Whichever answers first is
 * the answer; the other is cancelled.
 */
import { setPatientTimeout } from '../ledger/patient-timeout.ts';
import type { Outcome } from './course.ts';
import type { Upstream } from './upstream.ts';

/** An attempt under way. */
export interface Run<A> {
  readonly upstream: Upstream;
  /** In ms of `performance.now()`. */
  readonly sentAtMs: number;
  /** Never rejects, but for a request that can be sent to no node. */
  readonly outcome: Promise<Outcome<A>>;
  cancel(): void;
}

export interface Ended<A> {
  readonly run: Run<A>;
  readonly outcome: Outcome<A>;
}

export interface Raced<A> {
  /** In the order in which they ended; only the last can be final. */
  readonly ended: readonly Ended<A>[];
  readonly hedge: Run<A> | undefined;
  readonly cancelled: Run<A> | undefined;
}

/** `begin` is called after `afterMs` without an outcome, and may find that there shall be no second attempt. */
export async function withHedge<A>(
  first: Run<A>,
  afterMs: number | undefined,
  begin: () => Run<A> | undefined,
): Promise<Raced<A>> {
  if (afterMs === undefined || (await endsWithin(first, afterMs))) return alone(first, await first.outcome);
  const hedge = begin();
  if (hedge === undefined) return alone(first, await first.outcome);
  const fastest = await Promise.race([endOf(first), endOf(hedge)]).catch((error: unknown) => {
    // The other would bring an answer that nobody reads.
    for (const run of [first, hedge]) run.cancel();
    throw error;
  });
  const other = fastest.run === first ? hedge : first;
  if (fastest.outcome.verdict !== 'final') return { ended: [fastest, await endOf(other)], hedge, cancelled: undefined };
  other.cancel();
  // What it still comes to is nobody's any more.
  other.outcome.catch(() => undefined);
  return { ended: [fastest], hedge, cancelled: other };
}

function alone<A>(run: Run<A>, outcome: Outcome<A>): Raced<A> {
  return { ended: [{ run, outcome }], hedge: undefined, cancelled: undefined };
}

async function endOf<A>(run: Run<A>): Promise<Ended<A>> {
  return { run, outcome: await run.outcome };
}

function endsWithin<A>({ outcome }: Run<A>, ms: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = setPatientTimeout(() => resolve(false), ms);
    const stop = (): void => clearTimeout(timer);
    outcome.finally(stop).then(() => resolve(true), reject);
  });
}
