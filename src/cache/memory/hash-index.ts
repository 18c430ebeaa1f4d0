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
  /** The first row of each chain. */
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

  /** Rows in use. */
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
