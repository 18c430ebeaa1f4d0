/** Hedging: a second attempt at another node beside a slow one. The first answer wins; the other attempt is cancelled. */
import { Allowance, settlesWithin } from '../../ledger/index.ts';
import type { AttemptOutcome } from './attempt-history.ts';
import type { FleetState } from '../fleet-state.ts';
import type { FleetRequest, HedgeLimits } from './fleet-request.ts';
import type { ReadClass } from '../select/ranking.ts';
import type { Upstream } from '../node/upstream.ts';

/** An attempt in flight. */
export interface RunningAttempt<A> {
  readonly upstream: Upstream;
  /** In ms of `performance.now()`. */
  readonly sentAtMs: number;
  /** Rejects only for a request that HTTP forbids. */
  readonly outcome: Promise<AttemptOutcome<A>>;
  cancel(): void;
}

/** The outcomes of an attempt and its hedge. */
export interface RaceResult<A> {
  /** In the order of their ends; only the last can be final. */
  readonly ended: readonly { readonly run: RunningAttempt<A>; readonly outcome: AttemptOutcome<A> }[];
  readonly hedge: RunningAttempt<A> | undefined;
  readonly cancelled: RunningAttempt<A> | undefined;
}

/** Calls `begin` after `afterMs` without an outcome; `begin` may return no attempt. Rejects as the attempts do. */
export async function withHedge<A>(
  first: RunningAttempt<A>,
  afterMs: number | undefined,
  begin: () => RunningAttempt<A> | undefined,
): Promise<RaceResult<A>> {
  const isSlow = afterMs !== undefined && !(await settlesWithin(first.outcome, afterMs));
  const hedge = isSlow ? begin() : undefined;
  if (hedge === undefined) return { ended: [await endOf(first)], hedge, cancelled: undefined };
  const fastest = await Promise.race([endOf(first), endOf(hedge)]).catch((error: unknown) => {
    // No reader would take the answer of the other.
    for (const run of [first, hedge]) run.cancel();
    throw error;
  });
  const other = fastest.run === first ? hedge : first;
  if (fastest.outcome.kind !== 'final') return { ended: [fastest, await endOf(other)], hedge, cancelled: undefined };
  other.cancel();
  return { ended: [fastest], hedge, cancelled: other };
}

/** Largest burst of hedges: for the first seconds of a node that hangs, at a few hundred reads a second. */
const mostSaved = 20;
/** Below this delay a second request costs more than it saves. */
const soonestMs = 2;

/** Decides when a hedge begins, and bounds hedges to a share of the reads. */
export class Hedging {
  readonly #limits: HedgeLimits | undefined;
  readonly #fleet: FleetState;
  readonly #budget = new Allowance(0, mostSaved);

  constructor(limits: HedgeLimits | undefined, fleet: FleetState) {
    this.#limits = limits;
    this.#fleet = fleet;
  }

  /** Records a read, which adds its share to the budget. */
  deposit(request: FleetRequest): void {
    if (isHedgeable(request)) this.#budget.deposit(this.#limits?.share ?? 0);
  }

  /** Whether the budget allows a hedge; always for looks, which are few and which many requests wait for. */
  withdraw(request: FleetRequest): boolean {
    return request.isLook === true || this.#budget.withdraw(performance.now());
  }

  /**
   * Delay of the hedge in ms, by the node's own answers to reads of the class, or by those of the slowest node when it has
   * too few. `undefined`: no hedge.
   */
  afterMs(request: FleetRequest, upstream: Upstream, readClass: ReadClass | undefined): number | undefined {
    const timed = request.isLook === true ? 'look' : readClass;
    const quantile = this.#limits?.quantile ?? 1;
    const { upstreams } = this.#fleet;
    if (quantile >= 1 || timed === undefined || !isHedgeable(request) || upstreams.length < 2) return undefined;
    const nowMs = performance.now();
    const usualMsOf = ({ latencies }: Upstream) => latencies[timed].quantile(quantile, nowMs);
    const usualMs = usualMsOf(upstream) ?? Math.max(...upstreams.map((other) => usualMsOf(other) ?? 0));
    return usualMs === 0 ? undefined : Math.max(soonestMs, usualMs);
  }
}

/** Whether a hedge is safe and useful: no submission, no long poll. */
function isHedgeable({ isIdempotent, atOnce }: FleetRequest): boolean {
  return isIdempotent && atOnce === undefined;
}

async function endOf<A>(run: RunningAttempt<A>) {
  return { run, outcome: await run.outcome };
}
