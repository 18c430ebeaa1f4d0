/**
 * The follower: reads pages of new transactions from the freshest node while requests need them, and compares histories
 * after a rollback or a fork. Each page overlaps the one before by a transaction, whose hash proves the same history.
 */
import type { Registry } from 'prom-client';
import { Circuit, type LedgerVersion } from '../../../ledger/index.ts';
import { Counter, Gauge } from '../../../metrics/index.ts';
import type { Fleet } from '../../../upstream/index.ts';
import type { Page } from './page.ts';
import type { PageMismatch, PageProof } from './page-proof.ts';
import type { NoPage, ReadPage } from './page-reader.ts';
import type { Tail } from './tail.ts';

/** Live settings of the follower. */
export interface FollowSettings {
  readonly mode: 'auto' | 'always' | 'off';
  /** Reads of recent transactions a second, of this process. */
  readonly minReads: number;
}

/** Connections of a follower to the other workers. */
export interface FollowerEvents {
  readonly publish: (page: Page) => void;
  /** This process needs pages: at most once a second. */
  readonly wanted: () => void;
  readonly rolledBack: (version: LedgerVersion) => void;
  readonly distrusted: (mismatch: PageMismatch) => void;
}

/** Least time from one read to the next, in ms: with nothing new, with a node that has reported more, with busy nodes. */
const pace = { usual: 100, behind: 50, busy: 500 };
/** Transactions of a page, the next smaller one after a page that is too large. */
const pageSizes = [100, 10, 2, 1] as const;
/** Good pages in a row after which the largest size is tried again. */
const goodPages = 10;
/** Farther behind the head it goes on there: who needs what is in between reads it for himself. */
const farthest = 1_000n;
/** Pages that are compared at most, back from the newest known transaction. */
const comparedPages = 10;
/** Pages of another history in a row, after which the tail itself may be of the other one. */
const mostContradictions = 3;
/** A burst of reads costs nodes less than the ten seconds of pages behind it. */
const oftenSeconds = 10;
/** A need ends after so long without it, in ms. */
const needMs = 10_000;
const peerNeedMs = 3_000;
/** A worker without a peer's page for so long reads for itself. */
const starvedMs = 2_000;
/** Pages without news are published this often, in ms: they show that the tail is up to date. */
const signOfLifeMs = 1_000;
const pauses = { firstMs: 100, longestMs: 2_000, calmMs: 2_000 };

/** Follows the ledger; one object in each process, of which the appointed one reads for all. */
export class Follower {
  /** Sources of need, asked each second. */
  readonly needs = new Set<() => boolean>();
  readonly #fleet: Pick<Fleet, 'head' | 'ledger' | 'sender'>;
  readonly #tail: Tail;
  readonly #readPage: ReadPage;
  readonly #proof: Pick<PageProof, 'consider'>;
  readonly #settings: FollowSettings;
  readonly #events: Omit<FollowerEvents, 'distrusted'>;
  readonly #metrics: ReturnType<typeof createFollowerMetrics>;
  readonly #closing = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #circuit = new Circuit<'page'>(pauses);
  #isAppointed: boolean;
  #isRunning = false;
  /** No page of this run was taken yet. */
  #isFirst = true;
  #neededAtMs = -Infinity;
  #wantedAtMs = -Infinity;
  /** Seconds in a row in which recent transactions were asked for often. */
  #secondsAbove = 0;
  /** Begin of the present need. */
  #needSinceMs: number | undefined;
  #peerPageAtMs = -Infinity;
  /** Since then a node has reported more than the tail has. */
  #behindSinceMs: number | undefined;
  #publishedAtMs = -Infinity;
  /** Index in `pageSizes`. */
  #size = 0;
  /** The next version behind a transaction that is too large for a page. */
  #behindLarge: LedgerVersion | undefined;
  #goodPages = 0;
  #contradictions = 0;
  /** Calls of `recheck`. */
  #doubts = 0;
  /** Ends the pause between two reads. */
  #wake: () => void = () => undefined;

  /** `isAppointed`: this process reads for all from the start. */
  constructor(
    fleet: Pick<Fleet, 'head' | 'ledger' | 'sender'>,
    tail: Tail,
    readPage: ReadPage,
    proof: Pick<PageProof, 'consider'>,
    settings: FollowSettings,
    events: Omit<FollowerEvents, 'distrusted'>,
    registry: Registry,
    isAppointed: boolean,
  ) {
    this.#fleet = fleet;
    this.#tail = tail;
    this.#readPage = readPage;
    this.#proof = proof;
    this.#settings = settings;
    this.#events = events;
    this.#isAppointed = isAppointed;
    this.#metrics = createFollowerMetrics(registry, () => this);
    this.#timer = setInterval(() => this.#look(), 1_000).unref();
  }

  /** Whether this process reads pages now. */
  get isRunning(): boolean {
    return this.#isRunning;
  }

  /** See `ledgergate_follower_lag_seconds`. */
  get lagSeconds(): number {
    this.#measureLag();
    return this.#behindSinceMs === undefined ? 0 : (performance.now() - this.#behindSinceMs) / 1_000;
  }

  /** The primary appoints this process, or another one. */
  appoint(isAppointed: boolean): void {
    if (isAppointed === this.#isAppointed) return;
    this.#isAppointed = isAppointed;
    // The follower before has just read: a stream or a wait needs it.
    if (isAppointed && performance.now() - this.#peerPageAtMs < needMs) this.want();
  }

  /** A peer needs pages: for the next 3 s. */
  want(): void {
    this.#wantedAtMs = performance.now();
    this.#begin();
  }

  /** A page that another process has read. */
  takeOfPeer(page: Page): void {
    this.#tail.take(page);
    const last = page.first + BigInt(page.hashes.length) - 1n;
    // The tail refuses one of another history.
    if (this.#tail.hashOf(last) === page.hashes.at(-1)) this.#peerPageAtMs = performance.now();
  }

  /** Compares the tail's history with that of the nodes, after a rollback or a fork. */
  recheck(): void {
    this.#doubts += 1;
    this.#tail.doubt();
    this.#wake();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#closing.abort(new Error('closing'));
    this.#wake();
  }

  /** Each second. */
  #look(): void {
    const nowMs = performance.now();
    const isNeeded = this.#isNeededNow();
    if (isNeeded) {
      this.#neededAtMs = nowMs;
      this.#needSinceMs ??= nowMs;
      if (!this.#isAppointed) this.#events.wanted();
    } else if (nowMs - this.#neededAtMs >= needMs) this.#needSinceMs = undefined;
    this.#begin();
  }

  #isNeededNow(): boolean {
    const { mode, minReads } = this.#settings;
    const finds = this.#tail.takeFinds();
    if (mode !== 'auto') return mode === 'always';
    // Below half of the rate it stops: a rate near the bound would start and stop it again and again.
    const isStarted = this.#needSinceMs !== undefined;
    this.#secondsAbove = finds > (isStarted ? minReads / 2 : minReads) ? this.#secondsAbove + 1 : 0;
    const isOften = this.#secondsAbove >= (isStarted ? 1 : oftenSeconds);
    return isOften || [...this.needs].some((isNeeded) => isNeeded());
  }

  #mayRun(nowMs: number): boolean {
    if (this.#closing.signal.aborted || this.#settings.mode === 'off' || this.#tail.isDistrusted) return false;
    const isNeeded = nowMs - this.#neededAtMs < needMs;
    if (this.#isAppointed) return isNeeded || nowMs - this.#wantedAtMs < peerNeedMs;
    return isNeeded && this.#isStarved(nowMs);
  }

  /** Whether the process that reads for all hangs. */
  #isStarved(nowMs: number): boolean {
    const sinceMs = Math.max(this.#peerPageAtMs, this.#needSinceMs ?? nowMs);
    return nowMs - sinceMs >= starvedMs && this.#isBehind();
  }

  #isBehind(): boolean {
    const { head } = this.#fleet;
    const { next } = this.#tail;
    return head !== undefined && (next === undefined || head.version >= next);
  }

  #begin(): void {
    if (!this.#isRunning && this.#mayRun(performance.now())) void this.#run();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    this.#isFirst = true;
    while (this.#mayRun(performance.now())) {
      const startedAtMs = performance.now();
      const afterMs = await this.#step(startedAtMs);
      this.#measureLag();
      await this.#pause(startedAtMs, afterMs);
    }
    this.#isRunning = false;
    this.#behindSinceMs = undefined;
  }

  /** Reads one page, or compares histories. Returns the least distance of the next step from this one, in ms. */
  async #step(startedAtMs: number): Promise<number> {
    const tail = this.#tail;
    const { head } = this.#fleet;
    if (head === undefined) return pace.usual;
    this.#measureLag();
    if (tail.isChecking) return this.#compare(startedAtMs);
    let next = tail.next;
    // A head that one node alone reports may be false, and nodes that are asked for what is above theirs answer nothing.
    const { confirmed = head.version } = this.#fleet.ledger;
    if (next === undefined || confirmed - next > farthest) {
      next = (confirmed + 1n) as LedgerVersion;
      tail.restart(next);
    }
    // The next transactions are few. A page with the known one would be too large again, at each step.
    if (next > head.version) this.#size = next === this.#behindLarge ? pageSizes.length - 1 : 0;
    const limit = pageSizes[this.#size] ?? 1;
    // A page of one transaction has no room for another.
    const first = (limit > 1 && next > 0n ? next - 1n : next) as LedgerVersion;
    const page = await this.#readPage(first, limit, tail.hashOf(first), this.#closing.signal);
    if (typeof page === 'string') return this.#missed(page, next, startedAtMs);
    this.#take(page, next, startedAtMs);
    return page.hashes.length === limit ? 0 : this.#pace();
  }

  #take(page: Page, next: LedgerVersion, startedAtMs: number): void {
    const nowMs = performance.now();
    this.#circuit.succeed(startedAtMs, nowMs);
    this.#contradictions = 0;
    this.#goodPages += 1;
    if (this.#goodPages >= goodPages) this.#size = 0;
    this.#metrics.page('taken');
    this.#tail.take(page);
    const news = Math.max(0, Number(page.first - next) + page.hashes.length);
    this.#metrics.transactions.inc(news);
    // A worker that reads because the appointed one hangs does so for itself.
    if (this.#isAppointed && (news > 0 || nowMs - this.#publishedAtMs >= signOfLifeMs)) {
      this.#publishedAtMs = nowMs;
      this.#events.publish(page);
    }
    this.#proof.consider(page, news, this.#isFirst);
    this.#isFirst = false;
  }

  /** Records that there is no page. Returns the distance of the next step. */
  #missed(why: NoPage, next: LedgerVersion, startedAtMs: number): number {
    const isRefused = why === 'other history' || why === 'not believed';
    this.#metrics.page(isRefused ? 'refused' : 'failed');
    if (why === 'not reached') return pace.usual;
    if (why === 'too large') {
      this.#goodPages = 0;
      const isOfKnown = (this.#fleet.head?.version ?? next) < next;
      if (isOfKnown) this.#behindLarge = next;
      else if (this.#size < pageSizes.length - 1) this.#size += 1;
      else {
        // The tail skips a transaction that is too large for it.
        this.#behindLarge = (next + 1n) as LedgerVersion;
        this.#tail.restart(this.#behindLarge);
      }
      return 0;
    }
    if (why === 'other history') {
      this.#contradictions += 1;
      if (this.#contradictions === mostContradictions) this.recheck();
      return pace.usual;
    }
    return this.#failed(startedAtMs);
  }

  #failed(startedAtMs: number): number {
    // From start to start, as all distances of steps.
    return this.#circuit.fail('page', startedAtMs, startedAtMs) ?? pauses.firstMs;
  }

  #pace(): number {
    if (!this.#fleet.sender.hasToSpare({ kind: 'head' })) return pace.busy;
    return this.#isBehind() ? pace.behind : pace.usual;
  }

  /** Resolves so long after the start of the step; at once when the history is doubted, sooner with news of the head. */
  async #pause(startedAtMs: number, afterMs: number): Promise<void> {
    const { signal } = this.#closing;
    const doubts = this.#doubts;
    for (;;) {
      const leftMs = startedAtMs + afterMs - performance.now();
      if (leftMs <= 0 || signal.aborted || doubts !== this.#doubts) return;
      await this.#sleep(Math.min(leftMs, pace.behind));
      if (afterMs === pace.usual && this.#isBehind() && performance.now() - startedAtMs >= pace.behind) return;
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #measureLag(): void {
    this.#behindSinceMs = this.#isRunning && this.#isBehind() ? (this.#behindSinceMs ?? performance.now()) : undefined;
  }

  /** Settles a doubted history: the tail drops what the nodes have otherwise. Returns the distance of the next step. */
  async #compare(startedAtMs: number): Promise<number> {
    const doubts = this.#doubts;
    const version = await this.#findDifference();
    // Another generation, or another fork: this comparison may be of the one before.
    if (doubts !== this.#doubts) return 0;
    if (version === undefined) return this.#failed(startedAtMs);
    this.#circuit.succeed(startedAtMs, performance.now());
    this.#contradictions = 0;
    this.#tail.rollBack(version);
    // Also where nothing differs: the others may be in doubt.
    if (this.#isAppointed) this.#events.rolledBack(version);
    return 0;
  }

  /** The first version that the nodes have otherwise, or lack, as far as it was compared. `undefined`: nodes failed. */
  async #findDifference(): Promise<LedgerVersion | undefined> {
    const tail = this.#tail;
    const { head } = this.#fleet;
    const { next } = tail;
    if (head === undefined || next === undefined) return undefined;
    let from = (head.version < next ? head.version + 1n : next) as LedgerVersion;
    let differs = from;
    for (let count = 0; count < comparedPages; count += 1) {
      const end = from;
      from = (end > 100n ? end - 100n : 0n) as LedgerVersion;
      if (from === end || tail.hashOf(end - 1n) === undefined) return differs;
      const page = await this.#readPage(from, Number(end - from), undefined, this.#closing.signal);
      if (typeof page === 'string') return page === 'too large' ? from : undefined;
      const { hashes } = page;
      const upTo = (from + BigInt(hashes.length)) as LedgerVersion;
      if (upTo < end) differs = upTo;
      const known = hashes.map((_, index) => tail.hashOf(page.first + BigInt(index)));
      const at = hashes.findIndex((hash, index) => known[index] !== undefined && known[index] !== hash);
      if (at === -1) return differs;
      differs = (from + BigInt(at)) as LedgerVersion;
      if (at > 0 && known[at - 1] !== undefined) return differs;
    }
    return differs;
  }
}

/** Registers the families of the follower; `follower` is read at each scrape. */
export function createFollowerMetrics(registry: Registry, follower: () => Pick<Follower, 'isRunning' | 'lagSeconds'>) {
  new Gauge(registry, {
    name: 'ledgergate_follower_running',
    help: '1 while a process reads new transactions for waits and streams: at most one, unless the one that does for all hangs.',
    read: () => Number(follower().isRunning),
  });
  new Gauge(registry, {
    name: 'ledgergate_follower_lag_seconds',
    help: 'How long transactions that a node has reported are missing at the follower; 0 when none are, or it does not run.',
    join: 'max',
    read: () => follower().lagSeconds,
  });
  const transactions = new Counter(registry, {
    name: 'ledgergate_follower_transactions_total',
    help: 'New transactions that the follower has read.',
  }).of({});
  const page = new Counter(registry, {
    name: 'ledgergate_follower_pages_total',
    help: 'Pages that the follower has looked for, by result: taken, refused (of another history, or of an upstream that is not believed), failed (also: no upstream that answers has the next transaction).',
    labels: { result: ['taken', 'refused', 'failed'] },
  }).by('result');
  return { transactions, page };
}
