/**
 * Hedging: a second attempt at another node beside one that takes unusually long. The first answer of the two wins; the
 * other attempt is cancelled.
 */
import { setPatientTimeout } from '../../ledger/patient-timeout.ts';
import type { AttemptOutcome } from './attempt-history.ts';
import type { Fleet } from '../fleet.ts';
import type { FleetRequest, HedgeLimits } from './fleet-request.ts';
import { RetryBudget } from '../node/limits.ts';
import type { ReadClass } from '../select/need.ts';
import type { Upstream } from '../node/upstream.ts';

/** An attempt in flight. */
export interface RunningAttempt<A> {
  readonly upstream: Upstream;
  /** In ms of `performance.now()`. */
  readonly sentAtMs: number;
  /** Never rejects, but for a request that can be sent to no node. */
  readonly outcome: Promise<AttemptOutcome<A>>;
  cancel(): void;
}

/** The outcomes of an attempt and its hedge. */
export interface RaceResult<A> {
  /** In the order in which they ended; only the last can be final. */
  readonly ended: readonly { readonly run: RunningAttempt<A>; readonly outcome: AttemptOutcome<A> }[];
  readonly hedge: RunningAttempt<A> | undefined;
  readonly cancelled: RunningAttempt<A> | undefined;
}

/** Calls `begin` after `afterMs` without an outcome; it returns no attempt where there is none to begin. */
export async function withHedge<A>(
  first: RunningAttempt<A>,
  afterMs: number | undefined,
  begin: () => RunningAttempt<A> | undefined,
): Promise<RaceResult<A>> {
  const isSlow = afterMs !== undefined && !(await endsWithin(first, afterMs));
  const hedge = isSlow ? begin() : undefined;
  if (hedge === undefined) return { ended: [await endOf(first)], hedge, cancelled: undefined };
  const fastest = await Promise.race([endOf(first), endOf(hedge)]).catch((error: unknown) => {
    // The other would bring an answer that nobody reads.
    for (const run of [first, hedge]) run.cancel();
    throw error;
  });
  const other = fastest.run === first ? hedge : first;
  if (fastest.outcome.kind !== 'final') return { ended: [fastest, await endOf(other)], hedge, cancelled: undefined };
  other.cancel();
  // Its outcome is of no use any more, a rejection included.
  other.outcome.catch(() => undefined);
  return { ended: [fastest], hedge, cancelled: other };
}

/** Largest burst of hedges: the reads that a node's first seconds of hanging take at a few hundred reads a second. */
const mostSaved = 20;
/** Below this a second request costs more than it saves. */
const soonestMs = 2;

/** Decides when a hedge begins, and bounds hedges to a share of the reads. */
export class Hedging {
  readonly #limits: HedgeLimits | undefined;
  readonly #fleet: Fleet;
  readonly #budget = new RetryBudget({ share: 0, most: mostSaved });

  constructor(limits: HedgeLimits | undefined, fleet: Fleet) {
    this.#limits = limits;
    this.#fleet = fleet;
  }

  /** Records a read. */
  deposit(request: FleetRequest): void {
    if (isHedgeable(request)) this.#budget.deposit(this.#limits?.share);
  }

  /** Whether a hedge is within the share. Looks are few, and many requests wait for them: they always are. */
  withdraw(request: FleetRequest): boolean {
    return request.isLook === true || this.#budget.withdraw(performance.now());
  }

  /**
   * How long `upstream` is waited for before the hedge, by its own answers to reads of the class, or by the slowest node
   * where it has given too few. `undefined`: no hedge.
   */
  afterMs(request: FleetRequest, upstream: Upstream, readClass: ReadClass | undefined): number | undefined {
    const timed = request.isLook === true ? 'look' : readClass;
    const quantile = this.#limits?.quantile ?? 1;
    const { upstreams } = this.#fleet;
    if (quantile >= 1 || timed === undefined || !isHedgeable(request) || upstreams.length < 2) return undefined;
    const nowMs = performance.now();
    let usualMs = upstream.latencies[timed].quantile(quantile, nowMs);
    if (usualMs === undefined) {
      for (const { latencies } of upstreams) {
        const othersMs = latencies[timed].quantile(quantile, nowMs);
        if (othersMs !== undefined && othersMs > (usualMs ?? 0)) usualMs = othersMs;
      }
    }
    return usualMs === undefined ? undefined : Math.max(soonestMs, usualMs);
  }
}

/** Never what changes something, nor what is meant to wait. */
function isHedgeable({ isIdempotent, atOnce }: FleetRequest): boolean {
  return isIdempotent && atOnce === undefined;
}

async function endOf<A>(run: RunningAttempt<A>) {
  return { run, outcome: await run.outcome };
}

function endsWithin<A>({ outcome }: RunningAttempt<A>, ms: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = setPatientTimeout(() => resolve(false), ms);
    const stop = (): void => clearTimeout(timer);
    outcome.finally(stop).then(() => resolve(true), reject);
  });
}
