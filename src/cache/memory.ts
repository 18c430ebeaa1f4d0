/**
 * The first tier: least recently used answers in memory, bounded by bytes. An answer that is the same at many versions
 * is held once, together with its compressed forms; which versions it was read at is kept by page, and a version that
 * was not read is never inferred from its neighbours.
 */
import { setImmediate } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { answerBytes, mutableTtlMs, type CachedResponse, type ContentCoding } from './entry.ts';
import type { CacheKey } from './key.ts';

export interface MemoryOptions {
  /** At the start; see `resize`. */
  readonly maxBytes: number;
  /** Called with the number of reads that were pushed out. */
  onEvict(reads: number): void;
}

/** No single answer may push out more than this share of everything else. */
const largestShare = 1 / 8;
/** What a page takes beside its key's characters, and what each version beyond its first one does. Measured. */
const pageBytes = 280;
const slotBytes = 45;

/** The list of pages has no bound of its own, because that could not be changed: `#makeRoom` keeps to ours. */
const noBound = Number.MAX_SAFE_INTEGER;
/** A bound is lowered in steps of so many bytes: a few milliseconds each, however small the answers are. */
const bytesAtOnce = 4 * 1024 * 1024;
/** A purge looks at so many pages before others have their turn: a few milliseconds. */
const pagesAtOnce = 5_000;

/** An answer in use by at least one page. */
interface Held {
  readonly answer: CachedResponse;
  uses: number;
}

/** Reads of one thing at neighbouring versions. Most pages have one: only more of them need a map. */
interface Page {
  slot: number;
  held: Held;
  others: Map<number, Held> | undefined;
}

export class MemoryCache {
  readonly #options: MemoryOptions;
  /** What is kept to now; on its way to `#wantedBytes`. */
  #maxBytes: number;
  #wantedBytes: number;
  #pages: LRUCache<string, Page>;
  readonly #answers = new Map<string, Held>();
  /** Of answers and slots; the pages' own bytes are counted by `#pages`. */
  #heldBytes = 0;
  #reads = 0;

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

  find({ page, slot }: CacheKey): CachedResponse | undefined {
    const found = this.#pages.get(page);
    if (found === undefined) return undefined;
    return (found.slot === slot ? found.held : found.others?.get(slot))?.answer;
  }

  /** The answer with this digest, when some read has it. */
  findAnswer(digest: string): CachedResponse | undefined {
    return this.#answers.get(digest)?.answer;
  }

  /**
   * Keeps the answer and gives the one that is kept: an equal one that was there before, if there was. `ttlMs`: how
   * long an answer that is not for ever holds; less than usual where it is not fresh from a node.
   */
  store(key: CacheKey, answer: CachedResponse, ttlMs = mutableTtlMs): CachedResponse {
    if (answerBytes(answer) > this.#largest) return answer;
    const held = this.#hold(answer);
    // Answers with an end have a page of their own, and a new end with each answer.
    if (!answer.isImmutable) this.#pages.delete(key.page);
    const page = this.#pages.get(key.page);
    if (page === undefined) this.#open(key, held, answer.isImmutable ? 0 : Math.min(ttlMs, mutableTtlMs));
    else this.#place(page, key.slot, held);
    this.#makeRoom();
    return held.answer;
  }

  /** Keeps a compressed form with an answer, where that is still held and has room for it. */
  addCoded(answer: CachedResponse, coding: ContentCoding, body: Buffer): void {
    const isHeld = this.#answers.get(answer.digest)?.answer === answer;
    if (!isHeld || answer.coded[coding] !== undefined) return;
    if (answerBytes(answer) + body.length > this.#largest) return;
    answer.coded[coding] = body;
    this.#heldBytes += body.length;
    this.#makeRoom();
  }

  /** As `find`, without counting as a use of the answer. */
  peek({ page, slot }: CacheKey): CachedResponse | undefined {
    const found = this.#pages.peek(page);
    return (found?.slot === slot ? found.held : found?.others?.get(slot))?.answer;
  }

  /** Forgets everything, in one go however much it is; the number of reads. */
  clear(): number {
    const reads = this.#reads;
    this.#pages = this.#emptyPages();
    this.#answers.clear();
    this.#heldBytes = 0;
    this.#reads = 0;
    return reads;
  }

  /** Forgets one read; the number of reads. */
  forget({ page, slot }: CacheKey): number {
    const found = this.#pages.peek(page);
    if (found === undefined) return 0;
    const before = this.#reads;
    if (found.others === undefined || found.others.size === 0) {
      if (found.slot === slot) this.#pages.delete(page);
    } else this.#take(found, found.others, slot);
    return before - this.#reads;
  }

  /**
   * Forgets the reads of every page whose key `matches`, in steps between which others are served: reads that come
   * meanwhile may still find what goes. Only the list of all pages has to be made in one go: 0.7 s for a million.
   */
  async purge(matches: (page: string) => boolean): Promise<number> {
    let reads = 0;
    const pages = [...this.#pages.keys()];
    for (let from = 0; from < pages.length; from += pagesAtOnce) {
      if (from > 0) await setImmediate();
      const before = this.#reads;
      for (const page of pages.slice(from, from + pagesAtOnce)) if (matches(page)) this.#pages.delete(page);
      reads += before - this.#reads;
    }
    return reads;
  }

  /** `answers`: different ones, each held once. */
  get fill(): { readonly entries: number; readonly answers: number; readonly bytes: number } {
    return { entries: this.#reads, answers: this.#answers.size, bytes: this.#bytes };
  }

  /** What may be held, or will be kept to once what is too much is gone. */
  get maxBytes(): number {
    return this.#wantedBytes;
  }

  get #bytes(): number {
    return this.#pages.calculatedSize + this.#heldBytes;
  }

  get #largest(): number {
    return Math.max(1, Math.floor(this.#wantedBytes * largestShare));
  }

  #emptyPages(): LRUCache<string, Page> {
    return new LRUCache<string, Page>({
      maxSize: noBound,
      sizeCalculation: (_page, key) => pageBytes + key.length,
      dispose: (page, _key, reason) => this.#leave(page, reason === 'evict'),
      // The clock is read once in this many ms, not at every look-up.
      ttlResolution: 1000,
    });
  }

  #hold(answer: CachedResponse): Held {
    const known = this.#answers.get(answer.digest);
    if (known !== undefined) {
      known.uses += 1;
      return known;
    }
    const held = { answer, uses: 1 };
    this.#answers.set(answer.digest, held);
    this.#heldBytes += answerBytes(answer);
    return held;
  }

  #release(held: Held): void {
    held.uses -= 1;
    if (held.uses > 0) return;
    this.#answers.delete(held.answer.digest);
    this.#heldBytes -= answerBytes(held.answer);
  }

  /** `ttl` in ms; 0: for ever. */
  #open({ page, slot }: CacheKey, held: Held, ttl: number): void {
    this.#reads += 1;
    this.#pages.set(page, { slot, held, others: undefined }, { ttl });
  }

  #place(page: Page, slot: number, held: Held): void {
    if (page.slot === slot) {
      const before = page.held;
      page.held = held;
      this.#release(before);
      return;
    }
    page.others ??= new Map();
    const before = page.others.get(slot);
    page.others.set(slot, held);
    if (before !== undefined) return this.#release(before);
    this.#reads += 1;
    this.#heldBytes += slotBytes;
  }

  /** Takes one of several versions off a page. */
  #take(page: Page, others: Map<number, Held>, slot: number): void {
    const isFirst = page.slot === slot;
    const gone = isFirst ? page.held : others.get(slot);
    const [next] = others;
    if (gone === undefined || next === undefined) return;
    if (isFirst) [page.slot, page.held] = next;
    others.delete(isFirst ? next[0] : slot);
    this.#reads -= 1;
    this.#heldBytes -= slotBytes;
    this.#release(gone);
  }

  #makeRoom(): void {
    while (this.#bytes > this.#maxBytes && this.#pages.pop() !== undefined);
  }

  #leave(page: Page, isEvicted: boolean): void {
    const others = page.others?.size ?? 0;
    const reads = 1 + others;
    this.#reads -= reads;
    this.#heldBytes -= others * slotBytes;
    this.#release(page.held);
    for (const held of page.others?.values() ?? []) this.#release(held);
    if (isEvicted) this.#options.onEvict(reads);
  }
}
