/**
 * Finds pages by the id of their keys, and knows in which order they were used. All in tables: with the usual map of
 * strings and list of objects a million pages are 127 MB of heap, which the garbage collector has to walk through.
 */
import { Chains, fewestRows, none } from './chains.ts';
import { at, longer } from './numbers.ts';

/** A page that is held. A number below 2^32 - 1, given out again when the page is gone. */
export type PageId = number;

/** Of 160 bits of a page's SHA-256, enough that two pages never share them whoever may choose what is read: 32 are its hash. */
const words = 4;

export class PageIndex {
  readonly #chains = new Chains();
  /**
   * By page: the words of its id behind the hash, and its neighbours in the order of use. A page that is free is its own
   * neighbour.
   */
  #ids = new Uint32Array(fewestRows * words);
  #older = new Uint32Array(fewestRows);
  #newer = new Uint32Array(fewestRows);
  #newest = none;
  #oldest = none;

  /** Pages that are held. */
  get size(): number {
    return this.#chains.size;
  }

  find(id: string): PageId | undefined {
    const chains = this.#chains;
    for (let page = chains.first(wordOf(id, 0)); page !== none; page = chains.after(page)) {
      if (this.#isOf(page, id)) return page;
    }
    return undefined;
  }

  /** The page is used now. */
  touch(page: PageId): void {
    if (page === this.#newest) return;
    this.#unlink(page);
    this.#linkNewest(page);
  }

  /** Takes up a page that is not held, used now. */
  add(id: string): PageId {
    const page = this.#chains.add(wordOf(id, 0));
    if (page >= this.#older.length) this.#grow(this.#chains.rows);
    for (let word = 0; word < words; word += 1) this.#ids[page * words + word] = wordOf(id, word + 1);
    this.#linkNewest(page);
    return page;
  }

  remove(page: PageId): void {
    this.#chains.remove(page);
    this.#unlink(page);
    this.#newer[page] = page;
  }

  /** Whether a page that was held is, or another one in its place. */
  holds(page: PageId): boolean {
    return at(this.#newer, page) !== page;
  }

  /** The page that was not used for longest. */
  get oldest(): PageId | undefined {
    return this.#oldest === none ? undefined : this.#oldest;
  }

  /** All pages, most lately used first. */
  list(): Uint32Array {
    const pages = new Uint32Array(this.size);
    let page = this.#newest;
    for (let index = 0; index < pages.length; index += 1) {
      pages[index] = page;
      page = at(this.#older, page);
    }
    return pages;
  }

  #isOf(page: PageId, id: string): boolean {
    for (let word = 0; word < words; word += 1) {
      if (at(this.#ids, page * words + word) !== wordOf(id, word + 1)) return false;
    }
    return true;
  }

  #grow(length: number): void {
    this.#ids = longer(this.#ids, length * words);
    this.#older = longer(this.#older, length);
    this.#newer = longer(this.#newer, length);
  }

  #linkNewest(page: PageId): void {
    this.#older[page] = this.#newest;
    this.#newer[page] = none;
    if (this.#newest === none) this.#oldest = page;
    else this.#newer[this.#newest] = page;
    this.#newest = page;
  }

  #unlink(page: PageId): void {
    const [older, newer] = [at(this.#older, page), at(this.#newer, page)];
    if (older === none) this.#oldest = newer;
    else this.#newer[older] = newer;
    if (newer === none) this.#newest = older;
    else this.#older[newer] = older;
  }
}

/** Four characters of an id as a number, a character to a byte. */
function wordOf(id: string, word: number): number {
  const from = word * 4;
  const high = (id.charCodeAt(from) << 24) | (id.charCodeAt(from + 1) << 16);
  return (high | (id.charCodeAt(from + 2) << 8) | id.charCodeAt(from + 3)) >>> 0;
}
