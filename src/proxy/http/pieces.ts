/** Bytes that arrive in pieces, such as the body of a request, collected in linear time. */

/** Smaller pieces are copied into blocks. */
const smallPiece = 4 * 1024;
const blockBytes = 16 * 1024;

/**
 * Collects received pieces. A piece of one byte takes a hundred bytes of memory, and 8 MiB of them a gigabyte; so, after
 * the first, small pieces are copied into blocks.
 */
export class Pieces {
  readonly #whole: Buffer[] = [];
  #block: Buffer | undefined;
  #used = 0;
  #length = 0;

  /** Bytes so far. */
  get length(): number {
    return this.#length;
  }

  /** Keeps a large piece itself, whose bytes must not change. */
  add(piece: Buffer): void {
    this.#length += piece.length;
    if (piece.length >= smallPiece || (this.#whole.length === 0 && this.#block === undefined)) {
      this.#closeBlock();
      this.#whole.push(isMostOfItsMemory(piece) ? piece : Buffer.concat([piece]));
      return;
    }
    if (this.#block !== undefined && this.#used + piece.length > blockBytes) this.#closeBlock();
    this.#block ??= Buffer.allocUnsafeSlow(blockBytes);
    this.#used += piece.copy(this.#block, this.#used);
  }

  /** A single piece is returned without a copy. */
  whole(): Buffer {
    this.#closeBlock();
    const [first] = this.#whole;
    return this.#whole.length === 1 && first !== undefined ? first : Buffer.concat(this.#whole);
  }

  #closeBlock(): void {
    if (this.#block !== undefined) this.#whole.push(this.#block.subarray(0, this.#used));
    this.#block = undefined;
    this.#used = 0;
  }
}

/** An HTTP/2 piece may be 4 kB of a 64 kB read, and would keep all of it in memory. */
function isMostOfItsMemory({ length, buffer }: Buffer): boolean {
  return length >= buffer.byteLength / 2;
}
