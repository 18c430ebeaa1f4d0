import {
  bodyLength,
  bodyOffset,
  bodyOffsetOf,
  type CachedResponse,
  type Coded,
  type ContentCoding,
  nothingCoded,
  ownBytes,
  readHead,
  writeHead,
} from '../record.ts';
import { largestPiece, mostPages, Slabs } from './slabs.ts';
import { firstField, HashIndex, none, type Row } from './tables.ts';

/** Bytes of an answer beside its record: a row of 20, in a table that is four fifths full on average. */
const tableBytes = 25;
/** Bytes beside the body of an answer that is an object, and of a compressed form. Measured. */
const objectBytes = 750;
const formBytes = 750;

/** `ref`: the block of its record, or `none` for an object; `uses`: reads that have the answer. */
const field = { ref: firstField, uses: firstField + 1 };
const fields = 2;
/** Characters of a digest, which precedes the record in its block. */
const digestBytes = 22;

/** A part of a buffer: from `from` to `to`, exclusive. */
export interface BytesRange {
  bytes: Buffer;
  from: number;
  to: number;
}

/** Answers in memory, each stored once for all its reads: small ones as records in slabs, the others as objects. */
export class Answers {
  readonly #mostPages: number;
  #slabs: Slabs;
  #rows = new HashIndex(fields);
  readonly #objects = new WideMap<CachedResponse>();
  /** Compressed forms of answers that have any. */
  readonly #coded = new WideMap<Coded>();
  #objectBytes = 0;
  #codedBytes = 0;
  readonly #range: BytesRange = { bytes: Buffer.alloc(0), from: 0, to: 0 };

  constructor(most = mostPages) {
    this.#mostPages = most;
    this.#slabs = this.#emptySlabs();
  }

  get count(): number {
    return this.#rows.size;
  }

  /** Bytes of all answers, as bounded by the cache. */
  get bytes(): number {
    return this.#slabs.liveBytes + this.#objectBytes + this.#codedBytes + this.count * tableBytes;
  }

  /** Adds a reference of one read, and the answer with the first. */
  hold(answer: CachedResponse): Row {
    const id = this.find(answer.digest) ?? this.#add(answer);
    this.#rows.set(id, field.uses, this.#rows.get(id, field.uses) + 1);
    return id;
  }

  /** Removes a reference; the last one removes the answer. */
  release(id: Row): void {
    const uses = this.#rows.get(id, field.uses) - 1;
    this.#rows.set(id, field.uses, uses);
    if (uses === 0) this.#remove(id);
  }

  /** The answer; from a slab, a new object with bytes of its own. */
  get(id: Row): CachedResponse {
    const ref = this.#rows.get(id, field.ref);
    const coded = this.codedOf(id);
    if (ref === none) return { ...this.#objectOf(id), coded };
    const { bytes, from, to } = this.bodyOf(id);
    // A copy: the block's next record must not appear in an answer in flight.
    const body = Buffer.allocUnsafe(to - from);
    bytes.copy(body, 0, from, to);
    const offset = this.#slabs.offsetAt(ref);
    const digest = bytes.toString('latin1', offset, offset + digestBytes);
    const head = readHead(bytes, offset + digestBytes);
    const { status, contentType, gasUsed, cursor, ownHeaders, committedAt, lifetimeMs } = head;
    return { status, contentType, body, gasUsed, cursor, ownHeaders, committedAt, lifetimeMs, digest, coded };
  }

  /** The body's bytes in place: valid until the cache changes; the object until the next call. */
  bodyOf(id: Row): Readonly<BytesRange> {
    const range = this.#range;
    const ref = this.#rows.get(id, field.ref);
    if (ref === none) {
      range.bytes = this.#objectOf(id).body;
      range.from = 0;
      range.to = range.bytes.length;
      return range;
    }
    const offset = this.#slabs.offsetAt(ref) + digestBytes;
    range.bytes = this.#slabs.bufferAt(ref);
    range.from = bodyOffset(range.bytes, offset);
    range.to = range.from + bodyLength(range.bytes, offset);
    return range;
  }

  /** The answer's compressed forms. */
  codedOf(id: Row): Coded {
    return this.#coded.get(id) ?? nothingCoded;
  }

  find(digest: string): Row | undefined {
    const rows = this.#rows;
    for (let id = rows.first(hashOf(digest)); id !== none; id = rows.after(id)) {
      if (this.#isOf(id, digest)) return id;
    }
    return undefined;
  }

  /** Stores a compressed form that the answer does not have yet. */
  addCoded(id: Row, coding: ContentCoding, body: Buffer): void {
    const coded = this.codedOf(id);
    if (coded[coding] !== undefined) return;
    this.#coded.set(id, { ...coded, [coding]: ownBytes(body) });
    this.#codedBytes += formBytes + body.length;
  }

  /** Drops everything in constant time. */
  clear(): void {
    this.#slabs = this.#emptySlabs();
    this.#rows = new HashIndex(fields);
    this.#objects.clear();
    this.#coded.clear();
    this.#objectBytes = 0;
    this.#codedBytes = 0;
  }

  #emptySlabs(): Slabs {
    return new Slabs((id, ref) => {
      this.#rows.set(id, field.ref, ref);
    }, this.#mostPages);
  }

  #objectOf(id: Row): CachedResponse {
    return this.#objects.get(id) as CachedResponse;
  }

  #isOf(id: Row, digest: string): boolean {
    const ref = this.#rows.get(id, field.ref);
    if (ref === none) return this.#objectOf(id).digest === digest;
    const [bytes, offset] = [this.#slabs.bufferAt(ref), this.#slabs.offsetAt(ref)];
    for (let index = 0; index < digestBytes; index += 1) {
      if (bytes[offset + index] !== digest.charCodeAt(index)) return false;
    }
    return digest.length === digestBytes;
  }

  #add(answer: CachedResponse): Row {
    const id = this.#rows.add(hashOf(answer.digest));
    this.#rows.set(id, field.uses, 0);
    const bodyAt = bodyOffsetOf(answer);
    const pieceBytes = digestBytes + (bodyAt ?? Infinity) + answer.body.length;
    if (bodyAt === undefined || pieceBytes > largestPiece || !this.#slabs.hasRoom) {
      // Compressed forms of the argument are dropped: `#codedBytes` does not count them.
      this.#objects.set(id, { ...answer, body: ownBytes(answer.body), coded: nothingCoded });
      this.#objectBytes += objectBytes + answer.body.length;
      this.#rows.set(id, field.ref, none);
      return id;
    }
    const ref = this.#slabs.take(pieceBytes, id);
    const [bytes, offset] = [this.#slabs.bufferAt(ref), this.#slabs.offsetAt(ref)];
    bytes.write(answer.digest, offset, 'latin1');
    writeHead(bytes, offset + digestBytes, answer);
    answer.body.copy(bytes, offset + digestBytes + bodyAt);
    this.#rows.set(id, field.ref, ref);
    return id;
  }

  #remove(id: Row): void {
    for (const body of Object.values(this.codedOf(id))) this.#codedBytes -= formBytes + body.length;
    this.#coded.delete(id);
    const ref = this.#rows.get(id, field.ref);
    if (ref === none) {
      this.#objectBytes -= objectBytes + this.#objectOf(id).body.length;
      this.#objects.delete(id);
    } else this.#slabs.give(ref);
    this.#rows.remove(id);
  }
}

/** Digests are uniform: a few characters are a hash. */
function hashOf(digest: string): number {
  let hash = 0;
  for (let index = 0; index < 8; index += 1) hash = Math.imul(hash, 67) + digest.charCodeAt(index);
  return hash >>> 0;
}

/** Numbers are consecutive: their last bits spread them evenly. */
const parts = 64;

/** A map by number without V8's bound: a Map throws at 2^24 entries, under churn at half as many. */
export class WideMap<Value> {
  readonly #parts: readonly Map<number, Value>[] = Array.from({ length: parts }, () => new Map<number, Value>());

  get(number: number): Value | undefined {
    return this.#partOf(number).get(number);
  }

  set(number: number, value: Value): void {
    this.#partOf(number).set(number, value);
  }

  delete(number: number): void {
    this.#partOf(number).delete(number);
  }

  clear(): void {
    for (const part of this.#parts) part.clear();
  }

  #partOf(number: number): Map<number, Value> {
    return this.#parts[number % parts] as Map<number, Value>;
  }
}
