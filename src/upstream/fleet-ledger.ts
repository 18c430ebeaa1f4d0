/**
 * The ledger that the fleet is on: its chain, and its head, the newest snapshot that a node of the chain has reported
 * and that the others do not contradict. The head goes back only when it proves false, or when the ledger itself went
 * back (nodes restored, a test network made anew). Then a generation begins, and nothing of the one before is used.
 */
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import { isConfirmed, isCredible } from './node/credible-head.ts';
import { electChain } from './node/ledger-identity.ts';
import type { Upstream } from './node/upstream.ts';

/** Changes of the fleet as a whole, for log and status page. */
export type FleetChange = 'node foreign' | 'node suspect' | 'rollback' | 'history replaced' | 'outage' | 'outage over';

/** Changes of the ledger, each reported once. */
export interface LedgerEvents {
  /** A change that operators read: its fields, and a message in words. */
  onChange(change: FleetChange, fields: object, message: string): void;
  /** From now on nothing that was read before may be used. */
  onGeneration(): void;
}

/** The fleet around the ledger. */
export interface LedgerParts {
  readonly upstreams: () => readonly Upstream[];
  /** The chain of the config; `undefined`: the chain of most nodes. */
  readonly fixedChainId: number | undefined;
  /** The longest time that a node may be behind the others; it is read at each use. */
  readonly maxLagMs: () => number;
  readonly events: LedgerEvents;
}

/** A believed head is compared with the reports of other nodes at most this often. */
const reviewMs = 250;

export class FleetLedger {
  readonly #parts: LedgerParts;
  #chainId: number | undefined;
  /** The first reports of nodes come in: each counts at once. */
  #isStarting = true;
  #head: LedgerInfo | undefined;
  #source: Upstream | undefined;
  /** When the node that reported the head was taken out. */
  #orphanedAtMs = -Infinity;
  #reviewedAtMs = -Infinity;
  /** Nodes whose ledger has gone back from the present head. */
  readonly #goneBack = new Set<Upstream>();
  #generation = 0;

  constructor(parts: LedgerParts) {
    this.#parts = parts;
    this.#chainId = parts.fixedChainId;
  }

  /** The chain of the config or else of most nodes; `undefined` before the first answer. */
  get chainId(): number | undefined {
    return this.#chainId;
  }

  /** The newest snapshot of the ledger; never goes backward within a generation. */
  get head(): LedgerInfo | undefined {
    return this.#head;
  }

  /** The node that reported the head; `undefined` when it is no node of the fleet any more. */
  get source(): Upstream | undefined {
    return this.#source?.isRemoved === true ? undefined : this.#source;
  }

  /** Increases when data read before must be dropped: the same version may have another state. */
  get generation(): number {
    return this.#generation;
  }

  /** Whether the first reports of nodes still come in. */
  get isStarting(): boolean {
    return this.#isStarting;
  }

  /** Ends the start: from now on a tie between chain ids changes nothing, and another chain takes a look to confirm. */
  settle(): void {
    this.#isStarting = false;
  }

  /** Holds the vote on the chain anew, and marks the nodes of other chains. */
  voteOnChain(): void {
    const upstreams = this.#parts.upstreams();
    const reported = upstreams.map(({ chainId }) => chainId);
    const agreed = this.#parts.fixedChainId ?? electChain(reported, this.#isStarting ? undefined : this.#chainId);
    const isAnother = this.#chainId !== undefined && agreed !== this.#chainId;
    this.#chainId = agreed;
    for (const upstream of upstreams) {
      // A node that has only reported another chain is not asked until that is settled.
      const chainId = upstream.chainId ?? upstream.chain.doubted;
      const isForeign = chainId !== undefined && chainId !== agreed;
      if (isForeign && upstream.health !== 'foreign') {
        const fields = { upstream: upstream.name, chainId, fleetChainId: agreed };
        this.#parts.events.onChange('node foreign', fields, 'upstream is not asked: other chain');
      }
      upstream.markForeign(isForeign);
    }
    if (isAnother) this.startOver();
  }

  /** A node of the chain reports `info`; `hasGoneBack`: it reported a newer ledger before, and stays with this one. */
  observe(upstream: Upstream, info: LedgerInfo, hasGoneBack: boolean, nowMs: number): void {
    const head = this.#head;
    if (head === undefined || info.version > head.version) this.#consider(upstream, info, nowMs);
    else {
      upstream.isSuspect = false;
      if (!upstream.isRemoved) this.#review(upstream, head, hasGoneBack, nowMs);
    }
  }

  /** The node has been taken out of the fleet. */
  forget(upstream: Upstream, nowMs: number): void {
    this.#goneBack.delete(upstream);
    if (upstream === this.#source) this.#orphanedAtMs = nowMs;
  }

  /** Begins a generation: the head is the newest report of the nodes that answer, `speaker` among them. */
  startOver(speaker?: Upstream): void {
    this.#generation += 1;
    this.#parts.events.onGeneration();
    this.#reviewedAtMs = -Infinity;
    this.#goneBack.clear();
    const trusted = this.#parts.upstreams().filter(({ isSuspect, chainId }) => !isSuspect && chainId === this.#chainId);
    const answering = trusted.filter((upstream) => upstream === speaker || upstream.health === 'usable');
    this.#source = freshest(answering) ?? freshest(trusted);
    this.#head = this.#source?.window.info;
  }

  /** Takes a new head unless the other nodes contradict it. */
  #consider(upstream: Upstream, info: LedgerInfo, nowMs: number): void {
    if (!this.#isCredible(upstream, info)) return this.#suspect(upstream, info, false);
    upstream.isSuspect = false;
    const before = this.#head;
    const isYounger = before !== undefined && info.timestampUsec < before.timestampUsec;
    this.#head = isYounger ? { ...info, timestampUsec: before.timestampUsec } : info;
    this.#source = upstream;
    this.#goneBack.delete(upstream);
    // A removed node still answers what it was sent, and no answer may be newer than its headers.
    if (upstream.isRemoved) this.#orphanedAtMs = nowMs;
    // The first head was compared with none: the next report may contradict it.
    if (before !== undefined) this.#reviewedAtMs = nowMs;
  }

  /**
   * Whether the head still holds when `speaker` does not go beyond it. It would stall every read of "latest" after
   * - the ledger itself went back: a node was restored, or made anew, and no other confirms the head. While one does,
   *   the node is only behind.
   * - it was believed while too few nodes could contradict it.
   * - its node was taken out, perhaps for a false head, and no other reaches it in the time that a node may be behind.
   */
  #review(speaker: Upstream, head: LedgerInfo, hasGoneBack: boolean, nowMs: number): void {
    if (hasGoneBack) this.#goneBack.add(speaker);
    const isOrphan = this.source === undefined;
    if (headOf(speaker) >= head.version) {
      this.#goneBack.delete(speaker);
      if (isOrphan) this.#source = speaker;
      return;
    }
    const isFalse =
      nowMs - this.#reviewedAtMs >= reviewMs && speaker !== this.#source && !this.#isCredible(this.#source, head);
    const isOverdue = isOrphan && nowMs - this.#orphanedAtMs > this.#parts.maxLagMs();
    const isGone = hasGoneBack && !this.#isConfirmed(head);
    if (isFalse && !isGone && this.source !== undefined) {
      this.#suspect(this.source, head, true);
      this.startOver();
    } else if (isFalse || isOverdue || isGone) {
      this.startOver(speaker);
      const fields = { upstream: speaker.name, before: head.version, after: this.#head?.version ?? head.version };
      this.#parts.events.onChange('rollback', fields, 'the ledger went back: what was cached of it is dropped');
    }
  }

  #suspect(upstream: Upstream, { version: head }: LedgerInfo, retracted: boolean): void {
    if (upstream.isSuspect) return;
    upstream.isSuspect = true;
    const fields = { upstream: upstream.name, head, retracted };
    this.#parts.events.onChange('node suspect', fields, 'upstream reports a head that other nodes contradict');
  }

  /** Whether a node that has not gone back is near the head. */
  #isConfirmed({ version }: LedgerInfo): boolean {
    const others = this.#parts.upstreams().filter(({ health, isSuspect }) => health === 'usable' && !isSuspect);
    return others.some((other) => !this.#goneBack.has(other) && isConfirmed(version, headOf(other)));
  }

  /** `upstream`: the node that reports `claim`. */
  #isCredible(upstream: Upstream | undefined, claim: LedgerInfo): boolean {
    const others = this.#parts.upstreams().filter((other) => other !== upstream && other.health === 'usable');
    const reports = others.map((other) => other.window.info).filter((info) => info !== undefined);
    return isCredible(claim, reports, BigInt(Date.now()) * 1000n);
  }
}

function freshest(upstreams: readonly Upstream[]): Upstream | undefined {
  return upstreams.reduce<Upstream | undefined>(
    (found, upstream) => (headOf(upstream) > headOf(found) ? upstream : found),
    undefined,
  );
}

function headOf(upstream: Upstream | undefined): bigint {
  return upstream?.window.info?.version ?? -1n;
}
