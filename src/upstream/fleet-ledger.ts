/**
 * The fleet's ledger: its chain, and its head, the newest snapshot that a node of the chain has reported and the others
 * do not contradict. It goes back only when it proves false, or when the ledger itself went back (nodes restored, a
 * test network made anew). Then a generation begins, and nothing of the one before is used.
 */
import type { LedgerInfo, LedgerVersion } from '../ledger/index.ts';
import type { Journal } from '../metrics/index.ts';
import { elect, isConfirmed, isCredible, isLeftBehind, isOfFuture } from './contradictions.ts';
import type { Upstream } from './node/upstream.ts';

/** Changes of the ledger, each reported once. */
export interface LedgerEvents {
  readonly onChange: Journal['record'];
  /** A generation begins: no answer from before may be used. */
  onGeneration(): void;
}

/** A believed head is compared with the reports of other nodes at most this often. */
const reviewMs = 250;

/**
 * Answers that call versions not found which their own headers report, each within `togetherMs` of the one before: so
 * many disprove the node's head, as one may have passed through a cache. A disproved node moves no head for
 * `disprovedMs`, because each disproof of a believed head empties the cache.
 */
const disproof = { contradictions: 3, togetherMs: 10_000, disprovedMs: 600_000 };

/** Chain, head and generation, from the reports of nodes. */
export class FleetLedger {
  /** The chain of the config or else of most nodes; `undefined` before the first answer. */
  chainId: number | undefined;
  /** The newest believed snapshot; never goes backward within a generation. */
  head: LedgerInfo | undefined;
  /** Increases when data read before must be dropped: the same version may have another state. */
  generation = 0;
  /** The node with the second newest head; where no other may prove the newest, the first. */
  second: Upstream | undefined;
  /** The newest version that two nodes have reached, or one where no other can. */
  confirmed: LedgerVersion | undefined;
  /** While the first reports of nodes come in, each counts at once. */
  isStarting = true;
  readonly #fleet: { readonly upstreams: readonly Upstream[]; readonly maxLagMs: number };
  readonly #events: LedgerEvents;
  readonly #fixedChainId: number | undefined;
  /** The chain that was reported as taken from the nodes. */
  #taken: number | undefined;
  #source: Upstream | undefined;
  /** The head was believed beside at least two other nodes, or goes on from one that was. */
  #isProven = false;
  /** When the node that reported the head was taken out. */
  #orphanedAtMs = -Infinity;
  #reviewedAtMs = -Infinity;
  /** Nodes whose ledger has gone back from the present head. */
  readonly #goneBack = new Set<Upstream>();
  /** The contradictions of nodes by their own answers, and until when a node is disproved. */
  readonly #contradictions = new WeakMap<Upstream, { count: number; atMs: number }>();
  readonly #disprovedUntilMs = new WeakMap<Upstream, number>();

  /** `fixedChainId`: the chain of the config. */
  constructor(
    fleet: { readonly upstreams: readonly Upstream[]; readonly maxLagMs: number },
    events: LedgerEvents,
    fixedChainId: number | undefined,
  ) {
    this.#fleet = fleet;
    this.#events = events;
    this.#fixedChainId = fixedChainId;
    this.chainId = fixedChainId;
  }

  /** The node that reported the head, unless it is removed or drained. */
  get source(): Upstream | undefined {
    return this.#source === undefined || isOut(this.#source) ? undefined : this.#source;
  }

  /** Finds `confirmed` anew. Returns whether it has changed. */
  confirm(): boolean {
    const trusted = this.#fleet.upstreams.filter(({ isTrusted }) => isTrusted);
    const first = freshest(trusted);
    const others = trusted.filter((node) => node !== first && this.#mayConfirm(node, first));
    const before = this.confirmed;
    this.second = freshest(others) ?? first;
    this.confirmed = this.second?.window.info?.version;
    return this.confirmed !== before;
  }

  #mayConfirm({ window: { info } }: Upstream, first: Upstream | undefined): boolean {
    const head = first?.window.info;
    if (head === undefined || info === undefined) return false;
    return !isLeftBehind(head, info, usecNow(), BigInt(Math.ceil(this.#fleet.maxLagMs)) * 1000n);
  }

  /** Later, a tie between chain ids changes nothing, and only a look confirms another chain. */
  settle(): void {
    this.isStarting = false;
    this.#reportChain();
  }

  /** Holds the vote on the chain anew, and marks the nodes of other chains. */
  voteOnChain(): void {
    const upstreams = this.#fleet.upstreams;
    const reported = upstreams.map(({ chain }) => chain.id);
    const agreed = this.#fixedChainId ?? elect(reported, this.isStarting ? undefined : this.chainId);
    const isAnother = this.chainId !== undefined && agreed !== this.chainId;
    this.chainId = agreed;
    for (const upstream of upstreams) {
      // A node whose only reports are of another chain is not asked until a look settles it.
      const chainId = upstream.chain.id ?? upstream.chain.doubted;
      const isForeign = chainId !== undefined && chainId !== agreed;
      if (isForeign && upstream.health !== 'foreign') {
        const fields = { upstream: upstream.name, reason: 'other chain', chainId, fleetChainId: agreed };
        this.#events.onChange('node foreign', fields, 'upstream reports another chain: it is not asked');
      }
      upstream.isForeign = isForeign;
    }
    this.#reportChain();
    if (isAnother) this.startOver();
  }

  /** Records the report of a node of the chain. `hasGoneBack`: the node went back to this ledger from a newer one. */
  observe(upstream: Upstream, info: LedgerInfo, hasGoneBack: boolean, nowMs: number): void {
    // An answer in flight must not be newer than its headers.
    if (upstream.isDrained && upstream.inFlight === 0) return;
    const { head } = this;
    if (head === undefined || info.version > head.version) this.#consider(upstream, info, nowMs);
    else {
      upstream.isSuspect = false;
      if (!isOut(upstream)) this.#review(upstream, head, hasGoneBack, nowMs);
    }
  }

  /**
   * Records that the node's answer called `version` not found under headers that report it. Gives up its head when that
   * happens again and again, and no other node has reached the version.
   */
  contradict(upstream: Upstream, version: bigint, nowMs: number): void {
    const others = this.#othersOf(upstream);
    if (others.length === 0 || others.some(({ head }) => head >= version)) return;
    const before = this.#contradictions.get(upstream);
    const count = before !== undefined && nowMs - before.atMs <= disproof.togetherMs ? before.count + 1 : 1;
    this.#contradictions.set(upstream, { count, atMs: nowMs });
    if (count < disproof.contradictions) return;
    this.#contradictions.delete(upstream);
    this.#disprovedUntilMs.set(upstream, nowMs + disproof.disprovedMs);
    const { head } = this;
    if (head === undefined || upstream !== this.source || others.some((other) => other.head >= head.version)) return;
    this.#suspect(upstream, head, true);
    this.startOver();
  }

  /** The node is removed or drained. */
  forget(upstream: Upstream, nowMs: number): void {
    this.#goneBack.delete(upstream);
    if (upstream === this.#source) this.#orphanedAtMs = nowMs;
  }

  /** Begins a generation: its head is the newest report of the nodes that answer, `speaker` included. */
  startOver(speaker?: Upstream, nowMs = performance.now()): void {
    this.generation += 1;
    this.#events.onGeneration();
    this.#reviewedAtMs = -Infinity;
    this.#isProven = false;
    this.#goneBack.clear();
    const trusted = this.#fleet.upstreams.filter(
      ({ isSuspect, isDrained, chain }) => !isSuspect && !isDrained && chain.id === this.chainId,
    );
    // The head of a node that seems to have gone back as well is of the ledger before.
    const isAnswering = ({ health, window }: Upstream): boolean =>
      health === 'usable' && !window.maySeemRestored(nowMs);
    const answering = trusted.filter((upstream) => upstream === speaker || isAnswering(upstream));
    this.#source = freshest(answering) ?? freshest(trusted);
    this.head = this.#source?.window.info;
    this.confirm();
  }

  /** Reports a chain that no config names, once it is settled. */
  #reportChain(): void {
    const { chainId } = this;
    if (this.isStarting || this.#fixedChainId !== undefined || chainId === this.#taken) return;
    this.#taken = chainId;
    const message = 'the chain is that of most nodes: chainId in the config pins it';
    this.#events.onChange('chain taken', { chainId }, message);
  }

  #consider(upstream: Upstream, info: LedgerInfo, nowMs: number): void {
    const isDisproved = nowMs < (this.#disprovedUntilMs.get(upstream) ?? 0) && this.#othersOf(upstream).length > 0;
    const before = this.head;
    const goesOn = before !== undefined && isConfirmed(info.version, before.version);
    const others = this.#reportsBeside(upstream);
    const isProven = this.#isProven && goesOn;
    if (isDisproved || !isCredible(info, others, usecNow(), isProven)) return this.#suspect(upstream, info, false);
    upstream.isSuspect = false;
    this.#isProven = isProven || others.length >= 2;
    // A false time of the future is not kept: by it, every node would be behind until the ledger gets there.
    const isKept = before !== undefined && !isOfFuture(before, usecNow());
    const isYounger = isKept && info.timestampUsec < before.timestampUsec;
    this.head = isYounger ? { ...info, timestampUsec: before.timestampUsec } : info;
    this.#source = upstream;
    this.#goneBack.delete(upstream);
    // A removed node still answers requests in flight, and no answer may be newer than its headers.
    if (isOut(upstream)) this.#orphanedAtMs = nowMs;
    // No report preceded the first head: the next one may contradict it.
    if (before !== undefined) this.#reviewedAtMs = nowMs;
  }

  /**
   * Gives up a head that would stall every read of "latest", when `speaker` does not go beyond it:
   * - the ledger itself went back: a node was restored, or made anew, and no other node confirms the head;
   * - the head was believed while too few nodes could contradict it, or its own node has taken it back;
   * - its node was removed or drained, perhaps for a false head, and no other reaches it within `maxLagMs`.
   */
  #review(speaker: Upstream, head: LedgerInfo, hasGoneBack: boolean, nowMs: number): void {
    if (hasGoneBack) this.#goneBack.add(speaker);
    const isOrphan = this.source === undefined;
    if (speaker.head >= head.version) {
      this.#goneBack.delete(speaker);
      if (isOrphan) this.#source = speaker;
      return;
    }
    const isContradicted =
      nowMs - this.#reviewedAtMs >= reviewMs && speaker !== this.#source && !this.#isStillCredible(head);
    const isFalse = isContradicted || this.#isTakenBack(head);
    const isOverdue = isOrphan && nowMs - this.#orphanedAtMs > this.#fleet.maxLagMs;
    const isGone = hasGoneBack && !this.#isConfirmed(head, nowMs);
    if (isFalse && !isGone && this.source !== undefined) {
      this.#suspect(this.source, head, true);
      this.startOver();
    } else if (isFalse || isOverdue || isGone) {
      this.startOver(speaker, nowMs);
      // Until a look finds it lower, too, another node still reports the head of before.
      const present = this.head?.version ?? head.version;
      const after = present < head.version ? present : speaker.head;
      const fields = { upstream: speaker.name, before: head.version, after };
      this.#events.onChange('rollback', fields, 'the ledger went back: cached answers are dropped');
    }
  }

  #suspect(upstream: Upstream, { version: head }: LedgerInfo, retracted: boolean): void {
    if (upstream.isSuspect) return;
    upstream.isSuspect = true;
    const fields = { upstream: upstream.name, head, retracted };
    const message = 'upstream reports a head that other nodes contradict: it is asked last';
    this.#events.onChange('node suspect', fields, message);
  }

  /** Whether a node that has not gone back, and does not seem to, is near the head. */
  #isConfirmed({ version }: LedgerInfo, nowMs: number): boolean {
    const others = this.#fleet.upstreams.filter(({ isTrusted, window }) => isTrusted && !window.maySeemRestored(nowMs));
    return others.some((other) => !this.#goneBack.has(other) && isConfirmed(version, other.head));
  }

  /** Whether the head's own node has gone back to where the others are, and none of them has reached the head. */
  #isTakenBack({ version }: LedgerInfo): boolean {
    const { source } = this;
    if (source === undefined || !this.#goneBack.has(source)) return false;
    const others = this.#othersOf(source);
    return others.length > 0 && others.every(({ head }) => head < version && isConfirmed(head, source.head));
  }

  #othersOf(upstream: Upstream): readonly Upstream[] {
    const isOther = (other: Upstream): boolean =>
      other !== upstream && other.isTrusted && other.window.info !== undefined;
    return this.#fleet.upstreams.filter(isOther);
  }

  #isStillCredible(head: LedgerInfo): boolean {
    const others = this.#reportsBeside(this.#source);
    if (!isCredible(head, others, usecNow(), this.#isProven)) return false;
    this.#isProven ||= others.length >= 2;
    return true;
  }

  #reportsBeside(upstream: Upstream | undefined): readonly LedgerInfo[] {
    const others = this.#fleet.upstreams.filter(
      (other) => other !== upstream && other.health === 'usable' && !other.isDrained,
    );
    return others.map((other) => other.window.info).filter((info) => info !== undefined);
  }
}

function usecNow(): bigint {
  return BigInt(Date.now()) * 1000n;
}

/** Whether the node gets no request any more. */
function isOut({ isRemoved, isDrained }: Upstream): boolean {
  return isRemoved || isDrained;
}

function freshest(upstreams: readonly Upstream[]): Upstream | undefined {
  return upstreams.reduce<Upstream | undefined>(
    (best, upstream) => (upstream.head > (best?.head ?? -1n) ? upstream : best),
    undefined,
  );
}
