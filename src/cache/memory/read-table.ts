/** The reads in memory: the answer of each, its end, and the order of use. */
import type { AnswerId } from './answers.ts';
import { firstField, HashIndex, none, type Row } from './hash-index.ts';
import type { CacheKey } from '../key.ts';
import type { PurgeMarks } from '../purge.ts';

/** A read in memory: its row. */
export type ReadId = Row;

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

  find({ id, slot }: CacheKey): ReadId | undefined {
    const rows = this.#rows;
    for (let row = rows.first(hashOf(id, slot)); row !== none; row = rows.after(row)) {
      if ((rows.get(row, field.traits) & slotMask) === slot && this.#hasId(row, id)) return row;
    }
    return undefined;
  }

  /** Adds a read that is not in the table, as the most recently stored. `endMs`: see `setAnswer`. */
  add({ id, slot }: CacheKey, marks: PurgeMarks, answer: AnswerId, endMs: number | undefined): ReadId {
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
  setAnswer(row: ReadId, answer: AnswerId, endMs: number | undefined): void {
    this.#rows.set(row, field.answer, answer);
    this.#rows.set(row, field.end, endMs === undefined ? none : Math.floor(endMs / tickMs));
    this.#stamp(row);
  }

  remove(row: ReadId): void {
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

  answerOf(row: ReadId): AnswerId {
    return this.#rows.get(row, field.answer);
  }

  marksOf(row: ReadId): Pick<PurgeMarks, 'read' | 'account'> {
    return { read: this.#rows.get(row, field.readMark), account: this.#rows.get(row, field.accountMark) };
  }

  /** The kind in the read's marks, or 255 for a kind without a number. */
  kindOf(row: ReadId): number {
    return (this.#rows.get(row, field.traits) >>> kindShift) & kindMask;
  }

  /** Whether the read was used since it was added or `forgetUse`. */
  isUsed(row: ReadId): boolean {
    return this.#rows.get(row, field.traits) >= usedBit;
  }

  forgetUse(row: ReadId): void {
    this.#rows.set(row, field.traits, this.#rows.get(row, field.traits) & ~usedBit);
  }

  endsAt(row: ReadId): boolean {
    return this.#rows.get(row, field.end) !== none;
  }

  hasEnded(row: ReadId): boolean {
    return this.endsAt(row) && performance.now() >= this.#rows.get(row, field.end) * tickMs;
  }

  /** Changes with the read's answer; a stamp recurs after 2^32 changes in the table. */
  stampOf(row: ReadId): number {
    return this.#rows.get(row, field.stamp);
  }

  /** Marks the read as used, and as the most recent. */
  use(row: ReadId): void {
    this.#rows.set(row, field.traits, this.#rows.get(row, field.traits) | usedBit);
    this.touch(row);
  }

  /** Marks the read as the most recent, the last to be evicted. */
  touch(row: ReadId): void {
    if (row === this.#newest) return;
    this.#unlink(row);
    this.#linkNewest(row);
  }

  /** The least recently used read. */
  get oldest(): ReadId | undefined {
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
