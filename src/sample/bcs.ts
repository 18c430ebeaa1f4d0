/**
 * BCS frames of a sample node's answers: numbers, lengths, lists and options are real BCS; the values inside are
 * stand-ins, because a sample node has no encoder for Move types.
 */
import { createHash } from 'node:crypto';

/** 32 bytes that depend on nothing but `json`: two states differ in BCS wherever they differ in JSON. */
export function standInBytes(json: string): Buffer {
  return createHash('sha256').update(json).digest();
}

/** A u64, little-endian. */
export function u64Bytes(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}

/** A `HashValue`: its 32 bytes behind their length. `hash`: `0x` and 64 hex digits. */
export function hashBytes(hash: string): Buffer {
  return Buffer.concat([lengthBytes(32), Buffer.from(hash.slice(2), 'hex')]);
}

/** A length or a variant as ULEB128. */
export function lengthBytes(length: number): Buffer {
  const bytes: number[] = [];
  let rest = length;
  for (; rest >= 0x80; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80);
  bytes.push(rest);
  return Buffer.from(bytes);
}

/** A vector: the count, then the items. */
export function listBytes(items: readonly Uint8Array[]): Buffer {
  return Buffer.concat([lengthBytes(items.length), ...items]);
}

/** An option: 0, or 1 and the value. */
export function optionBytes(value: Uint8Array | undefined): Buffer {
  return value === undefined ? Buffer.from([0]) : Buffer.concat([Buffer.from([1]), value]);
}
