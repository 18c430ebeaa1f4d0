/**
 * The first tier: least recently used answers in memory, bounded by bytes. An answer that is the same at many versions
 * is held once, together with its compressed forms; which versions it was read at is kept by page, and a version that
 * was not read is never inferred from its neighbours.
 *
 * Pages and answers are numbers, and what is known of them lies in tables: a million objects would take twice the room,
 * and make the garbage collector stand still.
 */
import { setImmediate } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { Answers, type AnswerId } from './answers.ts';
import { mutableTtlMs, type CachedResponse, type ContentCoding } from './entry.ts';
import type { CacheKey } from './key.ts';
import { marksMatcher, marksOf } from './purge-marks.ts';
import type { PurgeScope } from './purge-scope.ts';
import { PageTable, type PageId } from './page-table.ts';

export interface MemoryOptions {
  /** At the start; see `resize`. */
  readonly maxBytes: number;
  /** Called with the number of reads that were pushed out. */
  onEvict(reads: number): void;
}

/** No single answer may push out more than this share of everything else. */
const largestShare = 1 / 8;
/** What a page takes, and what each version beyond its first one does. Measured. */
const pageBytes = 180;
const slotBytes = 45;

/** The list of pages has no bound of its own, because that could not be changed: `#makeRoom` keeps to ours. */
const noBound = Number.MAX_SAFE_INTEGER;
/** A bound is lowered in steps of so many bytes: a few milliseconds each, however small the answers are. */
const bytesAtOnce = 4 * 1024 * 1024;
/** A purge looks at so many pages before others have their turn: a few milliseconds. */
const pagesAtOnce = 5_000;

export class MemoryCache {
  readonly #options: MemoryOptions;
  /** What is kept to now; on its way to `#wantedBytes`. */
  #maxBytes: number;
  #wantedBytes: number;
  /** By the key's id, in the order of use. */
  #pages: LRUCache<string, PageId>;
  readonly #table = new PageTable();
  readonly #answers = new Answers();
  /** Versions beyond the first on their pages. */
  #otherReads = 0;

  constructor(options: MemoryOptions) {
    this.#options = options;
    this.#maxBytes = options.maxBytes;
    this.#wantedBytes = options.maxBytes;
    this.#pages = this.#emptyPages();
  }

  /**
   * Keeps to another bound from now on. What is too much is pushed out in steps, between which others are served;
   * resolves when that is done, or another call has taken it over.
   */
  async resize(maxBytes: number): Promise<void> {
    this.#wantedBytes = maxBytes;
    this.#maxBytes = Math.max(maxBytes, Math.min(this.#maxBytes, this.#bytes));
    while (this.#maxBytes > maxBytes && this.#wantedBytes === maxBytes) {
      this.#maxBytes = Math.max(maxBytes, this.#maxBytes - bytesAtOnce);
      this.#makeRoom();
      await setImmediate();
    }
  }

  find({ id, slot }: CacheKey): CachedResponse | undefined {
    const page = this.#pages.get(id);
    return page === undefined ? undefined : this.#answerAt(page, slot);
  }

  /** As `find`, without counting as a use of the answer. */
  peek({ id, slot }: CacheKey): CachedResponse | undefined {
    const page = this.#pages.peek(id);
    return page === undefined ? undefined : this.#answerAt(page, slot);
  }

  /** The answer with this digest, when some read has it. */
  findAnswer(digest: string): CachedResponse | undefined {
    const id = this.#answers.find(digest);
    return id === undefined ? undefined : this.#answers.get(id);
  }

  /**
   * Keeps the answer, and gives it with the compressed forms that are known of it. `ttlMs`: how long an answer that is
   * not for ever holds; less than usual where it is not fresh from a node.
   */
  store(key: CacheKey, answer: CachedResponse, ttlMs = mutableTtlMs): CachedResponse {
    if (answer.body.length > this.#largest) return answer;
    const held = this.#answers.hold(answer);
    // Answers with an end have a page of their own, and a new end with each answer.
    if (!answer.isImmutable) this.#pages.delete(key.id);
    const page = this.#pages.get(key.id);
    if (page !== undefined) this.#place(page, key.slot, held);
    else {
      const endMs = answer.isImmutable ? undefined : performance.now() + Math.min(ttlMs, mutableTtlMs);
      this.#pages.set(key.id, this.#table.add({ slot: key.slot, answer: held, endMs, marks: marksOf(key.page) }));
    }
    this.#makeRoom();
    return { ...answer, coded: this.#answers.codedOf(held) };
  }

  /** Keeps a compressed form with an answer, where that is still held and has room for it. */
  addCoded(answer: CachedResponse, coding: ContentCoding, body: Buffer): void {
    const id = this.#answers.find(answer.digest);
    if (id === undefined || answer.body.length + body.length > this.#largest) return;
    this.#answers.addCoded(id, coding, body);
    this.#makeRoom();
  }

  /** Forgets everything, in one go however much it is; the number of reads. */
  clear(): number {
    const reads = this.#reads;
    this.#pages = this.#emptyPages();
    this.#table.clear();
    this.#answers.clear();
    this.#otherReads = 0;
    return reads;
  }

  /** Forgets one read; the number of reads. */
  forget({ id, slot }: CacheKey): number {
    const page = this.#pages.peek(id);
    if (page === undefined) return 0;
    const before = this.#reads;
    if (this.#table.othersOf(page) > 0) this.#take(page, slot);
    else if (this.#table.slotOf(page) === slot) this.#pages.delete(id);
    return before - this.#reads;
  }

  /**
   * Forgets the reads of every page within the scope, in steps between which others are served: reads that come
   * meanwhile may still find what goes. Only the list of all pages has to be made in one go: 0.7 s for a million.
   */
  async purge(scope: Exclude<PurgeScope, { kind: 'read' }>): Promise<number> {
    const matches = marksMatcher(scope);
    let reads = 0;
    const pages = [...this.#pages.keys()];
    for (let from = 0; from < pages.length; from += pagesAtOnce) {
      if (from > 0) await setImmediate();
      const before = this.#reads;
      for (const id of pages.slice(from, from + pagesAtOnce)) {
        const page = this.#pages.peek(id);
        if (page !== undefined && matches(this.#table.marksOf(page))) this.#pages.delete(id);
      }
      reads += before - this.#reads;
    }
    return reads;
  }

  /** `answers`: different ones, each held once. */
  get fill(): { readonly entries: number; readonly answers: number; readonly bytes: number } {
    return { entries: this.#reads, answers: this.#answers.count, bytes: this.#bytes };
  }

  get #reads(): number {
    return this.#pages.size + this.#otherReads;
  }

  get #bytes(): number {
    return this.#pages.size * pageBytes + this.#otherReads * slotBytes + this.#answers.bytes;
  }

  get #largest(): number {
    return Math.max(1, Math.floor(this.#wantedBytes * largestShare));
  }

  #emptyPages(): LRUCache<string, PageId> {
    return new LRUCache<string, PageId>({
      maxSize: noBound,
      sizeCalculation: () => 1,
      dispose: (page, _id, reason) => this.#leave(page, reason === 'evict'),
    });
  }

  #answerAt(page: PageId, slot: number): CachedResponse | undefined {
    const answer = this.#table.find(page, slot);
    return answer === undefined ? undefined : this.#answers.get(answer);
  }

  #place(page: PageId, slot: number, answer: AnswerId): void {
    const before = this.#table.place(page, slot, answer);
    if (before === undefined) this.#otherReads += 1;
    else this.#answers.release(before);
  }

  /** Takes one of several versions off a page. */
  #take(page: PageId, slot: number): void {
    const gone = this.#table.take(page, slot);
    if (gone === undefined) return;
    this.#otherReads -= 1;
    this.#answers.release(gone);
  }

  #makeRoom(): void {
    while (this.#bytes > this.#maxBytes && this.#pages.pop() !== undefined);
  }

  #leave(page: PageId, isEvicted: boolean): void {
    const answers = this.#table.remove(page);
    this.#otherReads -= answers.length - 1;
    for (const answer of answers) this.#answers.release(answer);
    if (isEvicted) this.#options.onEvict(answers.length);
  }
}
