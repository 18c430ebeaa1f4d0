/**
 * Nodes whose own answers disprove their heads: the headers report a version that the answer calls not found. A head that
 * is a little too high would stall every read of "latest", because no node serves it.
 */
import type { Upstream } from './node/upstream.ts';

/** Contradictions that disprove: one may be an answer that passed through a cache, with newer headers. */
const enough = 3;
/** They count when each follows the one before within this time, in ms. */
const togetherMs = 10_000;
/** A disproved node moves no head for this long, in ms. Each disproof of a believed head empties the cache. */
const disprovedMs = 600_000;

/** Counts contradictions by node. */
export class Disproofs {
  readonly #counts = new WeakMap<Upstream, { count: number; atMs: number }>();
  readonly #untilMs = new WeakMap<Upstream, number>();

  /** Records a contradiction. Returns whether the node is disproved by it. */
  record(upstream: Upstream, nowMs: number): boolean {
    const before = this.#counts.get(upstream);
    const count = before !== undefined && nowMs - before.atMs <= togetherMs ? before.count + 1 : 1;
    this.#counts.set(upstream, { count, atMs: nowMs });
    if (count < enough) return false;
    this.#counts.delete(upstream);
    this.#untilMs.set(upstream, nowMs + disprovedMs);
    return true;
  }

  /** Whether the node's claims of a new head are not believed now. */
  holds(upstream: Upstream, nowMs: number): boolean {
    return nowMs < (this.#untilMs.get(upstream) ?? -Infinity);
  }
}
