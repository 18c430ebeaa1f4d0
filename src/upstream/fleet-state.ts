/**
 * All nodes together, the ledger that their answers report, the view of it that clients get, and the waits for versions.
 * The fleet's oldest version is the deepest node's, because the fleet can serve it (protocol 7).
 */
import { type CancelSignal, Dialect, type LedgerInfo, type LedgerVersion, settlesWithin } from '../ledger/index.ts';
import { elect, nearest } from './contradictions.ts';
import { waitWithin } from './deadline.ts';
import type { AnswerHead } from './dispatch/exchange.ts';
import { FleetLedger, type LedgerEvents } from './fleet-ledger.ts';
import { LedgerWideHeaders } from './ledger-wide-headers.ts';
import { dialectOfLook } from './node/node-fault.ts';
import type { Upstream } from './node/upstream.ts';

/** Changes of the fleet, each reported once. */
export interface FleetEvents extends LedgerEvents {
  /**
   * An answer reports another chain (`upstream.chain.doubted`), an older ledger, or headers that a look at the node's
   * ledger info has to decide about. Called for each such answer.
   */
  onUnconfirmed(upstream: Upstream): void;
  /** A node refused a version as pruned, whatever its headers report. */
  onRefused(upstream: Upstream, version: LedgerVersion): void;
  /** Answers carry this head from now on. Called before the first of them; `upstream`: its node, '' once removed. */
  onHead(head: LedgerInfo, upstream: string): void;
  /** Two nodes have reached this version now, or the only one that can: answers up to it may be final. */
  onConfirmed(version: LedgerVersion): void;
  /** The first request waits for a version: heads are polled for as long as `isAwaited`. */
  onAwaited(): void;
}

/** The ledger of one node. */
export interface LedgerReport {
  readonly name: string;
  readonly isSuspect: boolean;
  readonly info: LedgerInfo | undefined;
}

/** The facts that an answer from memory needs. */
interface FleetView {
  readonly generation: number;
  readonly chainId: number | undefined;
  /** The newest believed snapshot. */
  readonly head: LedgerInfo | undefined;
  /** The snapshot of the node that serves the oldest version. */
  readonly oldest: LedgerInfo | undefined;
  readonly outageSinceMs: number | undefined;
  /** No outage: answers carry no header about one. */
  readonly isPlain: boolean;
  /** Name and value of the live key of the epoch, or nothing. */
  readonly ledgerWide: readonly string[];
  /** Lower-case names of all headers that were on a ledger info at some time: no stored answer repeats them. */
  readonly ledgerWideNames: ReadonlySet<string>;
  /** The seven ledger headers and `ledgerWide`, names and values in turn; empty before the first answer of a node. */
  readonly headers: readonly string[];
}

interface VersionWaiter {
  readonly version: LedgerVersion;
  readonly isReached: () => boolean;
  readonly wake: () => void;
}

type Look = Pick<AnswerHead, 'status' | 'headers'>;

/** Without a config: nodes farther behind than this, in ms of ledger time, serve only versions that they hold. */
const usualLimits = { maxLagMs: 30_000 };
/** Probes detect nodes that fail together one after another, within their intervals and time-outs. */
const togetherMs = 30_000;
/** Windows of like nodes differ by less than this share: that is no loss. */
const lostShare = 10n;
/** Most requests that wait at once; the next one gets its answer without a wait. */
const maxWaiters = 10_000;
const longestVoteMs = 500;

/** The nodes of one process and their ledger, from their answers. */
export class FleetState {
  #upstreams: readonly Upstream[];
  /** One object for all; its names are replaced once when the config leaves them to the nodes. */
  readonly dialect: Dialect;
  #isDialectOpen: boolean;
  readonly #events: FleetEvents;
  readonly #limits: typeof usualLimits;
  readonly ledger: Readonly<FleetLedger>;
  readonly headersOfLedger: LedgerWideHeaders;
  #view: FleetView | undefined;
  #isViewStale = true;
  /** A node could be asked at some time. */
  #wasReady = false;
  #outage: { readonly sinceMs: number; readonly atMs: number } | undefined;
  #isHistoryLost = false;
  readonly #waiters = new Set<VersionWaiter>();
  /** The lowest version that is waited for, or lower. */
  #nearest: LedgerVersion | undefined;

  /** `limits`: read at each use. `chainId`: the config's, nodes of any other are never asked; default, that of most. */
  constructor(
    upstreams: readonly Upstream[],
    dialect: Dialect | 'auto',
    events: FleetEvents,
    {
      limits = usualLimits,
      chainId,
    }: { readonly limits?: typeof usualLimits; readonly chainId?: number | undefined } = {},
  ) {
    this.#upstreams = upstreams;
    this.dialect = dialect === 'auto' ? new Dialect('node') : dialect;
    this.#isDialectOpen = dialect === 'auto';
    this.#events = events;
    this.#limits = limits;
    this.ledger = new FleetLedger(this, events, chainId);
    this.headersOfLedger = new LedgerWideHeaders(this, events);
  }

  get upstreams(): readonly Upstream[] {
    return this.#upstreams;
  }

  get maxLagMs(): number {
    return this.#limits.maxLagMs;
  }

  /**
   * Makes these nodes the fleet; nodes that stay keep their state. Nothing depends on a removed node any more: the vote
   * on the chain is held anew, and its head is believed only until the others contradict it.
   */
  replace(upstreams: readonly Upstream[], nowMs: number): void {
    const gone = this.#upstreams.filter((upstream) => !upstreams.includes(upstream));
    // A fleet whose nodes have yet to answer keeps its chain.
    this.ledger.settle();
    this.#upstreams = upstreams;
    for (const upstream of gone) {
      upstream.isRemoved = true;
      this.ledger.forget(upstream, nowMs);
    }
    this.ledger.voteOnChain();
    this.refresh();
  }

  /** Whether no node has shown yet which dialect the fleet speaks. */
  get isDialectOpen(): boolean {
    return this.#isDialectOpen;
  }

  #takeDialect(name: Dialect['name']): void {
    if (!this.#isDialectOpen) return;
    this.#isDialectOpen = false;
    // No answer with ledger headers has passed before.
    Object.assign(this.dialect, new Dialect(name));
    this.#events.onChange('dialect taken', { dialect: name }, 'the dialect is that of most nodes: dialect pins it');
  }

  /** The ledger of the look that decides an open dialect. */
  takeDialectOf({ status, headers }: Look): LedgerInfo | undefined {
    const name = this.#isDialectOpen ? dialectOfLook(status, headers) : undefined;
    if (name === undefined) return undefined;
    this.#takeDialect(name);
    return this.dialect.findInfo(headers);
  }

  /**
   * Settles an open dialect as that of most nodes, or of the first. Resolves once more than half have answered `look`
   * alike, all have answered or failed, or the wait is over; no answer with ledger headers leaves it open.
   */
  async voteOnDialect(look: (upstream: Upstream) => Promise<Look>): Promise<void> {
    if (!this.#isDialectOpen) return;
    const upstreams = this.#upstreams;
    const names: (Dialect['name'] | undefined)[] = upstreams.map(() => undefined);
    const { promise: isDecided, resolve: decide } = Promise.withResolvers<void>();
    const looks = upstreams.map(async (upstream, index) => {
      const name = await look(upstream).then(
        ({ status, headers }) => dialectOfLook(status, headers),
        () => undefined,
      );
      names[index] = name;
      if (name !== undefined && names.filter((other) => other === name).length * 2 > upstreams.length) decide();
    });
    await settlesWithin(Promise.race([Promise.all(looks), isDecided]), longestVoteMs);
    const elected = elect(names);
    if (elected !== undefined) this.#takeDialect(elected);
  }

  get chainId(): number | undefined {
    return this.ledger.chainId;
  }

  get generation(): number {
    return this.ledger.generation;
  }

  get head(): LedgerInfo | undefined {
    return this.ledger.head;
  }

  /** Snapshot of the node that serves the oldest version; in an outage, of the nodes that answered last. */
  get oldest(): LedgerInfo | undefined {
    let deepest: LedgerInfo | undefined;
    for (const { health, window, isDrained } of this.#upstreams) {
      if (isDrained) continue;
      const couldServe = health !== 'foreign' && (this.#outage?.atMs ?? Infinity) - window.observedAtMs <= togetherMs;
      const { believed: info } = window;
      if (info === undefined || !(health === 'usable' || couldServe)) continue;
      if (deepest === undefined || info.oldestVersion < deepest.oldestVersion) deepest = info;
    }
    return deepest;
  }

  /** Whether a node that may be asked answers and has reported its ledger. */
  get isReady(): boolean {
    return this.#upstreams.some(
      ({ health, window, isDrained }) => health === 'usable' && window.info !== undefined && !isDrained,
    );
  }

  /** Versions that only nodes hold which get no requests now, `to` included; `undefined`: none, or no node is usable. */
  get lost(): { readonly from: bigint; readonly to: bigint; readonly upstreams: readonly string[] } | undefined {
    const deepest = this.isReady ? this.oldest : undefined;
    if (deepest === undefined) return undefined;
    const least = (deepest.version - deepest.oldestVersion) / lostShare;
    const nowMs = performance.now();
    // No node that gets requests goes deeper than the deepest.
    const away = this.#upstreams.flatMap(({ name, health, window }) => {
      // The edge of a node that is away goes on as it moved.
      const from = health === 'foreign' ? undefined : window.at(nowMs)?.safeOldest;
      return from !== undefined && deepest.oldestVersion - from > least ? [{ name, from }] : [];
    });
    const first = away.toSorted((one, other) => (one.from < other.from ? -1 : 1))[0];
    if (first === undefined) return undefined;
    return { from: first.from, to: deepest.oldestVersion - 1n, upstreams: away.map(({ name }) => name) };
  }

  /** Since when no node answers any more that did before, in ms since the epoch: the view is frozen. */
  get outageSinceMs(): number | undefined {
    return this.#outage?.sinceMs;
  }

  /** The same on the clock of `performance.now()`. */
  get outageFromMs(): number | undefined {
    return this.#outage?.atMs;
  }

  /** The view for an answer that goes out now; the same object until it changes, which few answers of nodes do. */
  get view(): FleetView {
    const before = this.#view;
    if (before !== undefined && !this.#isViewStale) return before;
    this.#isViewStale = false;
    const { generation, chainId, head, oldest = head, outageSinceMs } = this;
    const [ledgerWide, ledgerWideNames] = [this.headersOfLedger.listAt(head), this.headersOfLedger.names];
    const isSame =
      before?.head === head &&
      before?.generation === generation &&
      before.chainId === chainId &&
      before.outageSinceMs === outageSinceMs &&
      before.ledgerWide === ledgerWide &&
      before.ledgerWideNames === ledgerWideNames &&
      before.oldest?.oldestVersion === oldest?.oldestVersion &&
      before.oldest?.oldestBlockHeight === oldest?.oldestBlockHeight;
    if (isSame) return before;
    const headers = head === undefined || oldest === undefined ? [] : this.#sevenOf(head, oldest);
    const isPlain = outageSinceMs === undefined;
    const facts = { generation, chainId, head, oldest, outageSinceMs, isPlain, ledgerWide, ledgerWideNames };
    const view = { ...facts, headers: [...headers, ...ledgerWide] };
    this.#view = view;
    if (head !== undefined && head !== before?.head) this.#events.onHead(head, this.ledger.source?.name ?? '');
    return view;
  }

  #isViewOfLedger(): boolean {
    const view = this.#view;
    return view?.head === this.head && view?.generation === this.generation && view.chainId === this.chainId;
  }

  #sevenOf(head: LedgerInfo, { oldestVersion, oldestBlockHeight }: LedgerInfo): readonly string[] {
    return this.dialect.list({ ...head, oldestVersion, oldestBlockHeight });
  }

  /**
   * Drains or resumes the node. A drained one finishes its requests in flight and gets no other, even when no other node
   * can answer, because it is about to be stopped. Its reports move no head: the nodes that are asked may not have reached it.
   */
  setDrained(upstream: Upstream, isDrained: boolean, nowMs: number): void {
    upstream.isDrained = isDrained;
    if (isDrained) this.ledger.forget(upstream, nowMs);
    this.refresh();
  }

  /** The headers of a node's answer that belong to it alone (see `familyText`). */
  ownHeadersOf(answer: AnswerHead): string | undefined {
    return this.headersOfLedger.ownOf(answer);
  }

  /** For a version above the second newest head, which `upstream` has: how near the second node is, and how long it has. */
  awaited(upstream: Upstream, version: bigint, nowMs = performance.now()) {
    const { second, confirmed } = this.ledger;
    if (second === undefined || confirmed === undefined || version <= confirmed) return undefined;
    const { pace, observedAtMs } = second.window;
    const isNear = version <= nearest(confirmed, pace.headSpeed, nowMs - observedAtMs);
    return { version, isNear, head: () => upstream.head, withinMs: this.maxLagMs };
  }

  reports(): readonly LedgerReport[] {
    return this.#upstreams.map(({ name, isSuspect, window }) => ({ name, isSuspect, info: window.info }));
  }

  /** Begins the generation that another process has begun, with its state of the nodes. */
  adopt(reports: readonly LedgerReport[], nowMs: number): void {
    // Nothing is held of the generation before; the dialect to write these reports in is not known.
    if (this.#isDialectOpen) return;
    for (const { name, info, isSuspect } of reports) {
      const upstream = this.#upstreams.find((known) => known.name === name);
      if (upstream === undefined || info === undefined) continue;
      upstream.isSuspect = isSuspect;
      upstream.adopt(info, nowMs);
    }
    this.ledger.voteOnChain();
    this.ledger.startOver();
    this.refresh();
  }

  /**
   * Records the ledger headers of a node's answer. `lookSentAtMs`: of the look that the answer is to; only looks turn
   * the ledger over. Returns whether the answer is of this fleet's chain.
   */
  observe(upstream: Upstream, info: LedgerInfo, nowMs: number, lookSentAtMs?: number): boolean {
    const { chainId } = info;
    this.#takeDialect(this.dialect.name);
    const before = upstream.chain.id;
    const { isSuspect: wasSuspect, window } = upstream;
    const known = window.info;
    const isItsChain = this.ledger.isStarting
      ? upstream.chain.settle(chainId)
      : upstream.chain.observe(chainId, this.chainId, nowMs, lookSentAtMs);
    const hasGoneBack = isItsChain && window.observe(info, nowMs, lookSentAtMs !== undefined);
    if (isItsChain ? before !== chainId : before === undefined) this.ledger.voteOnChain();
    if (!isItsChain || window.maySeemRestored(nowMs)) this.#events.onUnconfirmed(upstream);
    this.#reportLower(upstream, nowMs);
    const isOurs = isItsChain && chainId === this.chainId;
    if (isOurs) this.ledger.observe(upstream, info, hasGoneBack, nowMs);
    // Thousands of answers a second carry no news: they leave the view as it is, and do not look at the waiters.
    const isNews = wasSuspect || window.info !== known;
    this.#isViewStale ||= isNews || upstream.address.isShared || !this.#isViewOfLedger();
    if (!isOurs) return false;
    if (isNews && !upstream.isSuspect) this.#wake(info.version);
    // A node that moves on below the second newest head changes nothing.
    const hasMovedOn = !wasSuspect && known !== undefined && known.version <= info.version;
    const isBelow = hasMovedOn && info.version <= (this.ledger.confirmed ?? -1n);
    if (isNews && !isBelow) this.#confirm();
    upstream.lagMs = Number((this.head?.timestampUsec ?? 0n) - info.timestampUsec) / 1000;
    return true;
  }

  /** Records the headers of a look beside the seven, which may change while these do not. */
  recordLook(answer: Parameters<LedgerWideHeaders['onLook']>[0]): void {
    this.headersOfLedger.onLook(answer);
    this.#isViewStale = true;
  }

  /** Reports a node whose head is lower than it was, once: answers that overtake each other look so for a moment. */
  #reportLower({ name, window }: Upstream, nowMs: number): void {
    const lower = window.lowerAt(nowMs);
    if (lower === undefined || window.isLowerReported) return;
    window.isLowerReported = true;
    const fields = { upstream: name, before: window.info?.version, after: lower.version };
    this.#events.onChange('head lower', fields, 'upstream reports a lower ledger version than before');
  }

  isReplaceable(upstream: Upstream): boolean {
    return this.#upstreams.some((other) => other !== upstream && other.providesNewest);
  }

  /** Whether this ledger is of the fleet's chain, and of the node's settled one. */
  isOurs({ chain }: Upstream, { chainId }: LedgerInfo): boolean {
    return chainId === this.chainId && chainId === chain.id;
  }

  /** Whether the node's ledger is too far behind the others for reads of the newest state. */
  isLagging({ lagMs }: Upstream): boolean {
    return lagMs > this.maxLagMs;
  }

  recordRefusal(upstream: Upstream, version: LedgerVersion, nowMs: number): void {
    if (upstream.window.observeRefusal(version, nowMs)) this.#events.onRefused(upstream, version);
  }

  onPeerRefusal(fingerprint: string, version: LedgerVersion, nowMs: number): void {
    for (const upstream of this.#upstreams) {
      if (upstream.fingerprint === fingerprint) upstream.window.observeRefusal(version, nowMs);
    }
  }

  /** Nodes report another history at `version` than before: a generation begins, as after a rollback. */
  replaceHistory(version: LedgerVersion): void {
    this.ledger.startOver();
    this.refresh();
    const message = 'nodes report another history of the ledger than before: cached answers are dropped';
    this.#events.onChange('history replaced', { version, head: this.head?.version }, message);
  }

  /** Reports a change of the node's health, or of the reason why it is not usable. `cause`: further fields of the log line. */
  noteHealth(upstream: Upstream, cause: object = {}): void {
    const { name, health, fault, noted, isRemoved } = upstream;
    if ((health === noted.health && fault === noted.fault) || isRemoved) return;
    upstream.noted = { health, fault };
    upstream.unusableSinceMs = health === 'usable' ? undefined : (upstream.unusableSinceMs ?? Date.now());
    this.refresh();
    // The vote on the chain has reported a foreign node (`FleetLedger.voteOnChain`).
    if (health === 'foreign' || (fault !== undefined && fault === noted.fault)) return;
    const down = fault === 'other dialect' ? 'node of other dialect' : 'node down';
    const change = health === 'usable' ? 'node usable' : down;
    const word = fault === undefined ? health : 'down';
    this.#events.onChange(change, { upstream: name, health, reason: fault, ...cause }, `upstream is ${word}`);
  }

  /** To be called when a node's health changes. */
  refresh(): void {
    this.#isViewStale = true;
    this.#reportOutage();
    this.#reportLost();
    this.#confirm();
    // A node that is usable again may have reached an awaited version.
    if (this.head !== undefined) this.#wake(this.head.version);
  }

  #reportOutage(): void {
    const { isReady } = this;
    this.#wasReady ||= isReady;
    const isOut = this.#wasReady && !isReady;
    if (isOut === (this.#outage !== undefined)) return;
    this.#outage = isOut ? { sinceMs: Date.now(), atMs: performance.now() } : undefined;
    const head = this.head?.version;
    const message = 'no node answers any more: only pinned answers in the cache are served';
    if (isOut) this.#events.onChange('outage', { head }, message);
    else this.#events.onChange('outage over', { head }, 'a node answers again');
  }

  #reportLost(): void {
    const { lost } = this;
    if (!this.isReady || (lost !== undefined) === this.#isHistoryLost) return;
    this.#isHistoryLost = lost !== undefined;
    if (lost === undefined) this.#events.onChange('history back', {}, 'the oldest versions can be read again');
    else this.#events.onChange('history lost', lost, 'versions cannot be read: the nodes that hold them are away');
  }

  #confirm(): void {
    if (!this.ledger.confirm()) return;
    const { confirmed } = this.ledger;
    if (confirmed !== undefined) this.#events.onConfirmed(confirmed);
  }

  get isAwaited(): boolean {
    return this.#waiters.size > 0;
  }

  /** Resolves when a usable node that `isFit` has reached `version`, after `ms`, or on abort: true if one has. */
  async waitFor(
    version: LedgerVersion,
    ms: number,
    signal: CancelSignal,
    isFit: (upstream: Upstream) => boolean = () => true,
  ): Promise<boolean> {
    const isReached = (): boolean =>
      this.#upstreams.some((upstream) => upstream.isTrusted && upstream.head >= version && isFit(upstream));
    if (isReached() || ms <= 0 || signal.aborted || this.#waiters.size >= maxWaiters) return isReached();
    if (!this.isAwaited) this.#events.onAwaited();
    await waitWithin<void>({ ms, signal, late: undefined }, (wake) => {
      const waiter = { version, isReached, wake };
      this.#waiters.add(waiter);
      if (this.#nearest === undefined || version < this.#nearest) this.#nearest = version;
      return () => this.#waiters.delete(waiter);
    });
    return isReached();
  }

  /** Wakes the waiters of versions that are reached. Far versions cost nothing: the nearest is compared first. */
  #wake(reached: LedgerVersion): void {
    if (this.#nearest === undefined || reached < this.#nearest) return;
    let nearest: LedgerVersion | undefined;
    for (const waiter of this.#waiters) {
      if (waiter.version <= reached && waiter.isReached()) waiter.wake();
      else if (nearest === undefined || waiter.version < nearest) nearest = waiter.version;
    }
    this.#nearest = nearest;
  }
}
