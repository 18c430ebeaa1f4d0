/**
 * The newest transactions of the ledger: pages that the follower read, as the answers and frames that they contain. Pages
 * are kept whole; a transaction enters the cache when it is asked for, as most never are.
 */
import { type Cache, mutableTtlMs, ownBytes } from '../../../cache/index.ts';
import { JsonBody, type LedgerInfo, type LedgerVersion } from '../../../ledger/index.ts';
import type { Fleet } from '../../../upstream/index.ts';
import type { AnswerFacts } from '../policy.ts';
import type { Read } from '../read.ts';
import { type Filter, type Frames, Items, joinFrames, type Page } from './page.ts';

/** A part that reads the tail as it grows. */
export interface TailListener {
  onPage?(page: Page): void;
  /** Transactions from `version` on are of another history. */
  onRollback(version: LedgerVersion): void;
  onDistrusted(): void;
}

/** Without a page for so long, in ms, the newest transactions may be others. */
const currentMs = 2_000;
/** The follower has stopped when there was no page for so long, in ms. */
const idleMs = 60_000;
/** Hashes outlive their pages: they show where two histories part. */
const mostHashes = 2_000;
/** Bytes that a transaction takes beside its own. */
const itemBytes = 200;
/** Versions behind the head that are asked for as recent ones. */
const recent = 10_000n;
/** In ms. A transaction that the cache takes to keep it for its whole time must not be much older than a node's answer. */
const foundMs = 60_000;
/** Larger transactions are read in turns of the event loop: a node is asked. */
const largestFound = 64 * 1024;

/** The ring of pages of one process. */
export class Tail {
  readonly listeners = new Set<TailListener>();
  readonly #fleet: Pick<Fleet, 'generation' | 'head'>;
  readonly #tiers: Pick<Cache['tiers'], 'purges'>;
  readonly #maxBytes: () => number;
  /** Oldest first, without gaps. */
  readonly #pages: HeldPage[] = [];
  /** By hash, of the transactions in `#pages`. */
  readonly #versions = new Map<string, LedgerVersion>();
  /** Hashes of the versions before `#next`. */
  #hashes: string[] = [];
  #next: LedgerVersion | undefined;
  #bytes = 0;
  /** Pages from before a purge are not given out; a generation of the ledger begins with one. */
  #purges: number;
  #generation: number;
  #isDoubted = false;
  #isDistrusted = false;
  #takenAtMs = -Infinity;
  #sinceMs = Infinity;
  #finds = 0;
  /** Versions above `above` are recent beside the head `before`: a miss makes no number of its own. */
  #recent: { readonly before: LedgerInfo | undefined; readonly above: bigint } = { before: undefined, above: 0n };
  #idle: NodeJS.Timeout | undefined;

  /** `maxBytes`: of all pages. */
  constructor(
    fleet: Pick<Fleet, 'generation' | 'head'>,
    tiers: Pick<Cache['tiers'], 'purges'>,
    maxBytes: () => number,
  ) {
    this.#fleet = fleet;
    this.#tiers = tiers;
    this.#maxBytes = maxBytes;
    this.#purges = tiers.purges;
    this.#generation = fleet.generation;
  }

  /** The version after the newest; `undefined`: it has none. */
  get next(): LedgerVersion | undefined {
    return this.#next;
  }

  /** A page came within 2 s, no history is being compared, and no page is distrusted. */
  get isCurrent(): boolean {
    return !this.#isDistrusted && !this.isChecking && performance.now() - this.#takenAtMs < currentMs;
  }

  /** Its history is to be compared with that of the nodes: until `rollBack` or `restart` it gives and takes nothing. */
  get isChecking(): boolean {
    return this.#isDoubted || (this.#next !== undefined && this.#generation !== this.#fleet.generation);
  }

  /** Transactions that were committed since then are in its pages: in ms of the clock. */
  get sinceMs(): number {
    return this.#sinceMs;
  }

  /** See `distrust`. */
  get isDistrusted(): boolean {
    return this.#isDistrusted;
  }

  /** Finds since the last call: the need of recent transactions. */
  takeFinds(): number {
    const finds = this.#finds;
    this.#finds = 0;
    return finds;
  }

  /** A read by hash, which `find` has counted, found a transaction of this version: an old one needs no new ones. */
  recordCommitted(version: LedgerVersion): void {
    if (version <= this.#recent.above) this.#finds -= 1;
  }

  /** A page that does not join begins anew; one that contradicts a known hash is refused. Listeners get news. */
  take(page: Page): void {
    if (this.#isDistrusted || this.isChecking) return;
    this.#dropStale();
    const { first, hashes } = page;
    if (this.#next === undefined || first > this.#next) this.restart(first);
    const next = this.#next ?? first;
    const agrees = (hash: string, index: number) => (this.hashOf(first + BigInt(index)) ?? hash) === hash;
    if (!hashes.every(agrees)) return;
    const nowMs = performance.now();
    this.#takenAtMs = nowMs;
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.#empty(), idleMs).unref();
    // Nodes may write them otherwise by now, as they may what the cache keeps.
    while (this.#pages.length > 0 && nowMs - (this.#pages[0]?.atMs ?? nowMs) >= mutableTtlMs) this.#dropPage();
    const news = hashes.slice(Number(next - first));
    if (news.length === 0) return;
    const held = new HeldPage(page, next, nowMs);
    this.#pages.push(held);
    this.#bytes += held.bytes;
    for (const [index, hash] of news.entries()) this.#versions.set(hash, (next + BigInt(index)) as LedgerVersion);
    this.#hashes.push(...news);
    this.#next = held.upTo;
    if (this.#hashes.length > 2 * mostHashes) this.#hashes = this.#hashes.slice(-mostHashes);
    while (this.#bytes > this.#maxBytes()) this.#dropPage();
    for (const listener of this.listeners) listener.onPage?.(held.page);
  }

  /** Drops all it has; the next page begins at `next`. */
  restart(next: LedgerVersion): void {
    this.#empty();
    this.#next = next;
    this.#settle();
  }

  /** The nodes may have another history by now: see `isChecking`. */
  doubt(): void {
    if (this.#next !== undefined) this.#isDoubted = true;
  }

  /** Drops transactions from `version` on; what is before is of the nodes' history. */
  rollBack(version: LedgerVersion): void {
    this.#dropStale();
    this.#settle();
    if (this.#next !== undefined && version < this.#next) this.#cut(version, this.#next);
    for (const listener of this.listeners) listener.onRollback(version);
  }

  /** Finds nothing from now on: a page differed from its node's own answer. */
  distrust(): void {
    if (this.#isDistrusted) return;
    this.#isDistrusted = true;
    this.#empty();
    for (const listener of this.listeners) listener.onDistrusted();
  }

  /** Known for the last 2,000 versions at least, also while `isChecking`. */
  hashOf(version: bigint): string | undefined {
    if (this.#next === undefined || version >= this.#next) return undefined;
    return this.#hashes[this.#hashes.length - Number(this.#next - version)];
  }

  /** Whether a page has the transaction. `find` need not answer with it. */
  has(hash: string): boolean {
    return this.#versions.has(hash);
  }

  /**
   * The answer to `by_version` or `by_hash` in JSON, ahead of the policy, which `Reader` applies. None above the believed
   * head, of a page older than a minute, or above 64 KiB: a node is asked for them. `upstream`: name of the page's node;
   * `ageMs`: time since the page came.
   */
  find(read: Pick<Read, 'operation' | 'subject' | 'version' | 'extent'>) {
    const { head } = this.#fleet;
    if (head === undefined || !this.#isOfRecent(read, head)) return undefined;
    this.#finds += 1;
    if (this.#pages.length === 0 || read.operation === 'transactions') return undefined;
    this.#dropStale();
    const version = read.operation === 'transaction' ? this.#versions.get(read.subject) : read.version;
    if (version === undefined || version > head.version || this.isChecking) return undefined;
    const held = this.#pageOf(version);
    const body = held?.items.bytesOf(version);
    if (held === undefined || body === undefined || body.length > largestFound) return undefined;
    const ageMs = performance.now() - held.atMs;
    if (ageMs > foundMs) return undefined;
    const { info, contentType, ownHeaders, upstream } = held.page;
    const headers = { 'content-type': contentType };
    const json = new JsonBody(body);
    const facts: AnswerFacts = { status: 200, info, headers, coding: undefined, body, json, isFramed: true };
    return { ...facts, ownHeaders, upstream, version, ageMs };
  }

  /** Frames of [from, upTo) in one piece; `undefined`: not all of them are held. */
  frames(from: LedgerVersion, upTo: LedgerVersion, filter?: Filter): Frames | undefined {
    this.#dropStale();
    const first = this.#pages[0];
    if (first === undefined || this.isChecking || from < first.from) return undefined;
    if (this.#next === undefined || upTo > this.#next) return undefined;
    const parts: Buffer[] = [];
    for (let version = from; version < upTo;) {
      const held = this.#pageOf(version);
      if (held === undefined) return undefined;
      version = held.items.addFrames(parts, version, held.upTo < upTo ? held.upTo : upTo, filter);
    }
    return joinFrames(parts);
  }

  /** Whether it is a read of transactions near the `head`. Any hash may be of one. */
  #isOfRecent({ operation, version, extent }: Pick<Read, 'operation' | 'version' | 'extent'>, head: LedgerInfo) {
    if (head !== this.#recent.before) this.#recent = { before: head, above: head.version - recent };
    if (operation === 'transaction') return true;
    const asked = extent?.kind === 'list' ? extent.first : version;
    return asked !== undefined && asked > this.#recent.above;
  }

  #pageOf(version: LedgerVersion): HeldPage | undefined {
    const pages = this.#pages;
    let low = 0;
    let high = pages.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const held = pages[middle] as HeldPage;
      if (version < held.from) high = middle - 1;
      else if (version >= held.upTo) low = middle + 1;
      else return held;
    }
    return undefined;
  }

  #cut(version: LedgerVersion, next: LedgerVersion): void {
    for (let held = this.#pages.at(-1); held !== undefined && held.upTo > version; held = this.#pages.at(-1)) {
      const from = held.from < version ? version : held.from;
      this.#forgetHashes(held, from);
      held.upTo = from;
      if (from > held.from) break;
      this.#pages.pop();
      this.#bytes -= held.bytes;
    }
    this.#hashes.length = Math.max(this.#hashes.length - Number(next - version), 0);
    this.#next = version;
  }

  #settle(): void {
    this.#isDoubted = false;
    this.#generation = this.#fleet.generation;
    this.#sinceMs = performance.now();
  }

  /** Hashes stay: they show from where on the history is another. */
  #dropStale(): void {
    const { purges } = this.#tiers;
    if (purges === this.#purges) return;
    this.#purges = purges;
    this.#dropPages();
  }

  #dropPages(): void {
    this.#pages.length = 0;
    this.#versions.clear();
    this.#bytes = 0;
  }

  /** Drops the oldest page. */
  #dropPage(): void {
    const held = this.#pages.shift();
    if (held === undefined) return;
    this.#bytes -= held.bytes;
    this.#forgetHashes(held, held.from);
  }

  /** Forgets the hashes of the page's transactions from `version` on. */
  #forgetHashes({ page, items, upTo }: HeldPage, version: LedgerVersion): void {
    for (const hash of page.hashes.slice(items.indexOf(version), items.indexOf(upTo))) this.#versions.delete(hash);
  }

  #empty(): void {
    clearTimeout(this.#idle);
    this.#idle = undefined;
    this.#dropPages();
    this.#hashes = [];
    this.#next = undefined;
    this.#sinceMs = Infinity;
    this.#isDoubted = false;
  }
}

/** A page in the ring, and the part of it that counts: [from, upTo). */
class HeldPage {
  readonly page: Page;
  readonly items: Items;
  readonly from: LedgerVersion;
  upTo: LedgerVersion;
  readonly atMs: number;
  readonly bytes: number;

  /** Another page has the versions before `from`. `atMs`: time at which it came. */
  constructor(page: Page, from: LedgerVersion, atMs: number) {
    // One that came from another process may be a part of a larger message.
    const body = ownBytes(page.body);
    this.page = body === page.body ? page : { ...page, body };
    this.items = new Items(this.page);
    this.from = from;
    this.atMs = atMs;
    this.upTo = this.items.end;
    this.bytes = body.length + page.hashes.length * itemBytes;
  }
}
