import { setImmediate } from 'node:timers/promises';
import { Answers, type BytesRange } from './answers.ts';
import type { CachedResponse, Coded, ContentCoding } from '../record.ts';
import type { CacheKey } from '../key.ts';
import { operations, type Operation } from '../kinds.ts';
import { marksMatcher, marksOf, type PurgeScope } from '../purge.ts';
import { ReadTable, type Row } from './tables.ts';

/** The place of a read's answer in memory. */
export interface CacheLocation {
  readonly row: Row;
  readonly answer: Row;
  /** The read's stamp (`ReadTable.stampOf`): while it is unchanged, the answer is there. To be used within a minute. */
  readonly stamp: number;
}

/** No single answer may evict more than this share of the others. */
const largestShare = 1 / 8;
/** Bytes of a read beside its answer: a row of 60, in a table that is four fifths full on average. */
const readBytes = 75;

/** Bytes of one step of `resize`: a few milliseconds, however small the answers are. */
const bytesAtOnce = 4 * 1024 * 1024;
/** Reads that a purge visits before it yields the event loop: a few milliseconds. */
const readsAtOnce = 5_000;

/**
 * The first tier: an LRU of answers in memory, bounded by bytes. Versions with an equal answer share it and its
 * compressed forms; the answer at a version is never inferred from its neighbours.
 */
export class MemoryCache {
  readonly #onEvict: () => void;
  readonly #onNeverRead: (kind: Operation) => void;
  /** The bound in force, which `resize` lowers step by step to `#wantedBytes`. */
  #maxBytes: number;
  #wantedBytes: number;
  readonly #reads = new ReadTable();
  readonly #answers = new Answers();
  /** Calls of `clear`, by which a purge in steps notices one. */
  #clears = 0;

  /**
   * `maxBytes`: at the start; see `resize`. `onEvict`: a read was evicted. `onNeverRead`: a stored read left memory, or its
   * lifetime ended, without a hit.
   */
  constructor(maxBytes: number, onEvict: () => void = () => {}, onNeverRead: (kind: Operation) => void = () => {}) {
    this.#onEvict = onEvict;
    this.#onNeverRead = onNeverRead;
    this.#maxBytes = maxBytes;
    this.#wantedBytes = maxBytes;
  }

  /** Changes the bound; resolves when the excess is evicted, in steps, or a later call has taken over. */
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
    if (read === undefined || this.#reads.hasEnded(read)) return undefined;
    this.#reads.use(read);
    return this.#answers.get(this.#reads.answerOf(read));
  }

  /** Like `find`, without counting as a use. */
  peek(key: CacheKey): CachedResponse | undefined {
    const read = this.#reads.find(key);
    if (read === undefined || this.#reads.hasEnded(read)) return undefined;
    return this.#answers.get(this.#reads.answerOf(read));
  }

  /** The location of a read's immutable answer, valid while `isHeld`. */
  locate(key: CacheKey): CacheLocation | undefined {
    const read = this.#reads.find(key);
    if (read === undefined || this.#reads.endsAt(read)) return undefined;
    return { row: read, answer: this.#reads.answerOf(read), stamp: this.#reads.stampOf(read) };
  }

  /** Whether the location is valid: to be checked before each of the four below. */
  isHeld({ row, stamp }: CacheLocation): boolean {
    return this.#reads.stampOf(row) === stamp;
  }

  /** Marks the read as most recently used. */
  use({ row }: CacheLocation): void {
    this.#reads.use(row);
  }

  answerOf({ answer }: CacheLocation): CachedResponse {
    return this.#answers.get(answer);
  }

  /** The body's bytes; the object is valid until the next call, and until the cache changes. */
  bodyOf({ answer }: CacheLocation): Readonly<BytesRange> {
    return this.#answers.bodyOf(answer);
  }

  codedOf({ answer }: CacheLocation): Coded {
    return this.#answers.codedOf(answer);
  }

  /** The answer with this digest, if a read has it. */
  findAnswer(digest: string): CachedResponse | undefined {
    const id = this.#answers.find(digest);
    return id === undefined ? undefined : this.#answers.get(id);
  }

  /** Stores the answer and returns it with its compressed forms. `ttlMs`: what is left of its lifetime. */
  store(key: CacheKey, answer: CachedResponse, ttlMs = answer.lifetimeMs): CachedResponse {
    if (answer.body.length > this.#largest) return answer;
    const held = this.#answers.hold(answer);
    const { lifetimeMs } = answer;
    const endMs = lifetimeMs === Infinity ? undefined : performance.now() + Math.min(ttlMs, lifetimeMs);
    const read = this.#reads.find(key);
    if (read === undefined) this.#reads.add(key, marksOf(key.page), held, endMs);
    else {
      if (this.#reads.hasEnded(read)) {
        this.#countUnused(this.#reads, read);
        this.#reads.forgetUse(read);
      }
      this.#answers.release(this.#reads.answerOf(read));
      this.#reads.setAnswer(read, held, endMs);
      this.#reads.touch(read);
    }
    this.#makeRoom();
    const coded = this.#answers.codedOf(held);
    return coded === answer.coded ? answer : { ...answer, coded };
  }

  /** Stores a compressed form with an answer that is in memory and has room for it. */
  addCoded(answer: CachedResponse, coding: ContentCoding, body: Buffer): void {
    const id = this.#answers.find(answer.digest);
    if (id === undefined || answer.body.length + body.length > this.#largest) return;
    this.#answers.addCoded(id, coding, body);
    this.#makeRoom();
  }

  /** Drops everything at once; returns the number of reads. Those without a hit are counted in steps. */
  clear(): number {
    const detached = this.#reads.detach();
    this.#answers.clear();
    this.#clears += 1;
    void this.#countUnusedIn(detached);
    return detached.size;
  }

  /** Drops one read; returns the number of reads, 0 or 1. */
  forget(key: CacheKey): number {
    const read = this.#reads.find(key);
    if (read === undefined) return 0;
    this.#remove(read);
    return 1;
  }

  /** Drops the reads within the scope, in steps: concurrent reads may find an entry until its step. */
  async purge(scope: Exclude<PurgeScope, { kind: 'read' }>): Promise<number> {
    const matches = marksMatcher(scope);
    const reads = this.#reads;
    const [{ end }, clears] = [reads, this.#clears];
    let purged = 0;
    for (let read = 0; read < end; read += 1) {
      if (read > 0 && read % readsAtOnce === 0) await setImmediate();
      if (this.#clears !== clears) break;
      // A row that was freed and reused belongs to a new read, which the scope may cover as well.
      if (!reads.holds(read) || !matches(reads.marksOf(read))) continue;
      this.#remove(read);
      purged += 1;
    }
    return purged;
  }

  /** `entries`: reads; `answers`: distinct ones; `bytes`: as bounded. */
  get fill(): { readonly entries: number; readonly answers: number; readonly bytes: number } {
    return { entries: this.#reads.size, answers: this.#answers.count, bytes: this.#bytes };
  }

  /** The wanted bound, also during the eviction of the excess. */
  get maxBytes(): number {
    return this.#wantedBytes;
  }

  get #bytes(): number {
    return this.#reads.size * readBytes + this.#answers.bytes;
  }

  get #largest(): number {
    return Math.max(1, Math.floor(this.#wantedBytes * largestShare));
  }

  #makeRoom(): void {
    while (this.#bytes > this.#maxBytes && this.#reads.oldest !== undefined) {
      this.#remove(this.#reads.oldest);
      this.#onEvict();
    }
  }

  #remove(read: Row): void {
    this.#countUnused(this.#reads, read);
    this.#answers.release(this.#reads.answerOf(read));
    this.#reads.remove(read);
  }

  async #countUnusedIn(reads: ReadTable): Promise<void> {
    for (let read = 0; read < reads.end; read += 1) {
      if (read > 0 && read % readsAtOnce === 0) await setImmediate();
      if (reads.holds(read)) this.#countUnused(reads, read);
    }
  }

  #countUnused(reads: ReadTable, read: Row): void {
    const kind = operations[reads.kindOf(read)];
    if (kind !== undefined && !reads.isUsed(read)) this.#onNeverRead(kind);
  }
}
