/**
 * When no node that could be asked before answers any more. What is known by then is frozen: pinned answers that are
 * held are true for ever, and are given on with the ledger as it was told last.
 */
import type { Upstream } from './upstream.ts';

/** Nodes that fail together are found out one after another: within probe intervals and time-outs. */
const togetherMs = 30_000;

export class Outage {
  /** When each node was lost that could be asked before, in ms since the epoch; `Infinity`: it still can. */
  readonly #lostAtMs = new Map<Upstream, number>();
  #sinceMs: number | undefined;
  #couldAsk = false;

  /** When it began, in ms since the epoch; `undefined`: a node can be asked, or none ever could. */
  get sinceMs(): number | undefined {
    return this.#sinceMs;
  }

  /** Takes the nodes as they are now. Returns whether an outage began or ended. */
  update(upstreams: readonly Upstream[], nowMs: number): 'begins' | 'ends' | undefined {
    for (const upstream of upstreams) {
      if (canBeAsked(upstream)) this.#lostAtMs.set(upstream, Infinity);
      else if (this.#lostAtMs.get(upstream) === Infinity) this.#lostAtMs.set(upstream, nowMs);
    }
    // Not by what is remembered of nodes: those that could be asked may have been taken out of the fleet.
    const canAsk = upstreams.some((upstream) => canBeAsked(upstream));
    this.#couldAsk ||= canAsk;
    const isOn = this.#couldAsk && !canAsk;
    if (isOn === (this.#sinceMs !== undefined)) return undefined;
    this.#sinceMs = isOn ? nowMs : undefined;
    return isOn ? 'begins' : 'ends';
  }

  /** The node was taken out of the fleet. */
  forget(upstream: Upstream): void {
    this.#lostAtMs.delete(upstream);
  }

  /**
   * The nodes whose word on the ledger counts: those that can be asked, or else those that were lost when the last one
   * was.
   */
  speakers(upstreams: readonly Upstream[]): readonly Upstream[] {
    const usable = upstreams.filter(({ health }) => health === 'usable');
    if (usable.length > 0) return usable;
    const fromMs = (this.#sinceMs ?? 0) - togetherMs;
    return upstreams.filter((upstream) => (this.#lostAtMs.get(upstream) ?? -Infinity) >= fromMs);
  }
}

/** Whether the node answers and has told its ledger. */
export function canBeAsked({ health, window }: Upstream): boolean {
  return health === 'usable' && window.info !== undefined;
}
