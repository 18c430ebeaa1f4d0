/**
 * The fleet's ledger: its chain, and its head, the newest snapshot that a node of the chain has reported and that the
 * others do not contradict. The head goes back only when it proves false, or when the ledger itself went back (nodes
 * restored, a test network made anew). Then a generation begins, and nothing of the one before is used.
 */
import type { LedgerInfo, LedgerVersion } from '../ledger/index.ts';
import { elect, isConfirmed, isCredible, isLeftBehind, isOfFuture, nearest } from './contradictions.ts';
import type { Upstream } from './node/upstream.ts';

/** Changes of the fleet as a whole, for log and status page. */
type FleetChange =
  | 'chain taken'
  | 'dialect taken'
  | 'node foreign'
  | 'node suspect'
  | 'headers left out'
  | 'head lower'
  | 'rollback'
  | 'history replaced'
  | 'history lost'
  | 'history back'
  | 'outage'
  | 'outage over';

/** Changes of the ledger, each reported once. */
export interface LedgerEvents {
  /** A change for log and status page: `message` is constant per kind of change. */
  onChange(change: FleetChange, fields: object, message: string): void;
  /** A generation begins: no answer from before may be used. */
  onGeneration(): void;
}

/** The nodes around the ledger. */
interface NodesOfLedger {
  readonly upstreams: readonly Upstream[];
  readonly maxLagMs: number;
}

/** A believed head is compared with the reports of other nodes at most this often. */
const reviewMs = 250;

/**
 * Answers that call versions not found which their own headers report. So many disprove the node's head: one may have passed
 * through a cache, with newer headers. They count when each follows the one before within `togetherMs`. A disproved node
 * moves no head for `disprovedMs`, because each disproof of a believed head empties the cache.
 */
const disproof = { contradictions: 3, togetherMs: 10_000, disprovedMs: 600_000 };

/** Chain, head and generation, from the reports of nodes. */
export class FleetLedger {
  readonly #fleet: NodesOfLedger;
  readonly #events: LedgerEvents;
  readonly #fixedChainId: number | undefined;
  #chainId: number | undefined;
  /** The chain that was reported as taken from the nodes. */
  #taken: number | undefined;
  /** While the first reports of nodes come in, each counts at once. */
  #isStarting = true;
  #head: LedgerInfo | undefined;
  #source: Upstream | undefined;
  /** The head was believed beside at least two other nodes, or goes on from one that was. */
  #isProven = false;
  #second: Upstream | undefined;
  #confirmed: LedgerVersion | undefined;
  /** When the node that reported the head was taken out. */
  #orphanedAtMs = -Infinity;
  #reviewedAtMs = -Infinity;
  /** Nodes whose ledger has gone back from the present head. */
  readonly #goneBack = new Set<Upstream>();
  /** The contradictions of nodes by their own answers, and until when a node is disproved. */
  readonly #contradictions = new WeakMap<Upstream, { count: number; atMs: number }>();
  readonly #disprovedUntilMs = new WeakMap<Upstream, number>();
  #generation = 0;

  /** `fixedChainId`: the chain of the config; `undefined`: the chain of most nodes. */
  constructor(fleet: NodesOfLedger, events: LedgerEvents, fixedChainId: number | undefined) {
    this.#fleet = fleet;
    this.#events = events;
    this.#fixedChainId = fixedChainId;
    this.#chainId = fixedChainId;
  }

  /** The chain of the config or else of most nodes; `undefined` before the first answer. */
  get chainId(): number | undefined {
    return this.#chainId;
  }

  /** The newest believed snapshot; never goes backward within a generation. */
  get head(): LedgerInfo | undefined {
    return this.#head;
  }

  /** The node that reported the head; `undefined` once it is removed or drained. */
  get source(): Upstream | undefined {
    return this.#source === undefined || isOut(this.#source) ? undefined : this.#source;
  }

  /** The node with the second newest head; where no other may prove the newest, the first. */
  get second(): Upstream | undefined {
    return this.#second;
  }

  /** The newest version that two nodes have reached, or one where no other can: answers up to it may be final. */
  get confirmed(): LedgerVersion | undefined {
    return this.#confirmed;
  }

  /** Present for a version above `confirmed`, which `upstream` has: how near the second node is, and how long it has. */
  awaited(upstream: Upstream, version: bigint, nowMs: number) {
    const [second, confirmed] = [this.#second, this.#confirmed];
    if (second === undefined || confirmed === undefined || version <= confirmed) return undefined;
    const { pace, observedAtMs } = second.window;
    const isNear = version <= nearest(confirmed, pace.headSpeed, nowMs - observedAtMs);
    return { version, isNear, head: () => upstream.head, withinMs: this.#fleet.maxLagMs };
  }

  /** Finds `confirmed` anew after a node's news or a change of its health. Returns whether it has changed. */
  confirm(): boolean {
    const trusted = this.#fleet.upstreams.filter((node) => node.isTrusted && node.head >= 0n);
    const first = freshest(trusted);
    const others = trusted.filter((node) => node !== first && this.#mayConfirm(node, first));
    const before = this.#confirmed;
    this.#second = freshest(others) ?? first;
    this.#confirmed = this.#second?.window.info?.version;
    return this.#confirmed !== before;
  }

  #mayConfirm({ window: { info } }: Upstream, first: Upstream | undefined): boolean {
    const head = first?.window.info;
    if (head === undefined || info === undefined) return false;
    return !isLeftBehind(head, info, usecNow(), BigInt(Math.ceil(this.#fleet.maxLagMs)) * 1000n);
  }

  /** Increases when data read before must be dropped: the same version may have another state. */
  get generation(): number {
    return this.#generation;
  }

  /** Whether the first reports of nodes still come in. */
  get isStarting(): boolean {
    return this.#isStarting;
  }

  /** Ends the start: later, a tie between chain ids changes nothing, and only a look confirms another chain. */
  settle(): void {
    this.#isStarting = false;
    this.#reportChain();
  }

  /** Holds the vote on the chain anew, and marks the nodes of other chains. */
  voteOnChain(): void {
    const upstreams = this.#fleet.upstreams;
    const reported = upstreams.map(({ chain }) => chain.id);
    const agreed = this.#fixedChainId ?? elect(reported, this.#isStarting ? undefined : this.#chainId);
    const isAnother = this.#chainId !== undefined && agreed !== this.#chainId;
    this.#chainId = agreed;
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
    const head = this.#head;
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
    const head = this.#head;
    if (head === undefined || upstream !== this.source || others.some((other) => other.head >= head.version)) return;
    this.#suspect(upstream, head, true);
    this.startOver();
  }

  /** Records that the fleet has removed or drained the node. */
  forget(upstream: Upstream, nowMs: number): void {
    this.#goneBack.delete(upstream);
    if (upstream === this.#source) this.#orphanedAtMs = nowMs;
  }

  /** Begins a generation: its head is the newest report of the nodes that answer, `speaker` included. */
  startOver(speaker?: Upstream, nowMs = performance.now()): void {
    this.#generation += 1;
    this.#events.onGeneration();
    this.#reviewedAtMs = -Infinity;
    this.#isProven = false;
    this.#goneBack.clear();
    const trusted = this.#fleet.upstreams.filter(
      ({ isSuspect, isDrained, chain }) => !isSuspect && !isDrained && chain.id === this.#chainId,
    );
    // The head of a node that seems to have gone back as well is of the ledger before.
    const isAnswering = ({ health, window }: Upstream): boolean =>
      health === 'usable' && !window.maySeemRestored(nowMs);
    const answering = trusted.filter((upstream) => upstream === speaker || isAnswering(upstream));
    this.#source = freshest(answering) ?? freshest(trusted);
    this.#head = this.#source?.window.info;
    this.confirm();
  }

  /** Reports a chain that no config names, once it is settled. */
  #reportChain(): void {
    const chainId = this.#chainId;
    if (this.#isStarting || this.#fixedChainId !== undefined || chainId === this.#taken) return;
    this.#taken = chainId;
    const message = 'the chain is that of most nodes: chainId in the config pins it';
    this.#events.onChange('chain taken', { chainId }, message);
  }

  /** Takes a new head unless the other nodes contradict it. */
  #consider(upstream: Upstream, info: LedgerInfo, nowMs: number): void {
    const isDisproved = nowMs < (this.#disprovedUntilMs.get(upstream) ?? 0) && this.#othersOf(upstream).length > 0;
    const before = this.#head;
    const goesOn = before !== undefined && isConfirmed(info.version, before.version);
    const others = this.#reportsBeside(upstream);
    const isProven = this.#isProven && goesOn;
    if (isDisproved || !isCredible(info, others, usecNow(), isProven)) return this.#suspect(upstream, info, false);
    upstream.isSuspect = false;
    this.#isProven = isProven || others.length >= 2;
    // A false time of the future is not kept: by it, every node would be behind until the ledger gets there.
    const isKept = before !== undefined && !isOfFuture(before, usecNow());
    const isYounger = isKept && info.timestampUsec < before.timestampUsec;
    this.#head = isYounger ? { ...info, timestampUsec: before.timestampUsec } : info;
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
      const present = this.#head?.version ?? head.version;
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

  /** The other nodes that are trusted and have reported. */
  #othersOf(upstream: Upstream): readonly Upstream[] {
    const isOther = (other: Upstream): boolean =>
      other !== upstream && other.isTrusted && other.window.info !== undefined;
    return this.#fleet.upstreams.filter(isOther);
  }

  /** Whether the other nodes leave the present head credible. */
  #isStillCredible(head: LedgerInfo): boolean {
    const others = this.#reportsBeside(this.#source);
    if (!isCredible(head, others, usecNow(), this.#isProven)) return false;
    this.#isProven ||= others.length >= 2;
    return true;
  }

  /** The last reports of the other nodes that answer. */
  #reportsBeside(upstream: Upstream | undefined): readonly LedgerInfo[] {
    const others = this.#fleet.upstreams.filter(
      (other) => other !== upstream && other.health === 'usable' && !other.isDrained,
    );
    return others.map((other) => other.window.info).filter((info) => info !== undefined);
  }
}

/** Our clock, in microseconds since the epoch. */
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
