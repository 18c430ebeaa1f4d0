/**
 * Finds pages by the id of their keys, and knows in which order they were used. All in tables: with the usual map of
 * strings and list of objects a million pages are 127 MB of heap, which the garbage collector has to walk through.
 */
import { at, longer } from './numbers.ts';

/** A page that is held. A number below 2^32 - 1, given out again when the page is gone. */
export type PageId = number;

const nobody = 0xffff_ffff;
const fewestPages = 1024;
/** 160 bits of a page's SHA-256: enough that two pages never share them, whoever may choose what is read. */
const words = 5;

export class PageIndex {
  /**
   * By page: the words of its id, the next page of the same hash, and its neighbours in the order of use. A page that is
   * free is its own neighbour.
   */
  #ids = new Uint32Array(fewestPages * words);
  #chain = new Uint32Array(fewestPages);
  #older = new Uint32Array(fewestPages);
  #newer = new Uint32Array(fewestPages);
  /** The first page of each hash. */
  #heads = new Uint32Array(fewestPages).fill(nobody);
  #newest = nobody;
  #oldest = nobody;
  /** Pages from here up have never been used; below, those in `#free` are free. */
  #end = 0;
  #free: PageId[] = [];
  #size = 0;

  /** Pages that are held. */
  get size(): number {
    return this.#size;
  }

  find(id: string): PageId | undefined {
    const first = wordOf(id, 0);
    const heads = this.#heads;
    for (let page = at(heads, first & (heads.length - 1)); page !== nobody; page = at(this.#chain, page)) {
      if (at(this.#ids, page * words) === first && this.#isOf(page, id)) return page;
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
    const page = this.#free.pop() ?? this.#newPage();
    for (let word = 0; word < words; word += 1) this.#ids[page * words + word] = wordOf(id, word);
    this.#enchain(page);
    this.#linkNewest(page);
    this.#size += 1;
    return page;
  }

  remove(page: PageId): void {
    this.#unchain(page);
    this.#unlink(page);
    this.#newer[page] = page;
    this.#free.push(page);
    this.#size -= 1;
  }

  /** Whether a page that was held is, or another one in its place. */
  holds(page: PageId): boolean {
    return at(this.#newer, page) !== page;
  }

  /** The page that was not used for longest. */
  get oldest(): PageId | undefined {
    return this.#oldest === nobody ? undefined : this.#oldest;
  }

  /** All pages, most lately used first. */
  list(): Uint32Array {
    const pages = new Uint32Array(this.#size);
    let page = this.#newest;
    for (let index = 0; index < pages.length; index += 1) {
      pages[index] = page;
      page = at(this.#older, page);
    }
    return pages;
  }

  #isOf(page: PageId, id: string): boolean {
    for (let word = 1; word < words; word += 1) {
      if (at(this.#ids, page * words + word) !== wordOf(id, word)) return false;
    }
    return true;
  }

  #newPage(): PageId {
    const page = this.#end;
    this.#end += 1;
    if (page === this.#chain.length) this.#grow(page * 2);
    return page;
  }

  #grow(length: number): void {
    this.#ids = longer(this.#ids, length * words);
    this.#chain = longer(this.#chain, length);
    this.#older = longer(this.#older, length);
    this.#newer = longer(this.#newer, length);
    this.#heads = new Uint32Array(length).fill(nobody);
    // There is none free, so all pages there have been until now are in use.
    for (let page = 0; page < length / 2; page += 1) this.#enchain(page);
  }

  #placeOf(page: PageId): number {
    return at(this.#ids, page * words) & (this.#heads.length - 1);
  }

  #enchain(page: PageId): void {
    const place = this.#placeOf(page);
    this.#chain[page] = at(this.#heads, place);
    this.#heads[place] = page;
  }

  #unchain(page: PageId): void {
    const place = this.#placeOf(page);
    let before = at(this.#heads, place);
    if (before === page) {
      this.#heads[place] = at(this.#chain, page);
      return;
    }
    while (at(this.#chain, before) !== page) before = at(this.#chain, before);
    this.#chain[before] = at(this.#chain, page);
  }

  #linkNewest(page: PageId): void {
    this.#older[page] = this.#newest;
    this.#newer[page] = nobody;
    if (this.#newest === nobody) this.#oldest = page;
    else this.#newer[this.#newest] = page;
    this.#newest = page;
  }

  #unlink(page: PageId): void {
    const [older, newer] = [at(this.#older, page), at(this.#newer, page)];
    if (older === nobody) this.#oldest = newer;
    else this.#newer[older] = newer;
    if (newer === nobody) this.#newest = older;
    else this.#older[newer] = older;
  }
}

/** Four characters of an id as a number, a character to a byte. */
function wordOf(id: string, word: number): number {
  const from = word * 4;
  const high = (id.charCodeAt(from) << 24) | (id.charCodeAt(from + 1) << 16);
  return (high | (id.charCodeAt(from + 2) << 8) | id.charCodeAt(from + 3)) >>> 0;
}
