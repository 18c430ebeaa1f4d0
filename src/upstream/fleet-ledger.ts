/**
 * The ledger that the fleet is on: its chain, and its head, the newest snapshot that a node of the chain has reported
 * and that the others do not contradict. The head goes back only when it proves false, or when the ledger itself went
 * back (nodes restored, a test network made anew). Then a generation begins, and nothing of the one before is used.
 */
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import { isConfirmed, isCredible } from './credible-head.ts';
import { electChain } from './ledger-identity.ts';
import type { Upstream } from './upstream.ts';

/** Changes of the ledger, each reported once. */
export interface LedgerEvents {
  /** A node reports another chain than the fleet's. */
  onForeign(upstream: Upstream, chainId: number, fleetChainId: number): void;
  /** A node reports a head that the others contradict; `retracted` when it had been believed before. */
  onSuspect(upstream: Upstream, head: LedgerVersion, retracted: boolean): void;
  /** From now on nothing that was read before may be used. */
  onGeneration(): void;
  /** A node's ledger has gone back, and no other node confirms the head: it is now `after`. */
  onRollback(upstream: Upstream, before: LedgerVersion, after: LedgerVersion): void;
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
  /** Since when the head is the report of a node that was taken out. */
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
    return this.#source;
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
      if (isForeign && upstream.health !== 'foreign') this.#parts.events.onForeign(upstream, chainId, agreed ?? 0);
      upstream.markForeign(isForeign);
    }
    if (isAnother) this.startOver();
  }

  /** A node of the chain reports `info`; `hasGoneBack`: it reported a newer ledger before, and stays with this one. */
  observe(upstream: Upstream, info: LedgerInfo, hasGoneBack: boolean, nowMs: number): void {
    if (hasGoneBack && !upstream.isRemoved) this.#followBack(upstream, info);
    else if (info.version >= (this.#head?.version ?? 0n)) this.#goneBack.delete(upstream);
    if (this.#head === undefined || info.version > this.#head.version) this.#consider(upstream, info, nowMs);
    else this.#review(upstream, nowMs);
  }

  /** The node has been taken out of the fleet. */
  forget(upstream: Upstream, nowMs: number): void {
    this.#goneBack.delete(upstream);
    if (upstream === this.#source) this.#orphan(nowMs);
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
    const isSuspect = !this.#isCredible(upstream, info);
    if (isSuspect && !upstream.isSuspect) this.#parts.events.onSuspect(upstream, info.version, false);
    upstream.isSuspect = isSuspect;
    if (isSuspect) return;
    const before = this.#head;
    const isYounger = before !== undefined && info.timestampUsec < before.timestampUsec;
    this.#head = isYounger ? { ...info, timestampUsec: before.timestampUsec } : info;
    this.#source = upstream;
    // A removed node still answers what it was sent, and no answer may be newer than its headers.
    if (upstream.isRemoved) this.#orphan(nowMs);
    // The first head was compared with none: the next report may contradict it.
    if (before !== undefined) this.#reviewedAtMs = nowMs;
  }

  /**
   * A head that was believed while too few nodes could contradict it is compared again with later reports: a false head
   * would stall every read of "latest", so this is the one case in which the head of a node goes back by itself.
   */
  #review(speaker: Upstream, nowMs: number): void {
    speaker.isSuspect = false;
    const source = this.#source;
    const head = this.#head;
    if (head === undefined || source === speaker) return;
    if (source === undefined) return this.#reviewOrphan(speaker, head, nowMs);
    if (nowMs - this.#reviewedAtMs < reviewMs || this.#isCredible(source, head)) return;
    source.isSuspect = true;
    this.#parts.events.onSuspect(source, head.version, true);
    this.startOver();
  }

  /** The node that reported the head is gone: any other that has reached it takes its place. */
  #orphan(nowMs: number): void {
    const head = this.#head?.version ?? 0n;
    this.#source = this.#parts.upstreams().find((upstream) => isTrusted(upstream) && headOf(upstream) >= head);
    if (this.#source === undefined) this.#orphanedAtMs = nowMs;
  }

  /**
   * A head whose source is gone is dropped when the others contradict it, or when none of them reaches it in the time
   * that a node may be behind: nodes are also taken out because they report false heads.
   */
  #reviewOrphan(speaker: Upstream, head: LedgerInfo, nowMs: number): void {
    if (speaker.isRemoved) return;
    if (headOf(speaker) >= head.version) {
      this.#source = speaker;
      return;
    }
    const isOverdue = nowMs - this.#orphanedAtMs > this.#parts.maxLagMs();
    if (!isOverdue && (nowMs - this.#reviewedAtMs < reviewMs || this.#isCredible(undefined, head))) return;
    this.startOver(speaker);
    this.#parts.events.onRollback(speaker, head.version, this.#head?.version ?? head.version);
  }

  /**
   * A node that was restored, or made anew, reports an older ledger for good. While another node confirms the head, the
   * node is only behind. Otherwise the ledger itself has gone back, and the old head would stall every read.
   */
  #followBack(upstream: Upstream, info: LedgerInfo): void {
    const head = this.#head;
    if (head === undefined || info.version >= head.version) return;
    this.#goneBack.add(upstream);
    const others = this.#parts.upstreams().filter((other) => isTrusted(other) && !this.#goneBack.has(other));
    if (others.some((other) => isConfirmed(head.version, headOf(other)))) return;
    this.startOver(upstream);
    this.#parts.events.onRollback(upstream, head.version, this.#head?.version ?? info.version);
  }

  /** `upstream`: the node that reports `claim`, where it is a node of the fleet. */
  #isCredible(upstream: Upstream | undefined, claim: LedgerInfo): boolean {
    const others = this.#parts.upstreams().filter((other) => other !== upstream && other.health === 'usable');
    const reports = others.map((other) => other.window.info).filter((info) => info !== undefined);
    return isCredible(claim, reports, BigInt(Date.now()) * 1000n);
  }
}

function isTrusted({ health, isSuspect }: Upstream): boolean {
  return health === 'usable' && !isSuspect;
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
