/**
 * What is held, as numbers that are found by a hash: a table of chains. A number is given out again when what it stood
 * for is gone. Who holds something keeps what is known of it in tables of its own, by these numbers.
 */
import { at, longer } from './numbers.ts';

/** In place of a number: there is none. */
export const none = 0xffff_ffff;
/** Tables begin with so many rows. */
export const fewestRows = 1024;

export class Chains {
  /** The first of each chain, and behind each the next one and its hash. */
  #heads = new Uint32Array(fewestRows).fill(none);
  #next = new Uint32Array(fewestRows);
  #hashes = new Uint32Array(fewestRows);
  /** Numbers from here up have never been given out; below, those in `#free` are free. */
  #end = 0;
  readonly #free: number[] = [];

  /** What is held now. */
  get size(): number {
    return this.#end - this.#free.length;
  }

  /** Rows that tables beside this one need for every number there is. */
  get rows(): number {
    return this.#next.length;
  }

  /** The first with this hash, an unsigned number of 32 bits, or `none`; others follow by `after`. */
  first(hash: number): number {
    return this.#from(at(this.#heads, this.#chainOf(hash)), hash);
  }

  /** The next one with the hash of `number`, or `none`. */
  after(number: number): number {
    return this.#from(at(this.#next, number), at(this.#hashes, number));
  }

  /** A number for something with this hash. */
  add(hash: number): number {
    const number = this.#free.pop() ?? this.#newNumber();
    this.#hashes[number] = hash;
    this.#link(number);
    return number;
  }

  /** What the number stood for is gone. */
  remove(number: number): void {
    const chain = this.#chainOf(at(this.#hashes, number));
    const behind = at(this.#next, number);
    let before = at(this.#heads, chain);
    if (before === number) this.#heads[chain] = behind;
    else {
      while (at(this.#next, before) !== number) before = at(this.#next, before);
      this.#next[before] = behind;
    }
    this.#free.push(number);
  }

  #chainOf(hash: number): number {
    return hash & (this.#heads.length - 1);
  }

  #from(number: number, hash: number): number {
    let found = number;
    while (found !== none && at(this.#hashes, found) !== hash) found = at(this.#next, found);
    return found;
  }

  #newNumber(): number {
    const number = this.#end;
    if (number === this.#next.length) this.#grow(number * 2);
    this.#end += 1;
    return number;
  }

  #grow(length: number): void {
    this.#next = longer(this.#next, length);
    this.#hashes = longer(this.#hashes, length);
    this.#heads = new Uint32Array(length).fill(none);
    // None is free, so every number there has been stands for something.
    for (let number = 0; number < this.#end; number += 1) this.#link(number);
  }

  #link(number: number): void {
    const chain = this.#chainOf(at(this.#hashes, number));
    this.#next[number] = at(this.#heads, chain);
    this.#heads[chain] = number;
  }
}
