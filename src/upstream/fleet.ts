/**
 * All nodes together: which there are, which ledger their answers report, and what the gateway reports of it. The
 * fleet's oldest version is the deepest node's, because that is what the fleet can serve (protocol 7).
 */
import type { Dialect, LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { CancelSignal } from '../ledger/stop.ts';
import { FleetLedger, type LedgerEvents } from './fleet-ledger.ts';
import { viewOf, type FleetView } from './fleet-view.ts';
import type { ReadClass } from './select/need.ts';
import type { Unit } from './node/retention-window.ts';
import { headToleranceMs, type Candidate } from './select/ranking.ts';
import type { Upstream } from './node/upstream.ts';
import { VersionWaiters } from './version-waiters.ts';

/** Changes of the fleet, each reported once. */
export interface FleetEvents extends LedgerEvents {
  /**
   * An answer reports another chain (`upstream.chain.doubted`), or a ledger that went back: a fresh look at the node's
   * ledger info has to confirm it. Called for each such answer.
   */
  onDoubt(upstream: Upstream): void;
  /** A node refused a version as pruned, whatever its headers report. */
  onRefused(upstream: Upstream, version: LedgerVersion): void;
  /** The first request waits for a version: news of heads is wanted for as long as `isAwaited`. */
  onAwaited(): void;
}

/** One node as a process of the gateway sees it. */
export interface NodeReport {
  readonly name: string;
  readonly isSuspect: boolean;
  readonly info: LedgerInfo | undefined;
}

export interface FleetSettings {
  /** Answers carry this head from now on. Called before the first of them, with the name of its node, if it has one. */
  readonly onHead?: ((head: LedgerInfo, upstream: string) => void) | undefined;
  /** Read at each use, so it may change. */
  readonly limits?: FleetLimits;
  /** The chain that the config names: nodes of any other are never asked. Default: the chain of most nodes. */
  readonly chainId?: number | undefined;
}

export interface FleetLimits {
  /** A node whose ledger is farther behind serves only what it holds. Default 30,000. */
  readonly maxLagMs: number;
}

const usualLimits: FleetLimits = { maxLagMs: 30_000 };
/** Nodes that fail together are found out one after another: within probe intervals and time-outs. */
const togetherMs = 30_000;

export class Fleet {
  #upstreams: readonly Upstream[];
  readonly dialect: Dialect;
  readonly #events: FleetEvents;
  readonly #limits: FleetLimits;
  readonly #onHead: FleetSettings['onHead'];
  readonly #waiters = new VersionWaiters();
  readonly #ledger: FleetLedger;
  #view: FleetView | undefined;
  /** A node has answered since, or its health has changed. */
  #isViewStale = true;
  /** A node could be asked at some time. */
  #wasReady = false;
  #outage: { readonly sinceMs: number; readonly atMs: number } | undefined;

  constructor(
    upstreams: readonly Upstream[],
    dialect: Dialect,
    events: FleetEvents,
    { onHead, limits = usualLimits, chainId: fixedChainId }: FleetSettings = {},
  ) {
    this.#upstreams = upstreams;
    this.dialect = dialect;
    this.#events = events;
    this.#limits = limits;
    this.#onHead = onHead;
    this.#ledger = new FleetLedger({
      upstreams: () => this.#upstreams,
      fixedChainId,
      maxLagMs: () => limits.maxLagMs,
      events,
    });
  }

  get upstreams(): readonly Upstream[] {
    return this.#upstreams;
  }

  /**
   * From now on the fleet is these nodes, new ones and old ones; the state of old ones stays. Nothing rests on a removed
   * node any more: the vote on the chain is held anew, and its head is believed only until the others contradict it.
   */
  replace(upstreams: readonly Upstream[], nowMs: number): void {
    const gone = this.#upstreams.filter((upstream) => !upstreams.includes(upstream));
    // A fleet whose nodes have yet to answer goes on with the chain it is on.
    this.#ledger.settle();
    this.#upstreams = upstreams;
    for (const upstream of gone) {
      upstream.isRemoved = true;
      this.#ledger.forget(upstream, nowMs);
    }
    this.#ledger.voteOnChain();
    this.refresh();
  }

  /** See `FleetLedger`. */
  get chainId(): number | undefined {
    return this.#ledger.chainId;
  }

  /** See `FleetLedger`. */
  get generation(): number {
    return this.#ledger.generation;
  }

  /** See `FleetLedger`. */
  get head(): LedgerInfo | undefined {
    return this.#ledger.head;
  }

  /** The node that reported the head. */
  get headSource(): Upstream | undefined {
    return this.#ledger.source;
  }

  /** The oldest version that some node can serve, from that node's own snapshot. In an outage: that could serve last. */
  get oldest(): LedgerInfo | undefined {
    let deepest: LedgerInfo | undefined;
    for (const { health, window } of this.#upstreams) {
      const couldServe = health !== 'foreign' && (this.#outage?.atMs ?? Infinity) - window.observedAtMs <= togetherMs;
      const { info } = window;
      if (info === undefined || !(health === 'usable' || couldServe)) continue;
      if (deepest === undefined || info.oldestVersion < deepest.oldestVersion) deepest = info;
    }
    return deepest;
  }

  /** Whether a node answers and has reported its ledger. */
  get isReady(): boolean {
    return this.#upstreams.some(({ health, window }) => health === 'usable' && window.info !== undefined);
  }

  /**
   * Start of an outage, in ms since the epoch: no node can be asked any more. All that is known by then is frozen: pinned
   * answers in memory are true for ever, and are given with the last ledger headers.
   */
  get outageSinceMs(): number | undefined {
    return this.#outage?.sinceMs;
  }

  /** The view for an answer given now. */
  get view(): FleetView {
    if (this.#view !== undefined && !this.#isViewStale) return this.#view;
    this.#isViewStale = false;
    const before = this.#view;
    const view = viewOf(this, before, this.dialect);
    this.#view = view;
    if (view.head !== undefined && view.head !== before?.head) this.#onHead?.(view.head, this.headSource?.name ?? '');
    return view;
  }

  /** The state of each node, for another process that begins a generation with it. */
  reports(): readonly NodeReport[] {
    return this.#upstreams.map(({ name, isSuspect, window }) => ({ name, isSuspect, info: window.info }));
  }

  /** Another process of this gateway has begun a generation: this one follows, with the same state of the nodes. */
  follow(reports: readonly NodeReport[], nowMs: number): void {
    for (const { name, info, isSuspect } of reports) {
      const upstream = this.#upstreams.find((known) => known.name === name);
      if (upstream === undefined || info === undefined) continue;
      upstream.isSuspect = isSuspect;
      upstream.adopt(info, nowMs);
    }
    this.#ledger.voteOnChain();
    this.#ledger.startOver();
    this.refresh();
  }

  /**
   * Takes the ledger headers of a node's answer. `lookSentAtMs`: the answer is to a look at the ledger info that was sent
   * then; only these turn the ledger over. Returns whether the answer is of this fleet's chain.
   */
  observe(upstream: Upstream, info: LedgerInfo, nowMs: number, lookSentAtMs?: number): boolean {
    const { chainId } = info;
    const before = upstream.chainId;
    const { isSuspect: wasSuspect, window } = upstream;
    const known = window.info;
    const isItsChain = this.#ledger.isStarting
      ? upstream.chain.settle(chainId)
      : upstream.chain.observe({ chainId, fleetChainId: this.chainId, nowMs, lookSentAtMs });
    const hasGoneBack = isItsChain && window.observe(info, nowMs, lookSentAtMs !== undefined);
    if (isItsChain ? before !== chainId : before === undefined) this.#ledger.voteOnChain();
    if (!isItsChain || window.maySeemRestored(nowMs)) this.#events.onDoubt(upstream);
    const isOurs = isItsChain && chainId === this.chainId;
    if (isOurs) this.#ledger.observe(upstream, info, hasGoneBack, nowMs);
    this.#isViewStale = true;
    if (!isOurs) return false;
    // A node answers thousands of times a second: an answer without news leaves the waiters alone.
    const isNews = wasSuspect || window.info !== known;
    if (isNews && !upstream.isSuspect) this.#waiters.wake(info.version);
    upstream.lagMs = Number((this.head?.timestampUsec ?? 0n) - info.timestampUsec) / 1000;
    return true;
  }

  /** Whether answers that report this ledger are of the fleet's chain, and of the one that the node stands for. */
  isOurs({ chainId: itsChainId }: Upstream, { chainId }: LedgerInfo): boolean {
    return chainId === this.chainId && chainId === itsChainId;
  }

  /** A node refused `version` as pruned: its window records it, and other gateways learn it. */
  recordRefusal(upstream: Upstream, version: LedgerVersion, nowMs: number): void {
    upstream.window.observeRefusal(version, nowMs);
    this.#events.onRefused(upstream, version);
  }

  /** Another gateway reports that the node with this fingerprint refused `version`. */
  onPeerRefusal(fingerprint: string, version: LedgerVersion, nowMs: number): void {
    for (const upstream of this.#upstreams) {
      if (upstream.fingerprint === fingerprint) upstream.window.observeRefusal(version, nowMs);
    }
  }

  /** Nodes report another history at `version` than before: a generation begins, as after a rollback. */
  replaceHistory(version: LedgerVersion): void {
    this.#ledger.startOver();
    this.refresh();
    const message = 'nodes report another history of the ledger than before: what was cached of it is dropped';
    this.#events.onChange('history replaced', { version, head: this.head?.version }, message);
  }

  /** To be called when a node's health changes: what the fleet can serve changes with it. */
  refresh(): void {
    this.#isViewStale = true;
    this.#wasReady ||= this.isReady;
    const isOut = this.#wasReady && !this.isReady;
    if (isOut !== (this.#outage !== undefined)) {
      this.#outage = isOut ? { sinceMs: Date.now(), atMs: performance.now() } : undefined;
      const message = isOut
        ? 'no node answers any more: pinned answers that are held are given, nothing else'
        : 'a node answers again';
      this.#events.onChange(isOut ? 'outage' : 'outage over', { head: this.head?.version }, message);
    }
    // A node that is usable again may have reached an awaited version.
    if (this.head !== undefined) this.#waiters.wake(this.head.version);
  }

  /** Every node as selection sees it for a read of `readClass`, its window in `unit`. */
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
        window: upstream.window.around(nowMs + latencyMs, unit),
        cost: latencyMs * (upstream.inFlight + 1),
        isSuspect: upstream.isSuspect,
        isEjected: readClass !== undefined && upstream.ejections[readClass].isOut,
        isDeferred: upstream.deferral.isOn(nowMs),
        isLagging: upstream.lagMs > this.#limits.maxLagMs,
        headTolerance: upstream.window.headSpeed * headToleranceMs,
      };
    });
  }

  /**
   * Resolves when a usable node has reached `version`, after `timeoutMs`, or on abort: true if one has. `isFit`: whether
   * a node counts. Default: each does.
   */
  async waitForVersion(
    version: LedgerVersion,
    timeoutMs: number,
    signal: CancelSignal,
    isFit: (upstream: Upstream) => boolean = () => true,
  ): Promise<boolean> {
    const hasReached = ({ health, isSuspect, window }: Upstream): boolean =>
      health === 'usable' && !isSuspect && (window.info?.version ?? -1n) >= version;
    const isReached = (): boolean => this.#upstreams.some((upstream) => hasReached(upstream) && isFit(upstream));
    if (isReached() || timeoutMs <= 0 || signal.aborted || this.#waiters.isFull) return isReached();
    if (!this.isAwaited) this.#events.onAwaited();
    await this.#waiters.wait(version, isReached, timeoutMs, signal);
    return isReached();
  }

  /** Whether a request waits for a version. */
  get isAwaited(): boolean {
    return !this.#waiters.isEmpty;
  }

  /** Ends the start: see `FleetLedger`. */
  settle(): void {
    this.#ledger.settle();
  }
}
