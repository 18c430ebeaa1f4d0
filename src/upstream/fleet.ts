/**
 * All nodes together: what ledger they are on, how far it goes, and what the gateway may say of it. The fleet's oldest
 * version is the deepest node's, because that is what the fleet can serve (protocol 7).
 */
import { ledgerHeaderList, type Dialect, type LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { StopSignal } from '../ledger/stop.ts';
import { BelievedHead, type HeadEvents } from './believed-head.ts';
import { electChain } from './ledger-identity.ts';
import type { ReadClass } from './read-class.ts';
import { canBeAsked, Outage } from './outage.ts';
import type { Unit } from './retention-window.ts';
import { headToleranceMs, type Candidate } from './ranking.ts';
import type { Upstream } from './upstream.ts';
import { VersionWaiters } from './version-waiters.ts';

/** What the fleet calls out when its view changes, once per change. */
export interface FleetEvents extends HeadEvents {
  onForeign(upstream: Upstream, chainId: number, fleetChainId: number): void;
  /**
   * An answer reports another chain (`upstream.chain.doubted`), or a ledger that went back: a fresh look at the node's
   * ledger info has to confirm it. Called for each such answer.
   */
  onDoubt(upstream: Upstream): void;
  /** A node refused a version as pruned, whatever its headers said. */
  onRefused(upstream: Upstream, version: LedgerVersion): void;
  /** Nodes deny the history that they told before at `version`. */
  onReplaced(version: LedgerVersion, head: LedgerVersion | undefined): void;
  /** Somebody waits for a version and nobody did before: news of heads is wanted for as long as `isAwaited`. */
  onAwaited(): void;
  /** The last node that could be asked is gone (`isOn`), or one is back. */
  onOutage(isOn: boolean): void;
}

/** The state of one node in a worker. */
export interface NodeReport {
  readonly name: string;
  readonly isSuspect: boolean;
  readonly info: LedgerInfo | undefined;
}

export interface FleetOptions {
  /** Answers carry this head from now on; called ahead of the first of them, with the name of the node if it is one. */
  readonly onHead?: ((head: LedgerInfo, upstream: string) => void) | undefined;
  /** Read whenever it matters, so it may change. */
  readonly limits?: FleetLimits;
  /** The chain that the config names: nodes of any other are never asked. Default: the chain of most nodes. */
  readonly chainId?: number | undefined;
}

export interface FleetLimits {
  /** A node whose ledger is farther behind serves only what it holds. Default 30,000. */
  readonly maxLagMs: number;
}

/** Headers, and what they tell. */
interface KnownHeaders {
  readonly head: LedgerInfo;
  readonly oldestVersion: bigint;
  readonly oldestBlockHeight: bigint;
  readonly list: readonly string[];
}

const usualLimits: FleetLimits = { maxLagMs: 30_000 };

export class Fleet {
  #upstreams: readonly Upstream[];
  readonly dialect: Dialect;
  readonly #events: FleetEvents;
  readonly #waiters = new VersionWaiters();
  readonly #outage = new Outage();
  #chainId: number | undefined;
  /** The first reports of nodes come in: each counts at once. */
  #isStarting = true;
  readonly #fixedChainId: number | undefined;
  readonly #head: BelievedHead;
  #headers: KnownHeaders | undefined;
  /** An answer has come since: what they are made of may be another. */
  #areHeadersDoubted = true;
  readonly #onHead: FleetOptions['onHead'];
  readonly #limits: FleetLimits;

  constructor(
    upstreams: readonly Upstream[],
    dialect: Dialect,
    events: FleetEvents,
    { onHead, limits = usualLimits, chainId }: FleetOptions = {},
  ) {
    this.#fixedChainId = chainId;
    this.#chainId = chainId;
    this.#onHead = onHead;
    this.#limits = limits;
    this.#upstreams = upstreams;
    this.dialect = dialect;
    this.#events = events;
    this.#head = new BelievedHead({
      upstreams: () => this.#upstreams,
      chainId: () => this.#chainId,
      maxLagMs: () => this.#limits.maxLagMs,
      events,
    });
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
      this.#outage.forget(upstream);
      this.#head.forget(upstream, nowMs);
    }
    this.#agreeOnChain();
    this.refresh();
  }

  /** The chain of the config or else of most nodes; `undefined` before the first answer. */
  get chainId(): number | undefined {
    return this.#chainId;
  }

  /**
   * Goes up when what is known of the ledger must be forgotten: it went back, or the fleet is on another chain. The same
   * version may have another state then.
   */
  get generation(): number {
    return this.#head.generation;
  }

  /** The newest snapshot of the ledger; never goes backward within a generation. */
  get head(): LedgerInfo | undefined {
    return this.#head.info;
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
    const known = this.#headers;
    if (known !== undefined && !this.#areHeadersDoubted) return known.list;
    const { head, oldest } = this;
    if (head === undefined) return [];
    this.#areHeadersDoubted = false;
    const { oldestVersion, oldestBlockHeight } = oldest ?? head;
    const isSame = known?.oldestVersion === oldestVersion && known.oldestBlockHeight === oldestBlockHeight;
    // Most answers tell what the last one told: the same list again, also for those who keep what they made of it.
    if (isSame && known.head === head) return known.list;
    const list = ledgerHeaderList({ ...head, oldestVersion, oldestBlockHeight }, this.dialect);
    if (known?.head !== head) this.#onHead?.(head, this.headSource?.name ?? '');
    this.#headers = { head, oldestVersion, oldestBlockHeight, list };
    return list;
  }

  /** The node that told the head. */
  get headSource(): Upstream | undefined {
    return this.#head.source;
  }

  /** The state of each node, for another worker that begins a generation with it. */
  reports(): readonly NodeReport[] {
    return this.#upstreams.map(({ name, isSuspect, window }) => ({ name, isSuspect, info: window.info }));
  }

  /** Another worker has begun a generation, for these states of the nodes. */
  follow(reports: readonly NodeReport[], nowMs: number): void {
    for (const { name, info, isSuspect } of reports) {
      const upstream = this.#upstreams.find((known) => known.name === name);
      if (upstream === undefined || info === undefined) continue;
      upstream.isSuspect = isSuspect;
      upstream.adopt(info, nowMs);
    }
    this.#agreeOnChain();
    this.#head.startOver();
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
    const isItsChain = this.#isStarting
      ? upstream.chain.settle(chainId)
      : upstream.chain.observe({ chainId, fleetChainId: this.#chainId, nowMs, lookSentAtMs });
    const hasGoneBack = isItsChain && window.observe(info, nowMs, lookSentAtMs !== undefined);
    if (isItsChain ? before !== chainId : before === undefined) this.#agreeOnChain();
    if (!isItsChain || window.maySeemRestored(nowMs)) this.#events.onDoubt(upstream);
    this.#areHeadersDoubted = true;
    if (!isItsChain || chainId !== this.#chainId) return false;
    this.#head.hear(upstream, info, hasGoneBack, nowMs);
    // Many wait for what this node does not give them, and it answers thousands of times a second.
    const isNews = wasSuspect || window.info !== known;
    if (isNews && !upstream.isSuspect) this.#waiters.wake(info.version);
    upstream.lagMs = Number((this.head?.timestampUsec ?? 0n) - info.timestampUsec) / 1000;
    return true;
  }

  /** Whether answers that report this ledger are of the fleet's chain, and of the one that the node stands for. */
  isOurs({ chainId: itsChainId }: Upstream, { chainId }: LedgerInfo): boolean {
    return chainId === this.#chainId && chainId === itsChainId;
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

  /** Nodes tell another history at `version` than before: a generation begins, as after a rollback. */
  replaceHistory(version: LedgerVersion): void {
    this.#head.startOver();
    this.refresh();
    this.#events.onReplaced(version, this.head?.version);
  }

  /** To be called when a node's health changes: what the fleet can serve changes with it. */
  refresh(): void {
    this.#areHeadersDoubted = true;
    const change = this.#outage.update(this.#upstreams, Date.now());
    if (change !== undefined) this.#events.onOutage(change === 'begins');
    // A node that is usable again may have what is waited for.
    if (this.head !== undefined) this.#waiters.wake(this.head.version);
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
    signal: StopSignal,
    isFit: (upstream: Upstream) => boolean = () => true,
  ): Promise<boolean> {
    const reached = () =>
      this.#upstreams.some(
        (upstream) =>
          upstream.health === 'usable' &&
          !upstream.isSuspect &&
          (upstream.window.info?.version ?? -1n) >= version &&
          isFit(upstream),
      );
    if (reached() || timeoutMs <= 0 || signal.aborted || this.#waiters.isFull) return reached();
    if (!this.isAwaited) this.#events.onAwaited();
    await this.#waiters.wait({ version, isReached: reached }, timeoutMs, signal);
    return reached();
  }

  /** Whether anybody waits for a version. */
  get isAwaited(): boolean {
    return !this.#waiters.isEmpty;
  }

  /** Ends the start: from now on a tie between chain ids changes nothing, and another chain takes a look to confirm. */
  settle(): void {
    this.#isStarting = false;
  }

  /** Holds the vote on the chain anew. */
  #agreeOnChain(): void {
    const told = this.#upstreams.map(({ chainId }) => chainId);
    const agreed = this.#fixedChainId ?? electChain(told, this.#isStarting ? undefined : this.#chainId);
    const isAnother = this.#chainId !== undefined && agreed !== this.#chainId;
    this.#chainId = agreed;
    for (const upstream of this.#upstreams) {
      // One that has only reported another chain is not asked until that is settled.
      const chainId = upstream.chainId ?? upstream.chain.doubted;
      const isForeign = chainId !== undefined && chainId !== agreed;
      if (isForeign && upstream.health !== 'foreign') this.#events.onForeign(upstream, chainId, agreed ?? 0);
      upstream.markForeign(isForeign);
    }
    if (isAnother) this.#head.startOver();
  }
}
