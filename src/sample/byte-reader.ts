/** Reads BCS bytes from front to back. The first overrun is final: `failed` stays set and what follows is empty. */
export class ByteReader {
  readonly #bytes: Uint8Array;
  #at = 0;
  failed = false;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  take(length: number): Uint8Array {
    if (this.failed || length > this.#bytes.length - this.#at) {
      this.failed = true;
      return new Uint8Array();
    }
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  /** A ULEB128 number of at most 32 bits: a length, or a variant. */
  takeLength(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.take(1)[0] ?? 0;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
    this.failed = true;
    return 0;
  }

  takeText(): string {
    return Buffer.from(this.take(this.takeLength())).toString();
  }
}
