/**
 * The first tier: least recently used answers in memory, bounded by bytes. An answer that is the same at many versions
 * is held once, together with its compressed forms; which versions it was read at is kept by page, and a version that
 * was not read is never inferred from its neighbours.
 *
 * Pages and answers are numbers, and what is known of them lies in tables: a million objects would take twice the room,
 * and make the garbage collector stand still.
 */
import { setImmediate } from 'node:timers/promises';
import { Answers, type AnswerId, type Place } from './answers.ts';
import { mutableTtlMs, type CachedResponse, type Coded, type ContentCoding } from './entry.ts';
import type { CacheKey } from './key.ts';
import { marksMatcher, marksOf } from './purge-marks.ts';
import type { PurgeScope } from './purge-scope.ts';
import { PageIndex, type PageId } from './page-index.ts';
import { PageTable } from './page-table.ts';

export interface MemoryOptions {
  /** At the start; see `resize`. */
  readonly maxBytes: number;
  /** Called with the number of reads that were pushed out. */
  onEvict(reads: number): void;
}

/** Where memory has the answer of a read. */
export interface Held {
  readonly page: PageId;
  readonly answer: AnswerId;
  /** Of the page: as long as it stays the same, the answer is there. Good for a minute: see `PageTable.stampOf`. */
  readonly stamp: number;
}

/** No single answer may push out more than this share of everything else. */
const largestShare = 1 / 8;
/** What a page takes, and what each version beyond its first one does. Measured. */
const pageBytes = 94;
const slotBytes = 45;

/** A bound is lowered in steps of so many bytes: a few milliseconds each, however small the answers are. */
const bytesAtOnce = 4 * 1024 * 1024;
/** A purge looks at so many pages before others have their turn: a few milliseconds. */
const pagesAtOnce = 5_000;

export class MemoryCache {
  readonly #options: MemoryOptions;
  /** What is kept to now; on its way to `#wantedBytes`. */
  #maxBytes: number;
  #wantedBytes: number;
  #pages = new PageIndex();
  readonly #table = new PageTable();
  readonly #answers = new Answers();
  /** Versions beyond the first on their pages. */
  #otherReads = 0;

  constructor(options: MemoryOptions) {
    this.#options = options;
    this.#maxBytes = options.maxBytes;
    this.#wantedBytes = options.maxBytes;
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
    const page = this.#pages.find(id);
    if (page === undefined) return undefined;
    this.#pages.touch(page);
    return this.#answerAt(page, slot);
  }

  /** Where the answer of a read is, when it is one for ever: to be asked for by this as long as it `isHeld`. */
  locate({ id, slot }: CacheKey): Held | undefined {
    const page = this.#pages.find(id);
    if (page === undefined || this.#table.endsAt(page)) return undefined;
    const answer = this.#table.find(page, slot);
    return answer === undefined ? undefined : { page, answer, stamp: this.#table.stampOf(page) };
  }

  /** Whether it is still so: to be asked each time before one of the four below. */
  isHeld({ page, stamp }: Held): boolean {
    return this.#table.stampOf(page) === stamp;
  }

  /** The answer is used now. */
  use({ page }: Held): void {
    this.#pages.touch(page);
  }

  answerOf({ answer }: Held): CachedResponse {
    return this.#answers.get(answer);
  }

  /** Where the body lies; the object is good until the next call, and until the cache is changed. */
  bodyOf({ answer }: Held): Readonly<Place> {
    return this.#answers.bodyOf(answer);
  }

  codedOf({ answer }: Held): Coded {
    return this.#answers.codedOf(answer);
  }

  /** As `find`, without counting as a use of the answer. */
  peek({ id, slot }: CacheKey): CachedResponse | undefined {
    const page = this.#pages.find(id);
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
    const page = this.#pages.find(key.id);
    // Answers with an end have a page of their own, and a new end with each answer.
    if (page !== undefined && !answer.isImmutable) this.#leave(page);
    if (page === undefined || !answer.isImmutable) {
      const endMs = answer.isImmutable ? undefined : performance.now() + Math.min(ttlMs, mutableTtlMs);
      this.#table.add(this.#pages.add(key.id), { slot: key.slot, answer: held, endMs, marks: marksOf(key.page) });
    } else {
      this.#pages.touch(page);
      this.#place(page, key.slot, held);
    }
    this.#makeRoom();
    const coded = this.#answers.codedOf(held);
    return coded === answer.coded ? answer : { ...answer, coded };
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
    this.#pages = new PageIndex();
    this.#table.clear();
    this.#answers.clear();
    this.#otherReads = 0;
    return reads;
  }

  /** Forgets one read; the number of reads. */
  forget({ id, slot }: CacheKey): number {
    const page = this.#pages.find(id);
    if (page === undefined) return 0;
    const before = this.#reads;
    if (this.#table.othersOf(page) > 0) this.#take(page, slot);
    else if (this.#table.slotOf(page) === slot) this.#leave(page);
    return before - this.#reads;
  }

  /**
   * Forgets the reads of every page within the scope, in steps between which others are served: reads that come
   * meanwhile may still find what goes. Only the list of all pages is made in one go: some 10 ms for a million.
   */
  async purge(scope: Exclude<PurgeScope, { kind: 'read' }>): Promise<number> {
    const matches = marksMatcher(scope);
    let reads = 0;
    const pages = this.#pages;
    const listed = pages.list();
    for (let from = 0; from < listed.length; from += pagesAtOnce) {
      if (from > 0) await setImmediate();
      // Everything has been forgotten meanwhile.
      if (this.#pages !== pages) break;
      const before = this.#reads;
      for (const page of listed.subarray(from, from + pagesAtOnce)) {
        // A page that has gone may be another one by now, which is looked at as well.
        if (pages.holds(page) && matches(this.#table.marksOf(page))) this.#leave(page);
      }
      reads += before - this.#reads;
    }
    return reads;
  }

  /** `answers`: different ones, each held once. */
  get fill(): { readonly entries: number; readonly answers: number; readonly bytes: number } {
    return { entries: this.#reads, answers: this.#answers.count, bytes: this.#bytes };
  }

  /** What may be held, or will be kept to once what is too much is gone. */
  get maxBytes(): number {
    return this.#wantedBytes;
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
    while (this.#bytes > this.#maxBytes && this.#pages.oldest !== undefined) {
      this.#options.onEvict(this.#leave(this.#pages.oldest));
    }
  }

  /** Forgets a page; the number of reads on it. */
  #leave(page: PageId): number {
    this.#pages.remove(page);
    const answers = this.#table.remove(page);
    this.#otherReads -= answers.length - 1;
    for (const answer of answers) this.#answers.release(answer);
    return answers.length;
  }
}
