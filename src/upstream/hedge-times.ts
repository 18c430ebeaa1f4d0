/** When a second node is asked beside the first, and whether there is room for that. */
import type { Fleet } from './fleet.ts';
import type { Run } from './hedge.ts';
import type { ReadClass } from './read-class.ts';
import { positionOf, type Need } from './need.ts';
import { holdingOf, trustRank } from './ranking.ts';
import type { FleetRequest } from './sender.ts';
import { TrafficShare } from './traffic-share.ts';
import type { Upstream } from './upstream.ts';
import type { Known } from './useful.ts';

export interface HedgeLimits {
  /** An attempt is unusually long when it takes longer than this part of the node's answers of its class. 1: none is. */
  readonly quantile: number;
  /** Hedges, in parts of all reads. */
  readonly share: number;
}

/** What can be saved up for a burst: what a node's first seconds of hanging take at a few hundred reads a second. */
const mostSaved = 20;
/** Beneath this a second question costs more than it saves. */
const soonestMs = 2;

export class HedgeTimes {
  readonly #limits: HedgeLimits | undefined;
  readonly #fleet: Fleet;
  readonly #budget: TrafficShare;

  constructor(limits: HedgeLimits | undefined, fleet: Fleet) {
    this.#limits = limits;
    this.#fleet = fleet;
    this.#budget = new TrafficShare({ share: limits?.share ?? 0, most: mostSaved });
  }

  /** A read is made. */
  earn(request: FleetRequest): void {
    if (isHedgeable(request)) this.#budget.earn(this.#limits?.share);
  }

  /** Takes from what reads have earned. Looks are few, and everybody waits for them: they always may. */
  spend(request: FleetRequest): boolean {
    return request.isLook === true || this.#budget.spend(performance.now());
  }

  /**
   * How long to wait for `upstream` before another node is asked as well, by its own answers to reads of the class, or
   * by the fleet's where it has given too few. `undefined`: for ever.
   */
  afterMs(request: FleetRequest, upstream: Upstream, readClass: ReadClass | undefined): number | undefined {
    const timed = request.isLook === true ? 'look' : readClass;
    if (this.#limits === undefined || timed === undefined || !isHedgeable(request)) return undefined;
    if (this.#fleet.upstreams.length < 2) return undefined;
    const { quantile } = this.#limits;
    if (quantile >= 1) return undefined;
    const nowMs = performance.now();
    let usualMs = upstream.latencies[timed].quantile(quantile, nowMs);
    if (usualMs === undefined) {
      for (const other of this.#fleet.upstreams) {
        const othersMs = other.latencies[timed].quantile(quantile, nowMs);
        if (othersMs !== undefined && othersMs > (usualMs ?? 0)) usualMs = othersMs;
      }
    }
    return usualMs === undefined ? undefined : Math.max(soonestMs, usualMs);
  }

  /** Whether a node is likely to answer, and at once. */
  isWorthAsking(node: Known, need: Need): boolean {
    const position = positionOf(need);
    return trustRank(node) === 0 && (position === undefined || holdingOf(node.window, position) === 'held');
  }

  /** A run was given up because a hedge had answered: it took at least this long. */
  outpaced({ upstream, sentAtMs }: Run<unknown>, readClass: ReadClass | undefined): void {
    const nowMs = performance.now();
    if (readClass !== undefined) upstream.latencies[readClass].record(nowMs - sentAtMs, nowMs);
    upstream.recordOutpaced(nowMs - sentAtMs, nowMs);
  }
}

/** Never what changes something, nor what is meant to wait. */
function isHedgeable({ isIdempotent, atOnce }: FleetRequest): boolean {
  return isIdempotent && atOnce === undefined;
}
