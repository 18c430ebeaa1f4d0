/**
 * Detects several nodes behind one address, such as a balancer's. Head and oldest version of one node only move up, so
 * an answer to a request that was sent after another answer had arrived reports no lower ones. A lower one is a step back:
 * the ledger of a node that was restored, or of another node. A second step back soon after is of another node, unless it
 * is the return from another chain: one node may have answered for another for a moment.
 */
import type { LedgerInfo } from '../../ledger/index.ts';

/** The ledgers with the lowest and the highest oldest version that answers of one address reported lately. */
interface Spread {
  readonly deepest: LedgerInfo;
  readonly shallowest: LedgerInfo;
}

/** The state of an upstream whose address leads to several nodes, and its remedy. */
export const sharedAddressMessage =
  'several nodes answer at one address, with different ledgers: list each node, or set discover: dns';

/** Two steps back within this time are of several nodes: a node that is restored or rebuilt needs longer. */
const togetherMs = 10_000;
/** Several nodes are assumed for this long after the last step back. */
const assumedMs = 300_000;
/** The spread is of the last one to two of these. */
const recentMs = 60_000;

/** The order of the answers of one address. */
export class SharedAddress {
  #last: LedgerInfo | undefined;
  #lastAtMs = -Infinity;
  #backAtMs = -Infinity;
  /** The chain that the last step back led away from. */
  #leftChain: number | undefined;
  #isShared = false;
  #spread: Spread | undefined;
  #earlier: Spread | undefined;
  #spreadSinceMs = -Infinity;

  get isShared(): boolean {
    return this.#isShared;
  }

  /** The spread on the chain of `info` while several nodes answer; `undefined` for one node. */
  spreadOf({ chainId }: LedgerInfo): Spread | undefined {
    if (!this.#isShared || this.#spread?.deepest.chainId !== chainId) return undefined;
    if (this.#earlier === undefined) return this.#spread;
    return widen(widen(this.#spread, this.#earlier.deepest), this.#earlier.shallowest);
  }

  /** The ledger that all nodes at the address hold, up to the newest snapshot of them: the highest edge is believed. */
  believed(info: LedgerInfo): LedgerInfo {
    const spread = this.spreadOf(info);
    if (spread === undefined) return info;
    const { oldestVersion, oldestBlockHeight } = spread.shallowest;
    return { ...info, oldestVersion, oldestBlockHeight };
  }

  /**
   * Records an answer to a request that was sent at `sentAtMs`. Returns whether it is a step back. Answers to requests in
   * flight at the same time have no order, and are compared with no other.
   */
  observe(info: LedgerInfo, sentAtMs: number, nowMs: number): boolean {
    this.#include(info, nowMs);
    const last = this.#last;
    if (sentAtMs < this.#lastAtMs) return false;
    this.#last = info;
    this.#lastAtMs = nowMs;
    const isBack = last !== undefined && last !== info && isStepBack(last, info);
    if (isBack) {
      const isReturn = info.chainId !== last.chainId && info.chainId === this.#leftChain;
      this.#leftChain = info.chainId === last.chainId || isReturn ? undefined : last.chainId;
      this.#isShared ||= nowMs - this.#backAtMs <= togetherMs && !isReturn;
      this.#backAtMs = nowMs;
    } else if (nowMs - this.#backAtMs > assumedMs) this.#isShared = false;
    return isBack;
  }

  /** Forgets all answers: nodes that have gone back together look like one node that has. */
  forget(): void {
    this.#last = undefined;
    this.#backAtMs = -Infinity;
    this.#isShared = false;
    this.#spread = undefined;
    this.#earlier = undefined;
  }

  #include(info: LedgerInfo, nowMs: number): void {
    // Versions of another chain say nothing about this one's.
    if (this.#spread !== undefined && this.#spread.deepest.chainId !== info.chainId) {
      this.#spread = undefined;
      this.#earlier = undefined;
    } else if (nowMs - this.#spreadSinceMs > recentMs) {
      this.#earlier = this.#spread;
      this.#spread = undefined;
      this.#spreadSinceMs = nowMs;
    }
    this.#spread = widen(this.#spread, info);
  }
}

/** Whether no single node reports `info` after `last`. */
function isStepBack(last: LedgerInfo, info: LedgerInfo): boolean {
  return info.version < last.version || info.oldestVersion < last.oldestVersion || info.chainId !== last.chainId;
}

function widen(spread: Spread | undefined, info: LedgerInfo): Spread {
  if (spread === undefined) return { deepest: info, shallowest: info };
  if (info.oldestVersion < spread.deepest.oldestVersion) return { ...spread, deepest: info };
  return info.oldestVersion > spread.shallowest.oldestVersion ? { ...spread, shallowest: info } : spread;
}
