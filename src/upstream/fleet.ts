/**
 * All nodes together: what ledger they are on, how far it goes, and what the gateway may say of it.
 *
 * The fleet's head is the newest snapshot that a node of the fleet's chain has told and that the others do not
 * contradict. It goes back only when it turns out to be a lie, or when the ledger itself went back (nodes restored, a
 * test network made anew); then a new generation begins and nothing of the old one is used. The fleet's oldest version is the deepest node's, because that is what the fleet can serve (protocol 7).
 */
import { ledgerHeaderList, type Dialect, type LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import { isCredible } from './credible-head.ts';
import type { ReadClass } from './read-class.ts';
import { canBeAsked, Outage } from './outage.ts';
import type { Unit } from './retention-window.ts';
import { headToleranceMs, type Candidate } from './select.ts';
import type { Shown } from './shown.ts';
import type { Upstream } from './upstream.ts';
import { VersionWaiters } from './version-waiters.ts';

/** What the fleet calls out when its view changes, once per change. */
export interface FleetEvents {
  onForeign(upstream: Upstream, chainId: number, fleetChainId: number): void;
  /** A node tells a head that the others contradict; `retracted` when it had been believed before. */
  onSuspect(upstream: Upstream, head: LedgerVersion, retracted: boolean): void;
  /** From now on nothing that was read before may be used. */
  onGeneration(): void;
  /** A node's ledger has gone back, and no other holds on to the head: it is now `after`. */
  onRollback(upstream: Upstream, before: LedgerVersion, after: LedgerVersion): void;
  /** A node refused a version as pruned, whatever its headers said. */
  onRefused(upstream: Upstream, version: LedgerVersion): void;
  /** Somebody waits for a version and nobody did before: news of heads is wanted for as long as `isAwaited`. */
  onAwaited(): void;
  /** The last node that could be asked is gone (`isOn`), or one is back. */
  onOutage(isOn: boolean): void;
}

/** One node as a process of the gateway knows it. */
export interface NodeReport {
  readonly name: string;
  readonly isSuspect: boolean;
  readonly info: LedgerInfo | undefined;
}

export interface FleetOptions {
  /** Where several processes agree on what answers tell of the ledger. */
  readonly shown?: Shown | undefined;
  /** Read whenever it matters, so it may change. */
  readonly limits?: FleetLimits;
}

export interface FleetLimits {
  /** A node whose ledger is farther behind serves only what it holds. Default 30,000. */
  readonly maxLagMs: number;
}

const usualLimits: FleetLimits = { maxLagMs: 30_000 };

/** A believed head is held against what other nodes say at most this often. */
const reviewMs = 250;
/** A node this close below the head confirms it: heads differ by blocks in flight and by probes in between. */
const nearVersions = 10_000n;

export class Fleet {
  #upstreams: readonly Upstream[];
  readonly dialect: Dialect;
  readonly #events: FleetEvents;
  readonly #waiters = new VersionWaiters();
  readonly #outage = new Outage();
  #chainId: number | undefined;
  #isSettled = false;
  #head: LedgerInfo | undefined;
  /** The node that told the head; `undefined` when that is no node of the fleet any more. */
  #headSource: Upstream | undefined;
  /** Since when the head is the word of a node that was taken out. */
  #orphanedAtMs = -Infinity;
  #reviewedAtMs = -Infinity;
  /** Nodes whose ledger has gone back from the present head. */
  readonly #goneBack = new Set<Upstream>();
  #generation = 0;
  #headerList: readonly string[] | undefined;
  readonly #shown: Shown | undefined;
  readonly #limits: FleetLimits;

  constructor(
    upstreams: readonly Upstream[],
    dialect: Dialect,
    events: FleetEvents,
    { shown, limits = usualLimits }: FleetOptions = {},
  ) {
    this.#shown = shown;
    this.#limits = limits;
    this.#upstreams = upstreams;
    this.dialect = dialect;
    this.#events = events;
  }

  get upstreams(): readonly Upstream[] {
    return this.#upstreams;
  }

  /**
   * From now on the fleet is these nodes: new ones, and those of before, of which what is known stays. Nothing rests on
   * the word of a node that is gone any more: the vote on the chain is held anew, and the head it told is believed only
   * for as long as the others can live with it.
   */
  replace(upstreams: readonly Upstream[], nowMs: number): void {
    const gone = this.#upstreams.filter((upstream) => !upstreams.includes(upstream));
    // A fleet whose nodes have yet to answer goes on with the chain it is on.
    this.settle();
    this.#upstreams = upstreams;
    for (const upstream of gone) {
      upstream.isRemoved = true;
      this.#goneBack.delete(upstream);
      this.#outage.forget(upstream);
      if (upstream === this.#headSource) this.#orphanHead(nowMs);
    }
    this.#agreeOnChain();
    this.refresh();
  }

  /** The chain id that most of the fleet tells, or `undefined` before the first answer. */
  get chainId(): number | undefined {
    return this.#chainId;
  }

  /**
   * Goes up when what is known of the ledger must be forgotten: it went back, or the fleet is on another chain. The same
   * version may have another state then.
   */
  get generation(): number {
    return this.#generation;
  }

  /** The newest snapshot of the ledger; never goes backward within a generation. */
  get head(): LedgerInfo | undefined {
    return this.#head;
  }

  /** The oldest version that some node can serve, from that node's own snapshot. */
  get oldest(): LedgerInfo | undefined {
    return this.#outage
      .speakers(this.#upstreams)
      .map((upstream) => upstream.window.info)
      .reduce<LedgerInfo | undefined>(
        (deepest, info) =>
          info !== undefined && (deepest === undefined || info.oldestVersion < deepest.oldestVersion) ? info : deepest,
        undefined,
      );
  }

  /** Whether a node is known that can be asked. */
  get isReady(): boolean {
    return this.#upstreams.some((upstream) => canBeAsked(upstream));
  }

  /** When the last node that could be asked was gone, in ms since the epoch; `undefined` otherwise. */
  get outageSinceMs(): number | undefined {
    return this.#outage.sinceMs;
  }

  /** The seven ledger headers for an answer given now, flat; empty before the first node has answered. */
  ledgerHeaders(): readonly string[] {
    if (this.#headerList === undefined) {
      const [head, oldest] = [this.#shown === undefined ? this.#head : this.#shown.head, this.oldest];
      if (head === undefined) return [];
      const deepest = oldest ?? head;
      this.#headerList = ledgerHeaderList(
        { ...head, oldestVersion: deepest.oldestVersion, oldestBlockHeight: deepest.oldestBlockHeight },
        this.dialect,
      );
    }
    return this.#headerList;
  }

  /**
   * An answer of this version is about to be given: to be waited for, so that its headers are not behind it.
   * `undefined`: they are not. A version that no believed node has told is no reason to wait.
   */
  show(version: LedgerVersion): Promise<void> | undefined {
    const told = this.#shown?.head?.version ?? -1n;
    if (this.#shown === undefined || version <= told || version > (this.#head?.version ?? -1n)) return undefined;
    return this.#shown.raiseHead();
  }

  /** The node that told the head. */
  get headSource(): Upstream | undefined {
    return this.#headSource;
  }

  /** What is known of each node, for another process that is to begin a generation with it. */
  reports(): readonly NodeReport[] {
    return this.#upstreams.map(({ name, isSuspect, window }) => ({ name, isSuspect, info: window.info }));
  }

  /** Another process of this gateway has begun a generation, for what it knows of the nodes. */
  follow(reports: readonly NodeReport[], nowMs: number): void {
    for (const { name, info, isSuspect } of reports) {
      const upstream = this.#upstreams.find((known) => known.name === name);
      if (upstream === undefined || info === undefined) continue;
      upstream.isSuspect = isSuspect;
      upstream.adopt(info, nowMs);
    }
    this.#agreeOnChain();
    this.#startOver();
    this.refresh();
  }

  /** Takes the ledger headers of a node's answer. Returns whether the node is of this fleet's chain. */
  observe(upstream: Upstream, info: LedgerInfo, nowMs: number): boolean {
    const isNews = upstream.chainId !== info.chainId;
    const hasGoneBack = upstream.observe(info, nowMs);
    if (isNews) this.#agreeOnChain();
    this.#headerList = undefined;
    if (info.chainId !== this.#chainId) return false;
    if (hasGoneBack && !upstream.isRemoved) this.#followBack(upstream, info);
    else if (info.version >= (this.#head?.version ?? 0n)) this.#goneBack.delete(upstream);
    if (this.#head === undefined || info.version > this.#head.version) this.#considerHead(upstream, info, nowMs);
    else this.#reviewHead(upstream, nowMs);
    if (!upstream.isSuspect) this.#waiters.wake(info.version);
    upstream.lagMs = Number((this.#head?.timestampUsec ?? 0n) - info.timestampUsec) / 1000;
    return true;
  }

  /** A node refused `version` as pruned: to be learned, and told. */
  recordRefusal(upstream: Upstream, version: LedgerVersion, nowMs: number): void {
    upstream.window.observeRefusal(version, nowMs);
    this.#events.onRefused(upstream, version);
  }

  /** Another gateway says that the node with this fingerprint refused `version`. */
  hearRefusal(fingerprint: string, version: LedgerVersion, nowMs: number): void {
    for (const upstream of this.#upstreams) {
      if (upstream.fingerprint === fingerprint) upstream.window.observeRefusal(version, nowMs);
    }
  }

  /** To be called when a node's health changes: what the fleet can serve changes with it. */
  refresh(): void {
    this.#headerList = undefined;
    const change = this.#outage.update(this.#upstreams, Date.now());
    if (change !== undefined) this.#events.onOutage(change === 'begins');
  }

  /** Every node as selection wants to see it for a read of `readClass`, its window in `unit`. */
  candidates(
    nowMs: number,
    unit: Unit = 'versions',
    readClass?: ReadClass,
  ): (Candidate & { readonly upstream: Upstream })[] {
    return this.#upstreams.map((upstream) => {
      const latencyMs = upstream.latencyMs(nowMs);
      return {
        upstream,
        name: upstream.name,
        tier: upstream.tier,
        health: upstream.health,
        window: upstream.window.at(nowMs + latencyMs, unit),
        cost: latencyMs * (upstream.inFlight + 1),
        isSuspect: upstream.isSuspect,
        isEjected: readClass !== undefined && upstream.ejections[readClass].isOut,
        isLagging: upstream.lagMs > this.#limits.maxLagMs,
        headTolerance: upstream.window.headSpeed * headToleranceMs,
      };
    });
  }

  /** Resolves when a usable node has reached `version`, after `timeoutMs`, or on abort: true if one has. */
  async waitForVersion(version: LedgerVersion, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    const reached = () =>
      this.#upstreams.some(
        ({ health, isSuspect, window }) =>
          health === 'usable' && !isSuspect && (window.info?.version ?? -1n) >= version,
      );
    if (reached() || timeoutMs <= 0 || signal.aborted || this.#waiters.isFull) return reached();
    if (!this.isAwaited) this.#events.onAwaited();
    await this.#waiters.wait(version, timeoutMs, signal);
    return reached();
  }

  /** Whether anybody waits for a version. */
  get isAwaited(): boolean {
    return !this.#waiters.isEmpty;
  }

  /** Takes a new head when the other nodes can live with it. */
  #considerHead(upstream: Upstream, info: LedgerInfo, nowMs: number): void {
    const isSuspect = !this.#isCredible(upstream, info);
    if (isSuspect && !upstream.isSuspect) this.#events.onSuspect(upstream, info.version, false);
    upstream.isSuspect = isSuspect;
    if (isSuspect) return;
    const before = this.#head;
    const isYounger = before !== undefined && info.timestampUsec < before.timestampUsec;
    this.#head = isYounger ? { ...info, timestampUsec: before.timestampUsec } : info;
    this.#headSource = upstream;
    // What it was sent before it was taken out, it still answers, and no answer may be newer than its headers.
    if (upstream.isRemoved) this.#orphanHead(nowMs);
    // The first head was held against nobody: the next node that speaks may contradict it.
    if (before !== undefined) this.#reviewedAtMs = nowMs;
  }

  /**
   * A head that was believed while too few nodes were known to contradict it is looked at again when others speak: to
   * stay with it would stall every read of "latest", so this is the one case in which the head goes back.
   */
  #reviewHead(speaker: Upstream, nowMs: number): void {
    speaker.isSuspect = false;
    const source = this.#headSource;
    const head = this.#head;
    if (source === undefined) return this.#reviewOrphan(speaker, nowMs);
    if (head === undefined || source === speaker) return;
    if (nowMs - this.#reviewedAtMs < reviewMs || this.#isCredible(source, head)) return;
    this.#reviewedAtMs = nowMs;
    source.isSuspect = true;
    this.#events.onSuspect(source, head.version, true);
    this.#startOver();
  }

  /** The node that told the head is gone: any other that has got there vouches for it. */
  #orphanHead(nowMs: number): void {
    const head = this.#head?.version ?? 0n;
    const trusted = this.#upstreams.filter((upstream) => upstream.health === 'usable' && !upstream.isSuspect);
    this.#headSource = trusted.find((upstream) => headOf(upstream) >= head);
    if (this.#headSource === undefined) this.#orphanedAtMs = nowMs;
  }

  /**
   * A head whose source is gone is dropped when the others contradict it, or when none of them has got there in the time
   * that a node may be behind: nodes are also taken out because they lie, and a little too far is soon told.
   */
  #reviewOrphan(speaker: Upstream, nowMs: number): void {
    const head = this.#head;
    if (head === undefined || speaker.isRemoved) return;
    if (headOf(speaker) >= head.version) {
      this.#headSource = speaker;
      return;
    }
    const isOverdue = nowMs - this.#orphanedAtMs > this.#limits.maxLagMs;
    if (!isOverdue && (nowMs - this.#reviewedAtMs < reviewMs || this.#isCredible(undefined, head))) return;
    this.#reviewedAtMs = nowMs;
    this.#startOver(speaker);
    this.#events.onRollback(speaker, head.version, this.#head?.version ?? head.version);
  }

  /**
   * A node that was restored, or made anew, tells an older ledger for good. While another node confirms the head it is
   * only behind; otherwise the ledger itself has gone back, and to stay with the old head would stall every read.
   */
  #followBack(upstream: Upstream, info: LedgerInfo): void {
    const head = this.#head;
    if (head === undefined || info.version >= head.version) return;
    this.#goneBack.add(upstream);
    if (this.#upstreams.some((other) => this.#confirms(other, head))) return;
    this.#startOver(upstream);
    this.#events.onRollback(upstream, head.version, this.#head?.version ?? info.version);
  }

  #confirms(upstream: Upstream, head: LedgerInfo): boolean {
    if (upstream.health !== 'usable' || upstream.isSuspect || this.#goneBack.has(upstream)) return false;
    return (upstream.window.info?.version ?? 0n) + nearVersions >= head.version;
  }

  /**
   * Begins a generation: the head is what nodes tell now that answer, `speaker` among them, and nothing that was told
   * before.
   */
  #startOver(speaker?: Upstream): void {
    this.#generation += 1;
    this.#events.onGeneration();
    this.#reviewedAtMs = -Infinity;
    this.#goneBack.clear();
    const trusted = this.#upstreams.filter(({ isSuspect, chainId }) => !isSuspect && chainId === this.#chainId);
    const answering = trusted.filter((upstream) => upstream === speaker || upstream.health === 'usable');
    this.#headSource = freshest(answering) ?? freshest(trusted);
    this.#head = this.#headSource?.window.info;
  }

  /** `upstream`: who says so, where it is a node of the fleet. */
  #isCredible(upstream: Upstream | undefined, claim: LedgerInfo): boolean {
    const others = this.#upstreams.filter((other) => other !== upstream && other.health === 'usable');
    const reports = others.map((other) => other.window.info).filter((info) => info !== undefined);
    return isCredible(claim, reports, BigInt(Date.now()) * 1000n);
  }

  /** Ends the start: from now on a tie between chain ids changes nothing any more. */
  settle(): void {
    this.#isSettled = this.#chainId !== undefined;
  }

  /**
   * The chain id of most nodes that have told one. Of equals it is the one told by the node configured first, and
   * after the start the one agreed on before: a single node that changes its mind must not turn the fleet round.
   */
  #agreeOnChain(): void {
    const votes = new Map<number, number>();
    for (const { chainId } of this.#upstreams) {
      if (chainId !== undefined) votes.set(chainId, (votes.get(chainId) ?? 0) + 1);
    }
    let agreed = this.#isSettled ? this.#chainId : undefined;
    for (const [chainId, count] of votes) {
      if (agreed === undefined || count > (votes.get(agreed) ?? 0)) agreed = chainId;
    }
    const isAnother = this.#chainId !== undefined && agreed !== this.#chainId;
    this.#chainId = agreed;
    for (const upstream of this.#upstreams) {
      const isForeign = upstream.chainId !== undefined && upstream.chainId !== agreed;
      if (isForeign && upstream.health !== 'foreign') {
        this.#events.onForeign(upstream, upstream.chainId ?? 0, agreed ?? 0);
      }
      upstream.markForeign(isForeign);
    }
    if (isAnother) this.#startOver();
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
