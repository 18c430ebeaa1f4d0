/**
 * The chain id that one node stands for. An answer alone does not change it: behind one address there may be nodes of
 * two networks, and one misrouted answer would turn the whole ledger over. Another chain id raises a doubt; a look at
 * the ledger info that was sent after it, with no word for the old chain in between, settles it.
 */

/** One chain id that the node reported, and what is known around it. */
export interface ChainReport {
  readonly chainId: number;
  /** The chain it is held against where the node has none of its own yet: the fleet's. */
  readonly fleetChainId: number | undefined;
  /** In ms of `performance.now()`. */
  readonly nowMs: number;
  /** Present: it is a look at the ledger info, which was sent at this moment. */
  readonly lookSentAtMs?: number | undefined;
}

export class NodeChain {
  #id: number | undefined;
  /** The other chain id, and since when nothing else was reported. */
  #doubt: { readonly chainId: number; sinceMs: number } | undefined;

  /** `undefined` until the node has reported the fleet's chain, or another one that is settled. */
  get id(): number | undefined {
    return this.#id;
  }

  /** The chain id that the node reported and that is not settled; `undefined`: there is no doubt. */
  get doubted(): number | undefined {
    return this.#doubt?.chainId;
  }

  /** Takes the chain id of an answer. Returns whether the answer is of the chain that the node stands for. */
  observe(report: ChainReport): boolean {
    const expected = this.#id ?? report.fleetChainId;
    if (expected === undefined) return this.settle(report.chainId);
    return report.chainId === expected ? this.#observeSame(report) : this.#observeOther(report);
  }

  /** The node stands for this chain from now on. */
  settle(chainId: number): true {
    this.#id = chainId;
    this.#doubt = undefined;
    return true;
  }

  #observeSame({ chainId, nowMs, lookSentAtMs }: ChainReport): boolean {
    if (this.#doubt === undefined || lookSentAtMs !== undefined) return this.settle(chainId);
    // Both chains answer: a look that is in flight proves nothing any more.
    this.#doubt.sinceMs = nowMs;
    return this.#id !== undefined;
  }

  #observeOther({ chainId, nowMs, lookSentAtMs }: ChainReport): boolean {
    const doubt = this.#doubt;
    if (doubt?.chainId !== chainId) this.#doubt = { chainId, sinceMs: nowMs };
    else if (lookSentAtMs !== undefined && lookSentAtMs >= doubt.sinceMs) return this.settle(chainId);
    return false;
  }
}
