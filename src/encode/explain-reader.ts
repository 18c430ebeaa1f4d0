/** Binary Canonical Serialization, the reading half: it records and names every part that it takes. */
import { canonicalAddress } from '../ledger/address.ts';
import type { IntegerBits } from './bcs.ts';

/** One field of the bytes, named and explained. */
export interface ExplainedPart {
  /** Lowercase, without `0x`. */
  readonly hex: string;
  readonly field: string;
  readonly meaning: string;
}

/** Every method takes one part from the front; it throws `RangeError` where the bytes do not match. */
export class PartReader {
  readonly #bytes: Buffer;
  readonly #parts: ExplainedPart[] = [];
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** All parts, once nothing is left over. */
  end(): readonly ExplainedPart[] {
    if (this.#at !== this.#bytes.length) throw new RangeError(`${this.#bytes.length - this.#at} bytes left over`);
    return this.#parts;
  }

  /** `count` bytes; none make no part. */
  raw(count: number, field: string, meaning: string): void {
    const bytes = this.#take(count);
    if (count > 0) this.#note(bytes, field, meaning);
  }

  /** 32 bytes. */
  address(field: string): void {
    const bytes = this.#take(32);
    this.#note(bytes, field, canonicalAddress(bytes.toString('hex')));
  }

  /** Little-endian; `note` follows the decimal number. */
  integer(bits: IntegerBits, field: string, note = ''): void {
    const bytes = this.#take(bits / 8);
    this.#note(bytes, field, `u${bits} ${BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`)}${note}`);
  }

  /** One byte that chooses among `names`; answers with its number. */
  variant(field: string, names: readonly string[]): number {
    const bytes = this.#take(1);
    const variant = bytes.readUInt8();
    const name = names[variant];
    if (name === undefined) throw new RangeError(`${field}: no variant ${variant}`);
    this.#note(bytes, field, `${variant}, ${name}`);
    return variant;
  }

  /** The byte before an optional value. */
  isSome(field: string): boolean {
    return this.variant(field, ['none', 'some']) === 1;
  }

  /** A ULEB128 count of `what`. */
  length(field: string, what: string): number {
    const start = this.#at;
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#take(1).readUInt8();
      value += (byte % 128) * factor;
      if (byte < 128) break;
      if (factor > 128 ** 3) throw new RangeError(`${field}: a length of more than five bytes`);
    }
    this.#note(this.#bytes.subarray(start, this.#at), field, `${value} ${what}`);
    return value;
  }

  /** A ULEB128 count and so many bytes of UTF-8. */
  string(field: string): void {
    const bytes = this.#take(this.length(field, 'bytes of text'));
    if (bytes.length > 0) this.#note(bytes, field, JSON.stringify(bytes.toString()));
  }

  #take(count: number): Buffer {
    const end = this.#at + count;
    if (end > this.#bytes.length) throw new RangeError(`${count} bytes expected at ${this.#at}`);
    const bytes = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return bytes;
  }

  #note(bytes: Buffer, field: string, meaning: string): void {
    this.#parts.push({ hex: bytes.toString('hex'), field, meaning });
  }
}
