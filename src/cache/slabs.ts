/**
 * Memory for many small pieces of bytes: a few large buffers, cut into blocks of fixed sizes. A million buffers of their
 * own make the garbage collector stand still for some 17 ms at a time; a few thousand do not, and a block costs 4 bytes
 * where a buffer costs hundreds (bench/RESULTS.md, Memory).
 *
 * A sheet holds blocks of one size. When too many blocks of a size are free, the emptiest sheet is moved into the others
 * and let go: what is kept may change in size without leaving holes behind.
 */

/** Where a block is. Good until the block is given back, or `onMove` tells of another place. */
export type Ref = number;

/** Bytes of one sheet. */
const sheetBytes = 256 * 1024;
/** Blocks start at multiples of this many bytes. */
const unitBytes = 16;
const unitBits = Math.log2(sheetBytes / unitBytes);
/** A place has 32 bits, of which these are left for the sheet: 64 GiB. */
export const mostSheets = 2 ** (32 - unitBits);
/** Ahead of every block: whose it is. */
const ownerBytes = 4;
const nobody = 0xffff_ffff;
/** The largest piece: 15 of them fit on a sheet. */
export const largestPiece = 16 * 1024;
/** Sizes grow by an eighth, so that a sixteenth of a block is unused on average. */
const growth = 1.125;
/** Free blocks of a size that are too many: these many sheets full, and this part of all blocks of the size. */
const spareSheets = 2;
const spareShare = 1 / 8;

/** Block sizes, in units, smallest first. */
const sizes: readonly number[] = blockSizes();
/** By units wanted: the index of the smallest size that holds them. */
const sizeIndexes: Uint8Array = sizeIndexesOf(sizes);

interface Sheet {
  readonly bytes: Buffer;
  readonly sizeIndex: number;
  /** Blocks in use. */
  live: number;
  /** The first free block's offset in units; free blocks name the next one, 0xffffffff the last. */
  free: number;
}

/** All blocks of one size. */
interface Rank {
  readonly blockUnits: number;
  readonly blocksPerSheet: number;
  /** Numbers of its sheets. */
  readonly sheets: Set<number>;
  /** Those of them that have a free block. */
  readonly open: Set<number>;
  freeBlocks: number;
}

export class Slabs {
  readonly #sheets: (Sheet | undefined)[] = [];
  readonly #unused: number[] = [];
  readonly #ranks: readonly Rank[];
  readonly #onMove: (owner: number, ref: Ref) => void;
  readonly #mostSheets: number;
  #liveBytes = 0;
  #sheetCount = 0;

  /** `onMove` is told where a block is from now on, with the owner that it was taken for. */
  constructor(onMove: (owner: number, ref: Ref) => void, most = mostSheets) {
    this.#onMove = onMove;
    this.#mostSheets = most;
    this.#ranks = sizes.map((blockUnits) => ({
      blockUnits,
      blocksPerSheet: Math.floor(sheetBytes / unitBytes / blockUnits),
      sheets: new Set(),
      open: new Set(),
      freeBlocks: 0,
    }));
  }

  /** Bytes of blocks in use, unused ends included. */
  get liveBytes(): number {
    return this.#liveBytes;
  }

  /** Bytes taken from the system. */
  get sheetBytes(): number {
    return this.#sheetCount * sheetBytes;
  }

  /** Whether a block of any size can be had: places have an end. */
  get hasRoom(): boolean {
    return this.#sheetCount < this.#mostSheets;
  }

  /** While there is room: a block for `bytes`, at most `largestPiece`. `owner`: below 2^32 - 1. */
  take(bytes: number, owner: number): Ref {
    const ref = this.#place(sizeIndexOf(bytes), owner);
    this.#liveBytes += this.blockBytes(ref);
    return ref;
  }

  give(ref: Ref): void {
    this.#liveBytes -= this.blockBytes(ref);
    const { sizeIndex } = this.#free(ref);
    this.#thinOut(sizeIndex);
  }

  /** What a block takes of the bound. */
  blockBytes(ref: Ref): number {
    return this.#rankAt(this.#sheetAt(ref).sizeIndex).blockUnits * unitBytes;
  }

  /** The sheet that the block is on. */
  bufferAt(ref: Ref): Buffer {
    return this.#sheetAt(ref).bytes;
  }

  /** Where in it the piece starts. */
  offsetAt(ref: Ref): number {
    return unitOf(ref) * unitBytes + ownerBytes;
  }

  #place(sizeIndex: number, owner: number): Ref {
    const rank = this.#rankAt(sizeIndex);
    const number = first(rank.open) ?? this.#addSheet(sizeIndex);
    const sheet = this.#sheetNumbered(number);
    const unit = sheet.free;
    const at = unit * unitBytes;
    sheet.free = sheet.bytes.readUInt32LE(at + ownerBytes);
    sheet.bytes.writeUInt32LE(owner, at);
    sheet.live += 1;
    rank.freeBlocks -= 1;
    if (sheet.free === nobody) rank.open.delete(number);
    return refOf(number, unit);
  }

  #free(ref: Ref): Sheet {
    const number = sheetOf(ref);
    const sheet = this.#sheetNumbered(number);
    const rank = this.#rankAt(sheet.sizeIndex);
    const at = unitOf(ref) * unitBytes;
    sheet.bytes.writeUInt32LE(nobody, at);
    sheet.bytes.writeUInt32LE(sheet.free, at + ownerBytes);
    sheet.free = unitOf(ref);
    sheet.live -= 1;
    rank.freeBlocks += 1;
    rank.open.add(number);
    if (sheet.live === 0 && rank.sheets.size > 1) this.#dropSheet(number, sheet);
    return sheet;
  }

  #addSheet(sizeIndex: number): number {
    const { blockUnits, blocksPerSheet, sheets, open } = this.#rankAt(sizeIndex);
    const bytes = Buffer.allocUnsafeSlow(sheetBytes);
    for (let block = 0; block < blocksPerSheet; block += 1) {
      const at = block * blockUnits * unitBytes;
      bytes.writeUInt32LE(nobody, at);
      bytes.writeUInt32LE(block + 1 < blocksPerSheet ? (block + 1) * blockUnits : nobody, at + ownerBytes);
    }
    const number = this.#unused.pop() ?? this.#sheets.length;
    this.#sheets[number] = { bytes, sizeIndex, live: 0, free: 0 };
    sheets.add(number);
    open.add(number);
    this.#rankAt(sizeIndex).freeBlocks += blocksPerSheet;
    this.#sheetCount += 1;
    return number;
  }

  #dropSheet(number: number, { sizeIndex }: Sheet): void {
    const rank = this.#rankAt(sizeIndex);
    rank.sheets.delete(number);
    rank.open.delete(number);
    rank.freeBlocks -= rank.blocksPerSheet;
    this.#sheets[number] = undefined;
    this.#unused.push(number);
    this.#sheetCount -= 1;
  }

  /** Moves the emptiest sheet of a size into the others, when its free blocks are too many. */
  #thinOut(sizeIndex: number): void {
    const { freeBlocks, blocksPerSheet, sheets } = this.#rankAt(sizeIndex);
    const isTooMuch =
      freeBlocks > spareSheets * blocksPerSheet && freeBlocks > sheets.size * blocksPerSheet * spareShare;
    if (!isTooMuch) return;
    let emptiest = -1;
    for (const number of sheets) {
      if (emptiest === -1 || this.#sheetNumbered(number).live < this.#sheetNumbered(emptiest).live) emptiest = number;
    }
    this.#moveAway(emptiest);
  }

  #moveAway(number: number): void {
    const sheet = this.#sheetNumbered(number);
    const { bytes, sizeIndex } = sheet;
    const rank = this.#rankAt(sizeIndex);
    rank.open.delete(number);
    const blockBytes = rank.blockUnits * unitBytes;
    for (let block = 0; block < rank.blocksPerSheet; block += 1) {
      const at = block * blockBytes;
      const owner = bytes.readUInt32LE(at);
      if (owner === nobody) continue;
      const ref = this.#place(sizeIndex, owner);
      bytes.copy(this.bufferAt(ref), this.offsetAt(ref), at + ownerBytes, at + blockBytes);
      this.#onMove(owner, ref);
      sheet.live -= 1;
      rank.freeBlocks += 1;
    }
    this.#dropSheet(number, sheet);
  }

  #sheetAt(ref: Ref): Sheet {
    return this.#sheetNumbered(sheetOf(ref));
  }

  #sheetNumbered(number: number): Sheet {
    const sheet = this.#sheets[number];
    if (sheet === undefined) throw new Error('a block was used after it had been given back');
    return sheet;
  }

  #rankAt(sizeIndex: number): Rank {
    return this.#ranks[sizeIndex] as Rank;
  }
}

function refOf(sheet: number, unit: number): Ref {
  return sheet * 2 ** unitBits + unit;
}

function sheetOf(ref: Ref): number {
  return ref >>> unitBits;
}

function unitOf(ref: Ref): number {
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
