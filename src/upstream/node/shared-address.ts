/**
 * Detects several nodes behind one address, such as a balancer's. Head and oldest version of one node only move up, so
 * an answer to a request that was sent after another answer had arrived reports no lower ones. A lower one is a step
 * back: of a node that was restored, or of another node. A second step back soon after is of another node, unless it is
 * the return from another chain: one node may have answered for another for a moment. Looks over new connections find
 * several nodes without traffic, because each may be answered by another one.
 */
import type { LedgerInfo } from '../../ledger/index.ts';

/** The ledgers with the lowest and the highest oldest version that one address reported lately. */
interface Spread {
  readonly deepest: LedgerInfo;
  readonly shallowest: LedgerInfo;
}

/** The state of an upstream whose address leads to several nodes, and its remedy. */
export const sharedAddressMessage =
  'several nodes answer at one address, with different ledgers: list each node, or set discover: dns';

interface AddressLooks {
  /** Over a new connection. Never rejects. */
  readonly ask: (withinMs: number) => Promise<LedgerInfo | undefined>;
  /** Whether looks beside those of the fleet may be sent now. */
  readonly mayAsk: () => boolean;
  readonly onShared: () => void;
}

/**
 * `looks` when an answer is a step back, and before the first 410 of a minute; `looksInRound` each `roundMs`, and after
 * `manyRounds` each `everyMs`: every look costs the node a handshake.
 */
const comparisons = {
  looks: 16,
  longestMs: 500,
  everyMs: 60_000,
  settleMs: 1_000,
  looksInRound: 3,
  roundMs: 5_000,
  manyRounds: 12,
};
/** Two steps back within this time are of several nodes: a node that is restored or rebuilt needs longer. */
const togetherMs = 10_000;
/** Several nodes are assumed for this long after the last step back. */
const assumedMs = 300_000;
/** The spread is of the last one to two of these. */
const recentMs = 60_000;

/** The order of the answers of one address. */
export class SharedAddress {
  /** Several nodes answer at it. */
  isShared = false;
  #looks: AddressLooks | undefined;
  #isComparing = false;
  #check: { readonly atMs: number; readonly done: Promise<void> } | undefined;
  /** Time of the next round, and the number of rounds so far. */
  #round = { nextAtMs: -Infinity, count: 0 };
  #last: LedgerInfo | undefined;
  #lastAtMs = -Infinity;
  #backAtMs = -Infinity;
  /** The chain that the last step back led away from; never the present one. */
  #leftChain: number | undefined;
  #spread: Spread | undefined;
  #earlier: Spread | undefined;
  #spreadSinceMs = -Infinity;

  /** The spread on the chain of `info` while several nodes answer; `undefined` for one node. */
  spreadOf({ chainId }: LedgerInfo): Spread | undefined {
    if (!this.isShared || this.#spread?.deepest.chainId !== chainId) return undefined;
    if (this.#earlier === undefined) return this.#spread;
    return widen(widen(this.#spread, this.#earlier.deepest), this.#earlier.shallowest);
  }

  /** The ledger that all nodes at the address hold: the highest edge is believed. */
  believed(info: LedgerInfo): LedgerInfo {
    const spread = this.spreadOf(info);
    if (spread === undefined) return info;
    const { oldestVersion, oldestBlockHeight } = spread.shallowest;
    return { ...info, oldestVersion, oldestBlockHeight };
  }

  /**
   * Records an answer to a request that was sent at `sentAtMs`. After a step back, looks decide. Returns whether it is
   * one. Answers to requests in flight at the same time have no order. `isItsChain`: after an answer of another chain,
   * the look that settles the chain is the next answer.
   */
  observe(info: LedgerInfo, sentAtMs: number, nowMs: number, isItsChain = true): boolean {
    const wasShared = this.isShared;
    const isBack = this.#isBack(info, sentAtMs, nowMs);
    if (!isBack || this.#looks === undefined) return isBack;
    if (this.isShared && !wasShared) this.#looks.onShared();
    if (!this.isShared && isItsChain && !this.#isComparing) {
      this.#check = undefined;
      void this.check();
    }
    return true;
  }

  #isBack(info: LedgerInfo, sentAtMs: number, nowMs: number): boolean {
    this.#include(info, nowMs);
    const last = this.#last;
    if (sentAtMs < this.#lastAtMs) return false;
    this.#last = info;
    this.#lastAtMs = nowMs;
    const isBack = last !== undefined && last !== info && isStepBack(last, info);
    if (isBack) {
      const isReturn = info.chainId === this.#leftChain;
      this.#leftChain = info.chainId === last.chainId || isReturn ? undefined : last.chainId;
      this.isShared ||= nowMs - this.#backAtMs <= togetherMs && !isReturn;
      this.#backAtMs = nowMs;
    } else if (nowMs - this.#backAtMs > assumedMs) this.isShared = false;
    return isBack;
  }

  /** Lets looks at the address be sent; without them, only answers of others are compared. */
  attach(looks: AddressLooks): void {
    this.#looks = looks;
  }

  /** Resolves when looks have shown whether several nodes answer. Within a minute callers share one comparison. */
  check(): Promise<void> {
    const last = this.#check;
    if (last !== undefined && performance.now() - last.atMs < comparisons.everyMs) return last.done;
    const done = this.#compare(comparisons.looks);
    this.#check = { atMs: performance.now(), done };
    return done;
  }

  /** To be called with each probe: a few looks, when the time of the next round has come. */
  async round(): Promise<void> {
    const nowMs = performance.now();
    const { nextAtMs, count } = this.#round;
    if (nowMs < nextAtMs) return;
    const pauseMs = count < comparisons.manyRounds ? comparisons.roundMs : comparisons.everyMs;
    this.#round = { nextAtMs: nowMs + pauseMs, count: count + 1 };
    await this.#compare(comparisons.looksInRound);
  }

  /**
   * All nodes behind the address may have gone back: while `isOpen`, `take` gets the answers of looks. When none is of
   * the newest ledger that was reported there, the mark ends, and the last look counts as that of one node.
   */
  async settle(isOpen: () => boolean, take: (info: LedgerInfo, sentAtMs: number) => void): Promise<void> {
    const lastAtMs = this.#check?.atMs ?? -Infinity;
    if (this.#isComparing || performance.now() - lastAtMs < comparisons.settleMs) return;
    this.#check = { atMs: performance.now(), done: Promise.resolve() };
    this.#isComparing = true;
    for (let left = comparisons.looks; left > 0 && isOpen(); left -= 1) {
      const sentAtMs = performance.now();
      const info = await this.#looks?.ask(comparisons.longestMs);
      if (info === undefined) break;
      if (left === 1) this.forget();
      take(info, sentAtMs);
    }
    this.#isComparing = false;
  }

  /** Looks one after the other, until a second step back, and anew after the first. */
  async #compare(looks: number): Promise<void> {
    if (this.#isComparing || this.#looks === undefined) return;
    this.#isComparing = true;
    const untilMs = performance.now() + comparisons.longestMs;
    for (let left = looks; left > 0 && !this.isShared && this.#looks.mayAsk();) {
      const sentAtMs = performance.now();
      if (sentAtMs >= untilMs) break;
      const info = await this.#looks.ask(comparisons.longestMs);
      if (info === undefined) break;
      left = this.observe(info, sentAtMs, performance.now()) ? comparisons.looks : left - 1;
    }
    this.#isComparing = false;
  }

  /** Forgets all answers: nodes that have gone back together look like one node that has. */
  forget(): void {
    this.#last = undefined;
    this.#backAtMs = -Infinity;
    this.isShared = false;
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

function isStepBack(last: LedgerInfo, info: LedgerInfo): boolean {
  return info.version < last.version || info.oldestVersion < last.oldestVersion || info.chainId !== last.chainId;
}

function widen(spread: Spread | undefined, info: LedgerInfo): Spread {
  if (spread === undefined) return { deepest: info, shallowest: info };
  if (info.oldestVersion < spread.deepest.oldestVersion) return { ...spread, deepest: info };
  return info.oldestVersion > spread.shallowest.oldestVersion ? { ...spread, shallowest: info } : spread;
}
