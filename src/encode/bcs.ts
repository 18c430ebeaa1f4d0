/**
 * Binary Canonical Serialization, the writing half (protocol 5.6). All integers are little-endian and of fixed width;
 * lengths are ULEB128. A value that does not fit its width is a `RangeError`, never a truncation.
 */
import type { Address, TypeTag } from '../ledger/index.ts';

/** Widths of the unsigned integers of Move, in bits. */
export type IntegerBits = 8 | 16 | 32 | 64 | 128 | 256;

/** Nodes serialise no type tag with more vectors and structs inside each other than this (protocol 4.2, 5.6). */
export const maxTypeTagNesting = 8;

/** Sequence lengths and byte lengths stay below this (protocol 5.6). */
const maxLength = 2 ** 31 - 1;
const maxU32 = 2 ** 32 - 1;

const startingBytes = 4096;
/** A buffer that one large request grew beyond this is given back with the next `reset`. */
const keptBytes = 1024 * 1024;

/** The value of a hex digit by its char code; anything else is 255. */
const hexDigits = new Uint8Array(128).fill(255);
for (let value = 0; value < 16; value += 1) {
  const digit = value.toString(16);
  hexDigits[digit.charCodeAt(0)] = value;
  hexDigits[digit.toUpperCase().charCodeAt(0)] = value;
}

/**
 * Writes into one buffer that is reused: `reset`, write, then take the result with `toHex` or `toBytes` before the next
 * `reset`. Not to be held across an `await`.
 */
export class BcsWriter {
  #buffer = Buffer.allocUnsafe(startingBytes);
  #length = 0;

  reset(): void {
    this.#length = 0;
    if (this.#buffer.length > keptBytes) this.#buffer = Buffer.allocUnsafe(startingBytes);
  }

  /** Lowercase hex without `0x`. */
  toHex(): string {
    return this.#buffer.toString('hex', 0, this.#length);
  }

  toBytes(): Uint8Array {
    return Uint8Array.prototype.slice.call(this.#buffer, 0, this.#length);
  }

  /** One byte, 0 to 255: u8, an enum's variant below 128, the tag of an option. */
  byte(value: number): void {
    if (!Number.isInteger(value) || value < 0 || value > 255) throw new RangeError(`not a byte: ${value}`);
    this.#reserve(1);
    this.#buffer[this.#length] = value;
    this.#length += 1;
  }

  bool(value: boolean): void {
    this.byte(value ? 1 : 0);
  }

  /** An unsigned integer of `bits / 8` bytes, little-endian. Throws `RangeError` when it does not fit. */
  integer(value: bigint, bits: IntegerBits): void {
    this.#reserve(bits / 8);
    if (bits === 64) {
      // Nearly every integer, and the Buffer checks the range itself.
      this.#length = this.#buffer.writeBigUInt64LE(value, this.#length);
      return;
    }
    if (value < 0n || value >> BigInt(bits) !== 0n) throw new RangeError(`not a u${bits}: ${value}`);
    if (bits < 64) {
      this.#length = this.#buffer.writeUIntLE(Number(value), this.#length, bits / 8);
      return;
    }
    for (let shift = 0n; shift < BigInt(bits); shift += 64n) {
      this.#length = this.#buffer.writeBigUInt64LE(BigInt.asUintN(64, value >> shift), this.#length);
    }
  }

  /** ULEB128 in its minimal form: seven bits a byte, lowest first, the top bit marks that more follow. u32 range. */
  uleb128(value: number): void {
    if (!Number.isInteger(value) || value < 0 || value > maxU32) throw new RangeError(`not a u32: ${value}`);
    this.#reserve(5);
    this.#length = writeUleb128(this.#buffer, this.#length, value);
  }

  /** The element count of a vector or the byte count of a string: ULEB128 below 2^31. */
  sequenceLength(value: number): void {
    if (value > maxLength) throw new RangeError(`length is not below 2^31: ${value}`);
    this.uleb128(value);
  }

  /** Bytes as they are, without a length. */
  raw(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#buffer.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /**
   * `vector<u8>` from `digits`, hex of any case without `0x`. Answers false, with nothing written, when they are not
   * whole bytes. (Not `Buffer.write(..., 'hex')`: it takes U+0130 for `0`.)
   */
  hex(digits: string): boolean {
    const count = digits.length / 2;
    if (!Number.isInteger(count)) return false;
    const start = this.#length;
    this.sequenceLength(count);
    this.#reserve(count);
    for (let at = 0; at < digits.length; at += 2) {
      const high = hexDigits[digits.charCodeAt(at)] ?? 255;
      const low = hexDigits[digits.charCodeAt(at + 1)] ?? 255;
      if (high > 15 || low > 15) {
        this.#length = start;
        return false;
      }
      this.#buffer[this.#length + at / 2] = (high << 4) | low;
    }
    this.#length += count;
    return true;
  }

  /** A string: ULEB128 count of its UTF-8 bytes, then those. Throws `RangeError` for lone surrogates. */
  string(text: string): void {
    if (!text.isWellFormed()) throw new RangeError('a lone surrogate has no UTF-8 form');
    const count = Buffer.byteLength(text);
    this.sequenceLength(count);
    this.#reserve(count);
    this.#length += this.#buffer.write(text, this.#length, 'utf8');
  }

  /** 32 bytes, big-endian, without a length. */
  address(address: Address): void {
    this.#reserve(32);
    const digits = address.length - 2;
    const hex = digits % 2 === 0 ? address.slice(2) : `0${address.slice(2)}`;
    const end = this.#length + 32;
    const start = end - hex.length / 2;
    this.#buffer.fill(0, this.#length, start);
    // An Address holds nothing but hex digits, 64 at most, so every one of them is written.
    this.#buffer.write(hex, start, 'hex');
    this.#length = end;
  }

  /** A type tag: one byte of kind, then what the kind holds. Throws `RangeError` beyond the nesting nodes write. */
  typeTag(tag: TypeTag, nesting = 0): void {
    switch (tag.kind) {
      case 'primitive':
        this.byte(primitiveVariant(tag.name));
        return;
      case 'vector':
        this.byte(6);
        this.typeTag(tag.element, deeper(nesting));
        return;
      case 'struct':
        this.byte(7);
        this.address(tag.address);
        this.string(tag.module);
        this.string(tag.name);
        this.sequenceLength(tag.typeArguments.length);
        for (const argument of tag.typeArguments) this.typeTag(argument, deeper(nesting));
    }
  }

  /**
   * Starts a byte string whose length its end determines; hand the result to `endBytes`. One byte is set aside
   * for the length, which is right for all but long values.
   */
  beginBytes(): number {
    this.byte(0);
    return this.#length;
  }

  /** Ends what `beginBytes` started: puts the count of the bytes written since then before them. */
  endBytes(start: number): void {
    const count = this.#length - start;
    if (count > maxLength) throw new RangeError(`length is not below 2^31: ${count}`);
    const prefix = uleb128Length(count);
    if (prefix > 1) {
      this.#reserve(prefix - 1);
      this.#buffer.copyWithin(start + prefix - 1, start, this.#length);
      this.#length += prefix - 1;
    }
    writeUleb128(this.#buffer, start - 1, count);
  }

  #reserve(count: number): void {
    const needed = this.#length + count;
    if (needed <= this.#buffer.length) return;
    const grown = Buffer.allocUnsafe(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(grown, 0, 0, this.#length);
    this.#buffer = grown;
  }
}

/** Writes at `at` and returns where the next byte goes. */
function writeUleb128(buffer: Buffer, at: number, value: number): number {
  let rest = value;
  let end = at;
  while (rest > 127) {
    buffer[end] = (rest & 127) | 128;
    rest = Math.floor(rest / 128);
    end += 1;
  }
  buffer[end] = rest;
  return end + 1;
}

function uleb128Length(value: number): number {
  let length = 1;
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) length += 1;
  return length;
}

function deeper(nesting: number): number {
  if (nesting >= maxTypeTagNesting) throw new RangeError(`type tag nested deeper than ${maxTypeTagNesting}`);
  return nesting + 1;
}

/** Signed integers have no number here: sources disagree on it (protocol 5.6). */
const primitiveVariants = new Map(
  Object.entries({ bool: 0, u8: 1, u64: 2, u128: 3, address: 4, signer: 5, u16: 8, u32: 9, u256: 10 }),
);

function primitiveVariant(name: string): number {
  const variant = primitiveVariants.get(name);
  if (variant === undefined) throw new RangeError(`no established type tag for ${name}`);
  return variant;
}
