/**
 * How far the ledger goes: the newest snapshot that a node of the fleet's chain has told and that the others do not
 * contradict. It goes back only when it turns out to be a lie, or when the ledger itself went back (nodes restored, a
 * test network made anew); then a new generation begins and nothing of the old one is used.
 */
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import { isCredible } from './credible-head.ts';
import type { Upstream } from './upstream.ts';

/** What is called out, once per change. */
export interface HeadEvents {
  /** A node tells a head that the others contradict; `retracted` when it had been believed before. */
  onSuspect(upstream: Upstream, head: LedgerVersion, retracted: boolean): void;
  /** From now on nothing that was read before may be used. */
  onGeneration(): void;
  /** A node's ledger has gone back, and no other holds on to the head: it is now `after`. */
  onRollback(upstream: Upstream, before: LedgerVersion, after: LedgerVersion): void;
}

/** What is asked whenever it matters. */
export interface HeadParts {
  readonly upstreams: () => readonly Upstream[];
  readonly chainId: () => number | undefined;
  /** A node whose ledger is farther behind serves only what it holds. */
  readonly maxLagMs: () => number;
  readonly events: HeadEvents;
}

/** A believed head is held against what other nodes say at most this often. */
const reviewMs = 250;
/** A node this close below the head confirms it: heads differ by blocks in flight and by probes in between. */
const nearVersions = 10_000n;

export class BelievedHead {
  readonly #parts: HeadParts;
  #info: LedgerInfo | undefined;
  #source: Upstream | undefined;
  /** Since when the head is the word of a node that was taken out. */
  #orphanedAtMs = -Infinity;
  #reviewedAtMs = -Infinity;
  /** Nodes whose ledger has gone back from the present head. */
  readonly #goneBack = new Set<Upstream>();
  #generation = 0;

  constructor(parts: HeadParts) {
    this.#parts = parts;
  }

  /** Never goes backward within a generation. */
  get info(): LedgerInfo | undefined {
    return this.#info;
  }

  /** The node that told it; `undefined` when that is no node of the fleet any more. */
  get source(): Upstream | undefined {
    return this.#source;
  }

  /** Goes up when what is known of the ledger must be forgotten: the same version may have another state then. */
  get generation(): number {
    return this.#generation;
  }

  /** A node of the fleet's chain has told `info`; `hasGoneBack`: it has told a newer ledger before, and stays with this. */
  hear(upstream: Upstream, info: LedgerInfo, hasGoneBack: boolean, nowMs: number): void {
    if (hasGoneBack && !upstream.isRemoved) this.#followBack(upstream, info);
    else if (info.version >= (this.#info?.version ?? 0n)) this.#goneBack.delete(upstream);
    if (this.#info === undefined || info.version > this.#info.version) this.#consider(upstream, info, nowMs);
    else this.#review(upstream, nowMs);
  }

  /** The node has been taken out of the fleet. */
  forget(upstream: Upstream, nowMs: number): void {
    this.#goneBack.delete(upstream);
    if (upstream === this.#source) this.#orphan(nowMs);
  }

  /**
   * Begins a generation: the head is what nodes tell now that answer, `speaker` among them, and nothing that was told
   * before.
   */
  startOver(speaker?: Upstream): void {
    this.#generation += 1;
    this.#parts.events.onGeneration();
    this.#reviewedAtMs = -Infinity;
    this.#goneBack.clear();
    const ours = this.#parts.chainId();
    const trusted = this.#parts.upstreams().filter(({ isSuspect, chainId }) => !isSuspect && chainId === ours);
    const answering = trusted.filter((upstream) => upstream === speaker || upstream.health === 'usable');
    this.#source = freshest(answering) ?? freshest(trusted);
    this.#info = this.#source?.window.info;
  }

  /** Takes a new head when the other nodes can live with it. */
  #consider(upstream: Upstream, info: LedgerInfo, nowMs: number): void {
    const isSuspect = !this.#isCredible(upstream, info);
    if (isSuspect && !upstream.isSuspect) this.#parts.events.onSuspect(upstream, info.version, false);
    upstream.isSuspect = isSuspect;
    if (isSuspect) return;
    const before = this.#info;
    const isYounger = before !== undefined && info.timestampUsec < before.timestampUsec;
    this.#info = isYounger ? { ...info, timestampUsec: before.timestampUsec } : info;
    this.#source = upstream;
    // What it was sent before it was taken out, it still answers, and no answer may be newer than its headers.
    if (upstream.isRemoved) this.#orphan(nowMs);
    // The first head was held against nobody: the next node that speaks may contradict it.
    if (before !== undefined) this.#reviewedAtMs = nowMs;
  }

  /**
   * A head that was believed while too few nodes were known to contradict it is looked at again when others speak: to
   * stay with it would stall every read of "latest", so this is the one case in which the head goes back.
   */
  #review(speaker: Upstream, nowMs: number): void {
    speaker.isSuspect = false;
    const source = this.#source;
    const head = this.#info;
    if (source === undefined) return this.#reviewOrphan(speaker, nowMs);
    if (head === undefined || source === speaker) return;
    if (nowMs - this.#reviewedAtMs < reviewMs || this.#isCredible(source, head)) return;
    this.#reviewedAtMs = nowMs;
    source.isSuspect = true;
    this.#parts.events.onSuspect(source, head.version, true);
    this.startOver();
  }

  /** The node that told the head is gone: any other that has got there vouches for it. */
  #orphan(nowMs: number): void {
    const head = this.#info?.version ?? 0n;
    const upstreams = this.#parts.upstreams();
    const trusted = upstreams.filter((upstream) => upstream.health === 'usable' && !upstream.isSuspect);
    this.#source = trusted.find((upstream) => headOf(upstream) >= head);
    if (this.#source === undefined) this.#orphanedAtMs = nowMs;
  }

  /**
   * A head whose source is gone is dropped when the others contradict it, or when none of them has got there in the time
   * that a node may be behind: nodes are also taken out because they lie, and a little too far is soon told.
   */
  #reviewOrphan(speaker: Upstream, nowMs: number): void {
    const head = this.#info;
    if (head === undefined || speaker.isRemoved) return;
    if (headOf(speaker) >= head.version) {
      this.#source = speaker;
      return;
    }
    const isOverdue = nowMs - this.#orphanedAtMs > this.#parts.maxLagMs();
    if (!isOverdue && (nowMs - this.#reviewedAtMs < reviewMs || this.#isCredible(undefined, head))) return;
    this.#reviewedAtMs = nowMs;
    this.startOver(speaker);
    this.#parts.events.onRollback(speaker, head.version, this.#info?.version ?? head.version);
  }

  /**
   * A node that was restored, or made anew, tells an older ledger for good. While another node confirms the head it is
   * only behind; otherwise the ledger itself has gone back, and to stay with the old head would stall every read.
   */
  #followBack(upstream: Upstream, info: LedgerInfo): void {
    const head = this.#info;
    if (head === undefined || info.version >= head.version) return;
    this.#goneBack.add(upstream);
    if (this.#parts.upstreams().some((other) => this.#confirms(other, head))) return;
    this.startOver(upstream);
    this.#parts.events.onRollback(upstream, head.version, this.#info?.version ?? info.version);
  }

  #confirms(upstream: Upstream, head: LedgerInfo): boolean {
    if (upstream.health !== 'usable' || upstream.isSuspect || this.#goneBack.has(upstream)) return false;
    return (upstream.window.info?.version ?? 0n) + nearVersions >= head.version;
  }

  /** `upstream`: who says so, where it is a node of the fleet. */
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
