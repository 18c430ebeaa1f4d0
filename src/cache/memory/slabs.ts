/**
 * Slab allocator: a few large buffers, cut into blocks of fixed sizes. A million buffers pause the process for 17 ms at
 * each garbage collection, a few thousand do not; a block costs 4 bytes, a buffer hundreds (bench/RESULTS.md, Memory).
 *
 * A page has blocks of one size class. When a class has too many free blocks, its emptiest page is moved into the
 * others and freed: a change of sizes leaves no holes.
 */

/** The place of a block, valid until `give`, or until `onMove` reports another. */
export type BlockRef = number;

/** Bytes of one page. */
const pageBytes = 256 * 1024;
/** Blocks start at multiples of this many bytes. */
const unitBytes = 16;
const unitBits = Math.log2(pageBytes / unitBytes);
/** Pages that a 32-bit `BlockRef` can number: 64 GiB. */
export const mostPages = 2 ** (32 - unitBits);
/** Bytes before every block: its owner. */
const ownerBytes = 4;
const none = 0xffff_ffff;
/** The largest piece: 15 of them fit on a page. */
export const largestPiece = 16 * 1024;
/** Sizes grow by an eighth: a sixteenth of a block is unused on average. */
const growth = 1.125;
/** Free blocks of a size above both bounds are too many: pages full of them, and a share of the size's blocks. */
const sparePages = 2;
const spareShare = 1 / 8;

/** Block sizes, in units, smallest first. */
const sizes: readonly number[] = blockSizes();
/** The index of the smallest sufficient size, by units. */
const sizeIndexes: Uint8Array = sizeIndexesOf(sizes);

interface SlabPage {
  readonly bytes: Buffer;
  readonly sizeIndex: number;
  /** Blocks in use. */
  live: number;
  /** The first free block's offset in units; free blocks contain the next one's, the last 0xffffffff. */
  free: number;
}

/** All blocks of one size. */
interface SizeClass {
  readonly blockUnits: number;
  readonly blocksPerPage: number;
  /** Numbers of its pages. */
  readonly pages: Set<number>;
  /** Pages with a free block. */
  readonly open: Set<number>;
  freeBlocks: number;
}

/** Blocks of memory by size class. */
export class Slabs {
  readonly #pages: (SlabPage | undefined)[] = [];
  readonly #unused: number[] = [];
  readonly #classes: readonly SizeClass[];
  readonly #onMove: (owner: number, ref: BlockRef) => void;
  readonly #mostPages: number;
  #liveBytes = 0;
  #pageCount = 0;

  /** `onMove` receives a moved block's owner and its new place. */
  constructor(onMove: (owner: number, ref: BlockRef) => void, most = mostPages) {
    this.#onMove = onMove;
    this.#mostPages = most;
    this.#classes = sizes.map((blockUnits) => ({
      blockUnits,
      blocksPerPage: Math.floor(pageBytes / unitBytes / blockUnits),
      pages: new Set(),
      open: new Set(),
      freeBlocks: 0,
    }));
  }

  /** Bytes of blocks in use, unused ends included. */
  get liveBytes(): number {
    return this.#liveBytes;
  }

  /** Bytes taken from the system. */
  get pageBytes(): number {
    return this.#pageCount * pageBytes;
  }

  /** Whether a block of any size is available: the number of pages is bounded. */
  get hasRoom(): boolean {
    return this.#pageCount < this.#mostPages;
  }

  /** A block for `bytes`, at most `largestPiece`, while `hasRoom`. `owner`: below 2^32 - 1. */
  take(bytes: number, owner: number): BlockRef {
    const ref = this.#place(sizeIndexOf(bytes), owner);
    this.#liveBytes += this.blockBytes(ref);
    return ref;
  }

  give(ref: BlockRef): void {
    this.#liveBytes -= this.blockBytes(ref);
    const { sizeIndex } = this.#free(ref);
    this.#compact(sizeIndex);
  }

  /** Bytes of a block with its unused end. */
  blockBytes(ref: BlockRef): number {
    return this.#classAt(this.#pageAt(ref).sizeIndex).blockUnits * unitBytes;
  }

  /** The block's page. */
  bufferAt(ref: BlockRef): Buffer {
    return this.#pageAt(ref).bytes;
  }

  /** The offset of the piece in `bufferAt`. */
  offsetAt(ref: BlockRef): number {
    return unitOf(ref) * unitBytes + ownerBytes;
  }

  #place(sizeIndex: number, owner: number): BlockRef {
    const sizeClass = this.#classAt(sizeIndex);
    const number = first(sizeClass.open) ?? this.#addPage(sizeIndex);
    const page = this.#pageNumbered(number);
    const unit = page.free;
    const at = unit * unitBytes;
    page.free = page.bytes.readUInt32LE(at + ownerBytes);
    page.bytes.writeUInt32LE(owner, at);
    page.live += 1;
    sizeClass.freeBlocks -= 1;
    if (page.free === none) sizeClass.open.delete(number);
    return refOf(number, unit);
  }

  #free(ref: BlockRef): SlabPage {
    const number = pageOf(ref);
    const page = this.#pageNumbered(number);
    const sizeClass = this.#classAt(page.sizeIndex);
    const at = unitOf(ref) * unitBytes;
    page.bytes.writeUInt32LE(none, at);
    page.bytes.writeUInt32LE(page.free, at + ownerBytes);
    page.free = unitOf(ref);
    page.live -= 1;
    sizeClass.freeBlocks += 1;
    sizeClass.open.add(number);
    if (page.live === 0 && sizeClass.pages.size > 1) this.#dropPage(number, page);
    return page;
  }

  #addPage(sizeIndex: number): number {
    const { blockUnits, blocksPerPage, pages, open } = this.#classAt(sizeIndex);
    const bytes = Buffer.allocUnsafeSlow(pageBytes);
    for (let block = 0; block < blocksPerPage; block += 1) {
      const at = block * blockUnits * unitBytes;
      bytes.writeUInt32LE(none, at);
      bytes.writeUInt32LE(block + 1 < blocksPerPage ? (block + 1) * blockUnits : none, at + ownerBytes);
    }
    const number = this.#unused.pop() ?? this.#pages.length;
    this.#pages[number] = { bytes, sizeIndex, live: 0, free: 0 };
    pages.add(number);
    open.add(number);
    this.#classAt(sizeIndex).freeBlocks += blocksPerPage;
    this.#pageCount += 1;
    return number;
  }

  #dropPage(number: number, { sizeIndex }: SlabPage): void {
    const sizeClass = this.#classAt(sizeIndex);
    sizeClass.pages.delete(number);
    sizeClass.open.delete(number);
    sizeClass.freeBlocks -= sizeClass.blocksPerPage;
    this.#pages[number] = undefined;
    this.#unused.push(number);
    this.#pageCount -= 1;
  }

  /** Moves the emptiest page of a size into the others when too many blocks are free. */
  #compact(sizeIndex: number): void {
    const { freeBlocks, blocksPerPage, pages } = this.#classAt(sizeIndex);
    const isTooMuch = freeBlocks > sparePages * blocksPerPage && freeBlocks > pages.size * blocksPerPage * spareShare;
    if (!isTooMuch) return;
    let emptiest = -1;
    for (const number of pages) {
      if (emptiest === -1 || this.#pageNumbered(number).live < this.#pageNumbered(emptiest).live) emptiest = number;
    }
    this.#moveAway(emptiest);
  }

  #moveAway(number: number): void {
    const page = this.#pageNumbered(number);
    const { bytes, sizeIndex } = page;
    const sizeClass = this.#classAt(sizeIndex);
    sizeClass.open.delete(number);
    const blockBytes = sizeClass.blockUnits * unitBytes;
    for (let block = 0; block < sizeClass.blocksPerPage; block += 1) {
      const at = block * blockBytes;
      const owner = bytes.readUInt32LE(at);
      if (owner === none) continue;
      const ref = this.#place(sizeIndex, owner);
      bytes.copy(this.bufferAt(ref), this.offsetAt(ref), at + ownerBytes, at + blockBytes);
      this.#onMove(owner, ref);
      page.live -= 1;
      sizeClass.freeBlocks += 1;
    }
    this.#dropPage(number, page);
  }

  #pageAt(ref: BlockRef): SlabPage {
    return this.#pageNumbered(pageOf(ref));
  }

  #pageNumbered(number: number): SlabPage {
    const page = this.#pages[number];
    if (page === undefined) throw new Error('slabs: a block was used after its release');
    return page;
  }

  #classAt(sizeIndex: number): SizeClass {
    return this.#classes[sizeIndex] as SizeClass;
  }
}

function refOf(page: number, unit: number): BlockRef {
  return page * 2 ** unitBits + unit;
}

function pageOf(ref: BlockRef): number {
  return ref >>> unitBits;
}

function unitOf(ref: BlockRef): number {
  return ref & (2 ** unitBits - 1);
}

function sizeIndexOf(bytes: number): number {
  return sizeIndexes[Math.ceil((bytes + ownerBytes) / unitBytes)] as number;
}

function first(numbers: ReadonlySet<number>): number | undefined {
  for (const number of numbers) return number;
  return undefined;
}

function blockSizes(): number[] {
  const largest = Math.ceil((largestPiece + ownerBytes) / unitBytes);
  const found = [4];
  for (let units = 4; units < largest; found.push(units)) {
    units = Math.min(largest, Math.max(units + 1, Math.floor(units * growth)));
  }
  return found;
}

function sizeIndexesOf(all: readonly number[]): Uint8Array {
  const indexes = new Uint8Array((all.at(-1) ?? 0) + 1);
  let index = 0;
  for (let units = 0; units < indexes.length; units += 1) {
    if (units > (all[index] ?? 0)) index += 1;
    indexes[units] = index;
  }
  return indexes;
}
