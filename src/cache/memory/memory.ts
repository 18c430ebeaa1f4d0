/**
 * The first tier: least recently used answers in memory, bounded by bytes. An answer that is the same at many versions
 * is held once, together with its compressed forms; a version that was not read is never inferred from its neighbours.
 */
import { setImmediate } from 'node:timers/promises';
import { Answers, type AnswerId, type BytesRange } from './answers.ts';
import { mutableTtlMs, type CachedResponse, type Coded, type ContentCoding } from '../entry.ts';
import type { CacheKey } from '../key.ts';
import { marksMatcher, marksOf, type PurgeScope } from '../purge/purge-scope.ts';
import { ReadTable, type ReadId } from './read-table.ts';

export interface MemoryCacheOptions {
  /** At the start; see `resize`. */
  readonly maxBytes: number;
  /** Called with the number of reads that were evicted. */
  onEvict(reads: number): void;
}

/** Where memory has the answer of a read. */
export interface CacheLocation {
  readonly row: ReadId;
  readonly answer: AnswerId;
  /** Of the read: as long as it stays the same, the answer is there. Good for a minute: see `ReadTable.stampOf`. */
  readonly stamp: number;
}

/** No single answer may push out more than this share of everything else. */
const largestShare = 1 / 8;
/** Bytes of a read beside its answer: a row of 60, in a table that is four fifths full on average. */
const readBytes = 75;

/** A bound is lowered in steps of so many bytes: a few milliseconds each, however small the answers are. */
const bytesAtOnce = 4 * 1024 * 1024;
/** A purge looks at so many reads before it yields the event loop: a few milliseconds. */
const readsAtOnce = 5_000;

export class MemoryCache {
  readonly #options: MemoryCacheOptions;
  /** The bound in force; on its way to `#wantedBytes`. */
  #maxBytes: number;
  #wantedBytes: number;
  readonly #reads = new ReadTable();
  readonly #answers = new Answers();
  /** Calls of `clear` so far. */
  #clears = 0;

  constructor(options: MemoryCacheOptions) {
    this.#options = options;
    this.#maxBytes = options.maxBytes;
    this.#wantedBytes = options.maxBytes;
  }

  /**
   * Keeps to another bound from now on. The excess is evicted in steps that yield the event loop; resolves when that is
   * done, or another call has taken it over.
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

  find(key: CacheKey): CachedResponse | undefined {
    const read = this.#reads.find(key);
    if (read !== undefined) this.#reads.touch(read);
    return this.#answerOf(read);
  }

  /** As `find`, without counting as a use of the answer. */
  peek(key: CacheKey): CachedResponse | undefined {
    return this.#answerOf(this.#reads.find(key));
  }

  /** Where the answer of a read is, when it is one for ever: good as long as it `isHeld`. */
  locate(key: CacheKey): CacheLocation | undefined {
    const read = this.#reads.find(key);
    if (read === undefined || this.#reads.endsAt(read)) return undefined;
    return { row: read, answer: this.#reads.answerOf(read), stamp: this.#reads.stampOf(read) };
  }

  /** Whether the location is still good: to be asked each time before one of the four below. */
  isHeld({ row, stamp }: CacheLocation): boolean {
    return this.#reads.stampOf(row) === stamp;
  }

  /** The answer is used now. */
  use({ row }: CacheLocation): void {
    this.#reads.touch(row);
  }

  answerOf({ answer }: CacheLocation): CachedResponse {
    return this.#answers.get(answer);
  }

  /** Where the body lies; the object is good until the next call, and until the cache is changed. */
  bodyOf({ answer }: CacheLocation): Readonly<BytesRange> {
    return this.#answers.bodyOf(answer);
  }

  codedOf({ answer }: CacheLocation): Coded {
    return this.#answers.codedOf(answer);
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
    const endMs = answer.isImmutable ? undefined : performance.now() + Math.min(ttlMs, mutableTtlMs);
    const read = this.#reads.find(key);
    if (read === undefined) this.#reads.add(key, marksOf(key.page), held, endMs);
    else {
      this.#answers.release(this.#reads.answerOf(read));
      this.#reads.setAnswer(read, held, endMs);
      this.#reads.touch(read);
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
    const { size } = this.#reads;
    this.#reads.clear();
    this.#answers.clear();
    this.#clears += 1;
    return size;
  }

  /** Forgets one read; the number of reads. */
  forget(key: CacheKey): number {
    const read = this.#reads.find(key);
    if (read === undefined) return 0;
    this.#remove(read);
    return 1;
  }

  /** Forgets the reads within the scope, in steps: reads that come meanwhile may still find what goes. */
  async purge(scope: Exclude<PurgeScope, { kind: 'read' }>): Promise<number> {
    const matches = marksMatcher(scope);
    const reads = this.#reads;
    const [{ end }, clears] = [reads, this.#clears];
    let purged = 0;
    for (let read = 0; read < end; read += 1) {
      if (read > 0 && read % readsAtOnce === 0) await setImmediate();
      if (this.#clears !== clears) break;
      // A row that was freed meanwhile may belong to another read by now, which is looked at as well.
      if (!reads.holds(read) || !matches(reads.marksOf(read))) continue;
      this.#remove(read);
      purged += 1;
    }
    return purged;
  }

  /** `answers`: different ones, each held once. */
  get fill(): { readonly entries: number; readonly answers: number; readonly bytes: number } {
    return { entries: this.#reads.size, answers: this.#answers.count, bytes: this.#bytes };
  }

  /** The bound, also while the excess is still being evicted. */
  get maxBytes(): number {
    return this.#wantedBytes;
  }

  get #bytes(): number {
    return this.#reads.size * readBytes + this.#answers.bytes;
  }

  get #largest(): number {
    return Math.max(1, Math.floor(this.#wantedBytes * largestShare));
  }

  #answerOf(read: ReadId | undefined): CachedResponse | undefined {
    if (read === undefined || this.#reads.hasEnded(read)) return undefined;
    return this.#answers.get(this.#reads.answerOf(read));
  }

  #makeRoom(): void {
    while (this.#bytes > this.#maxBytes && this.#reads.oldest !== undefined) {
      this.#remove(this.#reads.oldest);
      this.#options.onEvict(1);
    }
  }

  #remove(read: ReadId): void {
    this.#answers.release(this.#reads.answerOf(read));
    this.#reads.remove(read);
  }
}
