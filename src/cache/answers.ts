/**
 * Answers in memory, each held once however many reads have it. Small ones lie in slabs and are made into objects when
 * they are asked for; large ones, and the few of unusual form, stay objects.
 */
import {
  bodyLength,
  bodyOffset,
  ContentTypes,
  hasDigest,
  readRecord,
  recordBytes,
  writeRecord,
} from './answer-record.ts';
import { Chains, fewestRows, none } from './chains.ts';
import { nothingCoded, type CachedResponse, type Coded, type ContentCoding } from './entry.ts';
import { at, longer } from './numbers.ts';
import { ownBytes } from './own-bytes.ts';
import { largestPiece, mostSheets, Slabs } from './slabs.ts';
import { WideMap } from './wide-map.ts';

/** An answer that is held. A number, because a million objects cost more than the answers in them. */
export type AnswerId = number;

/** What an answer takes beside its bytes: its place in the tables. */
const tableBytes = 30;
/** And what one takes more that stays an object. Measured. */
const objectBytes = 750;
/** And a compressed form. Measured. */
const formBytes = 750;
/** In place of a block: the answer is an object. */
const noBlock = 0xffff_ffff;

/** Where bytes lie. */
export interface Place {
  bytes: Buffer;
  from: number;
  to: number;
}

export class Answers {
  readonly #types = new ContentTypes();
  readonly #mostSheets: number;
  #slabs: Slabs;
  /** By digest. */
  #chains = new Chains();
  /** By id: the block of its record, and the reads that have it. */
  #refs = new Uint32Array(fewestRows);
  #uses = new Uint32Array(fewestRows);
  readonly #objects = new WideMap<CachedResponse>();
  /** Compressed forms of answers that have any. */
  readonly #coded = new WideMap<Coded>();
  #objectBytes = 0;
  #codedBytes = 0;
  readonly #place: Place = { bytes: Buffer.alloc(0), from: 0, to: 0 };

  constructor(most = mostSheets) {
    this.#mostSheets = most;
    this.#slabs = this.#emptySlabs();
  }

  get count(): number {
    return this.#chains.size;
  }

  /** Of all answers, by the accounting that bounds them. */
  get bytes(): number {
    return this.#slabs.liveBytes + this.#objectBytes + this.#codedBytes + this.count * tableBytes;
  }

  /** Counts one more read that has the answer. */
  hold(answer: CachedResponse): AnswerId {
    const id = this.find(answer.digest) ?? this.#add(answer);
    this.#uses[id] = at(this.#uses, id) + 1;
    return id;
  }

  /** Counts one read less; the answer goes with the last. */
  release(id: AnswerId): void {
    const uses = at(this.#uses, id) - 1;
    this.#uses[id] = uses;
    if (uses === 0) this.#remove(id);
  }

  /** The answer: of one that lies in a slab a new object, whose bytes are its own. */
  get(id: AnswerId): CachedResponse {
    const ref = at(this.#refs, id);
    const coded = this.codedOf(id);
    if (ref === noBlock) return { ...this.#objectOf(id), coded };
    return readRecord(this.#slabs.bufferAt(ref), this.#slabs.offsetAt(ref), { types: this.#types, coded });
  }

  /** Where the body lies: to be used before anything else is done with the cache, and the object before the next call. */
  bodyOf(id: AnswerId): Readonly<Place> {
    const place = this.#place;
    const ref = at(this.#refs, id);
    if (ref === noBlock) {
      place.bytes = this.#objectOf(id).body;
      place.from = 0;
      place.to = place.bytes.length;
      return place;
    }
    const offset = this.#slabs.offsetAt(ref);
    place.bytes = this.#slabs.bufferAt(ref);
    place.from = bodyOffset(place.bytes, offset);
    place.to = place.from + bodyLength(place.bytes, offset);
    return place;
  }

  /** The compressed forms that are known of the answer. */
  codedOf(id: AnswerId): Coded {
    return this.#coded.get(id) ?? nothingCoded;
  }

  find(digest: string): AnswerId | undefined {
    const chains = this.#chains;
    for (let id = chains.first(hashOf(digest)); id !== none; id = chains.after(id)) {
      if (this.#isOf(id, digest)) return id;
    }
    return undefined;
  }

  /** Keeps a compressed form that the answer does not have yet. */
  addCoded(id: AnswerId, coding: ContentCoding, body: Buffer): void {
    const coded = this.codedOf(id);
    if (coded[coding] !== undefined) return;
    this.#coded.set(id, { ...coded, [coding]: ownBytes(body) });
    this.#codedBytes += formBytes + body.length;
  }

  /** Forgets everything, in one go however much it is. */
  clear(): void {
    this.#slabs = this.#emptySlabs();
    this.#chains = new Chains();
    this.#objects.clear();
    this.#coded.clear();
    this.#objectBytes = 0;
    this.#codedBytes = 0;
  }

  #emptySlabs(): Slabs {
    return new Slabs((id, ref) => {
      this.#refs[id] = ref;
    }, this.#mostSheets);
  }

  #objectOf(id: AnswerId): CachedResponse {
    return this.#objects.get(id) as CachedResponse;
  }

  #isOf(id: AnswerId, digest: string): boolean {
    const ref = at(this.#refs, id);
    if (ref === noBlock) return this.#objectOf(id).digest === digest;
    return hasDigest(this.#slabs.bufferAt(ref), this.#slabs.offsetAt(ref), digest);
  }

  #add(answer: CachedResponse): AnswerId {
    const id = this.#chains.add(hashOf(answer.digest));
    if (id >= this.#refs.length) this.#grow(this.#chains.rows);
    const bytes = recordBytes(answer);
    const fits = bytes !== undefined && bytes <= largestPiece && this.#slabs.hasRoom;
    const type = fits ? this.#types.numberOf(answer.contentType) : undefined;
    if (bytes === undefined || type === undefined) {
      // Compressed forms that it came with are counted nowhere.
      this.#objects.set(id, { ...answer, body: ownBytes(answer.body), coded: nothingCoded });
      this.#objectBytes += objectBytes + answer.body.length;
      this.#refs[id] = noBlock;
    } else {
      const ref = this.#slabs.take(bytes, id);
      writeRecord(this.#slabs.bufferAt(ref), this.#slabs.offsetAt(ref), answer, type);
      this.#refs[id] = ref;
    }
    this.#uses[id] = 0;
    return id;
  }

  #remove(id: AnswerId): void {
    this.#chains.remove(id);
    for (const body of Object.values(this.codedOf(id))) this.#codedBytes -= formBytes + body.length;
    this.#coded.delete(id);
    const ref = at(this.#refs, id);
    if (ref === noBlock) {
      this.#objectBytes -= objectBytes + this.#objectOf(id).body.length;
      this.#objects.delete(id);
    } else this.#slabs.give(ref);
  }

  #grow(length: number): void {
    this.#refs = longer(this.#refs, length);
    this.#uses = longer(this.#uses, length);
  }
}

/** Digests are evenly spread, so a few of their characters are a hash. */
function hashOf(digest: string): number {
  let hash = 0;
  for (let index = 0; index < 8; index += 1) hash = Math.imul(hash, 67) + digest.charCodeAt(index);
  return hash >>> 0;
}
