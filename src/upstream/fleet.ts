/**
 * All nodes together: what ledger they are on, how far it goes, and what the gateway may say of it.
 *
 * The fleet's head never goes backward: it is the newest snapshot that a node of the fleet's chain has told and that
 * the others do not contradict. Its oldest version is the deepest node's, because that is what the fleet can serve (protocol 7).
 */
import { ledgerHeaderList, type Dialect, type LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import { isCredible } from './credible-head.ts';
import { headToleranceMs, type Candidate } from './select.ts';
import type { Upstream } from './upstream.ts';

/** What the fleet calls out when its view changes, once per change. */
export interface FleetEvents {
  onForeign(upstream: Upstream, chainId: number, fleetChainId: number): void;
  /** A node tells a head that the others contradict; `retracted` when it had been believed before. */
  onSuspect(upstream: Upstream, head: LedgerVersion, retracted: boolean): void;
}

interface Waiter {
  readonly version: LedgerVersion;
  readonly wake: () => void;
}

/** Requests that wait for a version at once; one more asks a node straight away. */
const maxWaiters = 10_000;
/** A believed head is held against what other nodes say at most this often. */
const reviewMs = 250;

export class Fleet {
  readonly upstreams: readonly Upstream[];
  readonly dialect: Dialect;
  readonly #events: FleetEvents;
  readonly #waiters = new Set<Waiter>();
  /** The lowest version that is waited for, or lower. */
  #nearest: LedgerVersion | undefined;
  #chainId: number | undefined;
  #isSettled = false;
  #head: LedgerInfo | undefined;
  #headSource: Upstream | undefined;
  #reviewedAtMs = 0;
  #headerList: readonly string[] | undefined;

  constructor(upstreams: readonly Upstream[], dialect: Dialect, events: FleetEvents) {
    this.upstreams = upstreams;
    this.dialect = dialect;
    this.#events = events;
  }

  /** The chain id that most of the fleet tells, or `undefined` before the first answer. */
  get chainId(): number | undefined {
    return this.#chainId;
  }

  /** The newest snapshot of the ledger; never goes backward. */
  get head(): LedgerInfo | undefined {
    return this.#head;
  }

  /** The oldest version that some node can serve, from that node's own snapshot. */
  get oldest(): LedgerInfo | undefined {
    const usable = this.upstreams.filter((upstream) => upstream.health === 'usable');
    return (usable.length > 0 ? usable : this.upstreams.filter((upstream) => upstream.health === 'down'))
      .map((upstream) => upstream.window.info)
      .reduce<LedgerInfo | undefined>(
        (deepest, info) =>
          info !== undefined && (deepest === undefined || info.oldestVersion < deepest.oldestVersion) ? info : deepest,
        undefined,
      );
  }

  /** Whether a node is known that can be asked. */
  get isReady(): boolean {
    return this.upstreams.some((upstream) => upstream.health === 'usable' && upstream.window.info !== undefined);
  }

  /** The seven ledger headers for an answer given now, flat; empty before the first node has answered. */
  ledgerHeaders(): readonly string[] {
    if (this.#headerList === undefined) {
      const [head, oldest] = [this.#head, this.oldest];
      if (head === undefined) return [];
      const deepest = oldest ?? head;
      this.#headerList = ledgerHeaderList(
        { ...head, oldestVersion: deepest.oldestVersion, oldestBlockHeight: deepest.oldestBlockHeight },
        this.dialect,
      );
    }
    return this.#headerList;
  }

  /** Takes the ledger headers of a node's answer. Returns whether the node is of this fleet's chain. */
  observe(upstream: Upstream, info: LedgerInfo, nowMs: number): boolean {
    const isNews = upstream.chainId !== info.chainId;
    upstream.observe(info, nowMs);
    if (isNews) this.#agreeOnChain();
    this.#headerList = undefined;
    if (info.chainId !== this.#chainId) return false;
    if (this.#head === undefined || info.version > this.#head.version) this.#considerHead(upstream, info, nowMs);
    else this.#reviewHead(upstream, nowMs);
    if (!upstream.isSuspect) this.#wake(info.version);
    return true;
  }

  /** To be called when a node's health changes: what the fleet can serve changes with it. */
  refresh(): void {
    this.#headerList = undefined;
  }

  /** Every node as selection wants to see it. */
  candidates(nowMs: number): (Candidate & { readonly upstream: Upstream })[] {
    return this.upstreams.map((upstream) => {
      const latencyMs = upstream.latencyMs(nowMs);
      return {
        upstream,
        name: upstream.name,
        tier: upstream.tier,
        health: upstream.health,
        window: upstream.window.at(nowMs + latencyMs),
        cost: latencyMs * (upstream.inFlight + 1),
        isSuspect: upstream.isSuspect,
        headTolerance: upstream.window.headSpeed * headToleranceMs,
      };
    });
  }

  /** Resolves when a usable node has reached `version`, after `timeoutMs`, or on abort: true if one has. */
  async waitForVersion(version: LedgerVersion, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    const reached = () =>
      this.upstreams.some(
        ({ health, isSuspect, window }) =>
          health === 'usable' && !isSuspect && (window.info?.version ?? -1n) >= version,
      );
    if (reached() || timeoutMs <= 0 || signal.aborted || this.#waiters.size >= maxWaiters) return reached();
    await new Promise<void>((resolve) => {
      const waiter: Waiter = { version, wake: finish };
      const timer = setTimeout(finish, timeoutMs);
      const waiters = this.#waiters;
      function finish(): void {
        clearTimeout(timer);
        signal.removeEventListener('abort', finish);
        waiters.delete(waiter);
        resolve();
      }
      signal.addEventListener('abort', finish);
      waiters.add(waiter);
      if (this.#nearest === undefined || version < this.#nearest) this.#nearest = version;
    });
    return reached();
  }

  /** Wakes who waits for what a node has reached. Far versions cost nothing: only the nearest is looked at. */
  #wake(reached: LedgerVersion): void {
    if (this.#nearest === undefined || reached < this.#nearest) return;
    let nearest: LedgerVersion | undefined;
    for (const waiter of this.#waiters) {
      if (waiter.version <= reached) waiter.wake();
      else if (nearest === undefined || waiter.version < nearest) nearest = waiter.version;
    }
    this.#nearest = nearest;
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
    this.#reviewedAtMs = nowMs;
  }

  /**
   * A head that was believed while too few nodes were known to contradict it is looked at again when others speak: to
   * stay with it would stall every read of "latest", so this is the one case in which the head goes back.
   */
  #reviewHead(speaker: Upstream, nowMs: number): void {
    speaker.isSuspect = false;
    const source = this.#headSource;
    const head = this.#head;
    if (source === undefined || head === undefined || source === speaker) return;
    if (nowMs - this.#reviewedAtMs < reviewMs || this.#isCredible(source, head)) return;
    this.#reviewedAtMs = nowMs;
    source.isSuspect = true;
    this.#events.onSuspect(source, head.version, true);
    this.#head = this.#newestCredible();
    this.#headSource = this.upstreams.find((upstream) => upstream.window.info === this.#head);
  }

  #newestCredible(): LedgerInfo | undefined {
    const infos = this.upstreams
      .filter((upstream) => !upstream.isSuspect && upstream.chainId === this.#chainId)
      .map((upstream) => upstream.window.info)
      .filter((info) => info !== undefined);
    return infos.sort((a, b) => (a.version > b.version ? -1 : 1))[0];
  }

  #isCredible(upstream: Upstream, claim: LedgerInfo): boolean {
    const others = this.upstreams.filter((other) => other !== upstream && other.health === 'usable');
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
    for (const { chainId } of this.upstreams) {
      if (chainId !== undefined) votes.set(chainId, (votes.get(chainId) ?? 0) + 1);
    }
    let agreed = this.#isSettled ? this.#chainId : undefined;
    for (const [chainId, count] of votes) {
      if (agreed === undefined || count > (votes.get(agreed) ?? 0)) agreed = chainId;
    }
    const isChanged = agreed !== this.#chainId;
    this.#chainId = agreed;
    for (const upstream of this.upstreams) {
      const isForeign = upstream.chainId !== undefined && upstream.chainId !== agreed;
      if (isForeign && upstream.health !== 'foreign') {
        this.#events.onForeign(upstream, upstream.chainId ?? 0, agreed ?? 0);
      }
      upstream.markForeign(isForeign);
    }
    if (!isChanged) return;
    this.#head = this.#newestCredible();
    this.#headSource = this.upstreams.find((upstream) => upstream.window.info === this.#head);
  }
}
