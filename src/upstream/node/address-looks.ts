/** Looks over new connections, which find several nodes behind one address: each may answer in its turn. */
import type { LedgerInfo } from '../../ledger/index.ts';
import type { NodeAnswer } from '../dispatch/exchange.ts';
import type { FleetState } from '../fleet-state.ts';
import { sharedAddressMessage } from './shared-address.ts';
import type { Upstream } from './upstream.ts';

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

interface AddressLog {
  record(change: 'address shared', fields: object, message: string): void;
}

/** Compares the order of a node's answers. No method rejects. */
export class AddressLooks {
  readonly #fleet: FleetState;
  readonly #log: AddressLog;
  /** Reads the ledger info over a new connection. */
  readonly #ask: (upstream: Upstream, withinMs: number) => Promise<NodeAnswer>;
  readonly #comparing = new Set<Upstream>();
  /** Time of the next round, and the number of rounds so far. */
  readonly #rounds = new WeakMap<Upstream, { readonly nextAtMs: number; readonly count: number }>();
  readonly #checks = new WeakMap<Upstream, { readonly atMs: number; readonly done: Promise<void> }>();

  constructor(fleet: FleetState, log: AddressLog, ask: (upstream: Upstream, withinMs: number) => Promise<NodeAnswer>) {
    this.#fleet = fleet;
    this.#log = log;
    this.#ask = ask;
  }

  /**
   * Records that an answer with this ledger, to a request that was sent at `sentAtMs`, has arrived: the order of answers
   * shows whether several nodes answer. After a step back, looks decide. Returns whether it was one.
   */
  observe(upstream: Upstream, info: LedgerInfo, sentAtMs: number, nowMs: number): boolean {
    const { address, name } = upstream;
    const wasShared = address.isShared;
    if (!address.observe(info, sentAtMs, nowMs)) return false;
    if (address.isShared && !wasShared) this.#log.record('address shared', { upstream: name }, sharedAddressMessage);
    // After an answer of another chain, the look that settles the chain is the next answer.
    if (!address.isShared && info.chainId === upstream.chain.id && !this.#comparing.has(upstream)) {
      this.#checks.delete(upstream);
      void this.#check(upstream);
    }
    return true;
  }

  /** The nodes that prove to be several at one address: another of them may hold what one has refused. */
  async findShared(refused: Iterable<Upstream>): Promise<readonly Upstream[]> {
    const unknown = [...refused].filter(({ address }) => !address.isShared);
    await Promise.all(unknown.map((upstream) => this.#check(upstream)));
    return unknown.filter(({ address }) => address.isShared);
  }

  /** Resolves when looks have shown whether several nodes answer. Within a minute callers share one comparison. */
  #check(upstream: Upstream): Promise<void> {
    const last = this.#checks.get(upstream);
    if (last !== undefined && performance.now() - last.atMs < comparisons.everyMs) return last.done;
    const done = this.#compareAnswers(upstream, comparisons.looks);
    this.#checks.set(upstream, { atMs: performance.now(), done });
    return done;
  }

  /** To be called with each probe: a few looks, when the time of the next round has come. */
  async round(upstream: Upstream): Promise<void> {
    const nowMs = performance.now();
    const { nextAtMs, count } = this.#rounds.get(upstream) ?? { nextAtMs: -Infinity, count: 0 };
    if (nowMs < nextAtMs) return;
    const pauseMs = count < comparisons.manyRounds ? comparisons.roundMs : comparisons.everyMs;
    this.#rounds.set(upstream, { nextAtMs: nowMs + pauseMs, count: count + 1 });
    await this.#compareAnswers(upstream, comparisons.looksInRound);
  }

  /**
   * All nodes behind the address may have gone back. When no look over a new connection finds the newest ledger that was
   * reported there, the mark ends, and the last look counts as that of one node.
   */
  async settle(upstream: Upstream): Promise<void> {
    if (this.#comparing.has(upstream)) return;
    const { window, address } = upstream;
    const last = this.#checks.get(upstream);
    if (last !== undefined && performance.now() - last.atMs < comparisons.settleMs) return;
    this.#checks.set(upstream, { atMs: performance.now(), done: Promise.resolve() });
    this.#comparing.add(upstream);
    for (let left = comparisons.looks; left > 0 && window.maySeemRestored(performance.now()); left -= 1) {
      const sentAtMs = performance.now();
      const answer = await this.#ask(upstream, comparisons.longestMs).catch(() => undefined);
      if (answer?.status !== 200 || answer.info === undefined) break;
      if (left === 1) address.forget();
      this.#fleet.observe(upstream, answer.info, performance.now(), sentAtMs);
    }
    this.#comparing.delete(upstream);
  }

  /** Looks one after the other, until a second step back, and anew after the first. */
  async #compareAnswers(upstream: Upstream, looks: number): Promise<void> {
    if (this.#comparing.has(upstream)) return;
    this.#comparing.add(upstream);
    const untilMs = performance.now() + comparisons.longestMs;
    let left = looks;
    while (left > 0 && !upstream.address.isShared && !upstream.isRemoved && performance.now() < untilMs) {
      const sentAtMs = performance.now();
      if (upstream.health !== 'usable' || !upstream.mayBeAskedMore(sentAtMs)) break;
      const answer = await this.#ask(upstream, comparisons.longestMs).catch(() => undefined);
      if (answer?.status !== 200 || answer.info === undefined) break;
      const isBack = this.observe(upstream, answer.info, sentAtMs, performance.now());
      left = isBack ? comparisons.looks : left - 1;
    }
    this.#comparing.delete(upstream);
  }
}
