/**
 * The tables of memory: rows of 32-bit words in one array, by hash; and the reads, one row each, with the answer of each,
 * its end, and the order of use.
 */
import type { CacheKey } from '../key.ts';
import type { PurgeMarks } from '../purge.ts';

/** The number of a row in use, below `none`; removed rows' numbers are reused. */
export type Row = number;

/** No row. */
export const none = 0xffff_ffff;
/** The first field of the table's user: the index has two words of each row. */
export const firstField = 2;

const fewestRows = 1024;
/** The next row of the chain, or of the free rows. */
const nextField = 0;
const hashField = 1;

/**
 * A hash table of rows of 32-bit words in one array. A Map of a million keys and objects takes twice the memory, and
 * its growth and the garbage collector pause the process for up to 400 ms (bench/RESULTS.md, Memory).
 */
export class HashIndex {
  readonly #rowWords: number;
  #words: Uint32Array<ArrayBuffer>;
  #heads = new Uint32Array(fewestRows).fill(none);
  /** Rows from here up have never been in use. */
  #end = 0;
  #firstFree = none;
  #size = 0;

  /** `fields`: words of a row, without the two of the index. */
  constructor(fields: number) {
    this.#rowWords = firstField + fields;
    this.#words = new Uint32Array(fewestRows * this.#rowWords);
  }

  get size(): number {
    return this.#size;
  }

  /** Every row in use is below this number. */
  get end(): number {
    return this.#end;
  }

  get(row: Row, field: number): number {
    return this.#words[row * this.#rowWords + field] as number;
  }

  set(row: Row, field: number, value: number): void {
    this.#words[row * this.#rowWords + field] = value;
  }

  /** The first row with this unsigned 32-bit hash, or `none`; `after` gives the others. */
  first(hash: number): Row {
    return this.#firstOf(this.#heads[this.#chainOf(hash)] as number, hash);
  }

  /** The next row with the hash of `row`, or `none`. */
  after(row: Row): Row {
    return this.#firstOf(this.get(row, nextField), this.get(row, hashField));
  }

  /** A new row with this hash. Its fields are not initialised. */
  add(hash: number): Row {
    const row = this.#takeRow();
    this.set(row, hashField, hash);
    this.#link(row);
    this.#size += 1;
    return row;
  }

  remove(row: Row): void {
    const chain = this.#chainOf(this.get(row, hashField));
    const next = this.get(row, nextField);
    let before = this.#heads[chain] as number;
    if (before === row) this.#heads[chain] = next;
    else {
      while (this.get(before, nextField) !== row) before = this.get(before, nextField);
      this.set(before, nextField, next);
    }
    this.set(row, nextField, this.#firstFree);
    this.#firstFree = row;
    this.#size -= 1;
  }

  #chainOf(hash: number): number {
    return hash & (this.#heads.length - 1);
  }

  #firstOf(from: Row, hash: number): Row {
    let row = from;
    while (row !== none && this.get(row, hashField) !== hash) row = this.get(row, nextField);
    return row;
  }

  #takeRow(): Row {
    const free = this.#firstFree;
    if (free !== none) {
      this.#firstFree = this.get(free, nextField);
      return free;
    }
    const row = this.#end;
    if ((row + 1) * this.#rowWords > this.#words.length) this.#growRows();
    if (row === this.#heads.length) this.#growHeads();
    this.#end += 1;
    return row;
  }

  /** By half only: unused rows take memory, too. */
  #growRows(): void {
    const rows = Math.ceil(this.#end * 1.5);
    const words = new Uint32Array(rows * this.#rowWords);
    words.set(this.#words);
    this.#words = words;
  }

  /** No row is free, so that every row belongs to a chain. */
  #growHeads(): void {
    this.#heads = new Uint32Array(this.#heads.length * 2).fill(none);
    for (let row = 0; row < this.#end; row += 1) this.#link(row);
  }

  #link(row: Row): void {
    const chain = this.#chainOf(this.get(row, hashField));
    this.set(row, nextField, this.#heads[chain] as number);
    this.#heads[chain] = row;
  }
}

/** Words of a page's SHA-256 in a row; with the hash 160 bits, so that no two pages share them. */
const idWords = 4;
const field = {
  id: firstField,
  /** The key's slot, the read's kind, and whether it was used. */
  traits: firstField + idWords,
  /** Neighbours in the order of use. */
  older: firstField + idWords + 1,
  newer: firstField + idWords + 2,
  answer: firstField + idWords + 3,
  /** In ticks of `performance.now()`; `none`: never. */
  end: firstField + idWords + 4,
  stamp: firstField + idWords + 5,
  readMark: firstField + idWords + 6,
  accountMark: firstField + idWords + 7,
};
const fields = idWords + 8;
/** Bits of `traits`: slots and kinds are far below these bounds. */
const slotMask = 0xffff;
const kindShift = 16;
const kindMask = 0xff;
const usedBit = 2 ** 31;
/** Milliseconds of a tick: 32 bits of ticks last 13 years. */
const tickMs = 100;

/** Reads by key, in an LRU list. */
export class ReadTable {
  #rows = new HashIndex(fields);
  #newest = none;
  #oldest = none;
  #changes = 0;

  get size(): number {
    return this.#rows.size;
  }

  /** Every read is below this number. */
  get end(): number {
    return this.#rows.end;
  }

  find({ id, slot }: CacheKey): Row | undefined {
    const rows = this.#rows;
    for (let row = rows.first(hashOf(id, slot)); row !== none; row = rows.after(row)) {
      if ((rows.get(row, field.traits) & slotMask) === slot && this.#hasId(row, id)) return row;
    }
    return undefined;
  }

  /** Adds a read that is not in the table, as the most recently stored. `endMs`: see `setAnswer`. */
  add({ id, slot }: CacheKey, marks: PurgeMarks, answer: Row, endMs: number | undefined): Row {
    const rows = this.#rows;
    const row = rows.add(hashOf(id, slot));
    for (let word = 0; word < idWords; word += 1) rows.set(row, field.id + word, wordOf(id, word + 1));
    rows.set(row, field.traits, slot | ((marks.kind & kindMask) << kindShift));
    rows.set(row, field.readMark, marks.read);
    rows.set(row, field.accountMark, marks.account);
    this.setAnswer(row, answer, endMs);
    this.#linkNewest(row);
    return row;
  }

  /** `endMs`: end of the answer on the clock of `performance.now()`; `undefined`: none. */
  setAnswer(row: Row, answer: Row, endMs: number | undefined): void {
    this.#rows.set(row, field.answer, answer);
    this.#rows.set(row, field.end, endMs === undefined ? none : Math.floor(endMs / tickMs));
    this.#stamp(row);
  }

  remove(row: Row): void {
    this.#unlink(row);
    this.#rows.remove(row);
    this.#rows.set(row, field.answer, none);
    this.#stamp(row);
  }

  /** Empties the table in constant time; the result has its rows. Stamps go on: no earlier one becomes valid again. */
  detach(): ReadTable {
    const detached = new ReadTable();
    detached.#rows = this.#rows;
    this.#rows = new HashIndex(fields);
    this.#newest = none;
    this.#oldest = none;
    return detached;
  }

  /** Whether a row below `end` is in use. */
  holds(row: Row): boolean {
    return this.answerOf(row) !== none;
  }

  answerOf(row: Row): Row {
    return this.#rows.get(row, field.answer);
  }

  marksOf(row: Row): Pick<PurgeMarks, 'read' | 'account'> {
    return { read: this.#rows.get(row, field.readMark), account: this.#rows.get(row, field.accountMark) };
  }

  /** The kind in the read's marks, or 255 for a kind without a number. */
  kindOf(row: Row): number {
    return (this.#rows.get(row, field.traits) >>> kindShift) & kindMask;
  }

  /** Whether the read was used since it was added or `forgetUse`. */
  isUsed(row: Row): boolean {
    return this.#rows.get(row, field.traits) >= usedBit;
  }

  forgetUse(row: Row): void {
    this.#rows.set(row, field.traits, this.#rows.get(row, field.traits) & ~usedBit);
  }

  endsAt(row: Row): boolean {
    return this.#rows.get(row, field.end) !== none;
  }

  hasEnded(row: Row): boolean {
    return this.endsAt(row) && performance.now() >= this.#rows.get(row, field.end) * tickMs;
  }

  /** Changes with the read's answer; a stamp recurs after 2^32 changes in the table. */
  stampOf(row: Row): number {
    return this.#rows.get(row, field.stamp);
  }

  /** Marks the read as used, and as the most recent. */
  use(row: Row): void {
    this.#rows.set(row, field.traits, this.#rows.get(row, field.traits) | usedBit);
    this.touch(row);
  }

  /** Marks the read as the most recent, the last to be evicted. */
  touch(row: Row): void {
    if (row === this.#newest) return;
    this.#unlink(row);
    this.#linkNewest(row);
  }

  /** The least recently used read. */
  get oldest(): Row | undefined {
    return this.#oldest === none ? undefined : this.#oldest;
  }

  #hasId(row: Row, id: string): boolean {
    for (let word = 0; word < idWords; word += 1) {
      if (this.#rows.get(row, field.id + word) !== wordOf(id, word + 1)) return false;
    }
    return true;
  }

  #stamp(row: Row): void {
    this.#changes = (this.#changes + 1) >>> 0;
    this.#rows.set(row, field.stamp, this.#changes);
  }

  #linkNewest(row: Row): void {
    this.#rows.set(row, field.older, this.#newest);
    this.#rows.set(row, field.newer, none);
    if (this.#newest === none) this.#oldest = row;
    else this.#rows.set(this.#newest, field.newer, row);
    this.#newest = row;
  }

  #unlink(row: Row): void {
    const [older, newer] = [this.#rows.get(row, field.older), this.#rows.get(row, field.newer)];
    if (older === none) this.#oldest = newer;
    else this.#rows.set(older, field.newer, newer);
    if (newer === none) this.#newest = older;
    else this.#rows.set(newer, field.older, older);
  }
}

/** Mixes the slot into the id's first word: versions of one page are in different chains. */
function hashOf(id: string, slot: number): number {
  return (wordOf(id, 0) ^ Math.imul(slot, 0x9e37_79b1)) >>> 0;
}

/** Four characters of an id as a number, one byte each. */
function wordOf(id: string, word: number): number {
  const from = word * 4;
  const high = (id.charCodeAt(from) << 24) | (id.charCodeAt(from + 1) << 16);
  return (high | (id.charCodeAt(from + 2) << 8) | id.charCodeAt(from + 3)) >>> 0;
}
