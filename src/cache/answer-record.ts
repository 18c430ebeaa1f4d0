/** The bytes of an answer (format 1, big-endian), in Redis and in slabs: a head of fixed length, texts, the body. */
import type { LedgerVersion } from '../ledger/version.ts';
import type { AnswerContent } from './entry.ts';

/** Part of every key in Redis: gateways of different formats never read each other's records. */
export const recordFormat = 1;

const magic = 0x4c47;
/** Offsets of fields: magic 2, format 1, flags 1, status 2, text lengths 1, 1, 2, version 8, body length 4 bytes. */
const at = {
  format: 2,
  flags: 3,
  status: 4,
  contentType: 6,
  gasUsed: 7,
  cursor: 8,
  committedAt: 10,
  body: 18,
} as const;
const headBytes = 22;
const flag = { zstd: 1, mutable: 2, gasUsed: 4, cursor: 8, committedAt: 16, ownHeaders: 32 } as const;

/**
 * The text of the cursor's field. Own headers precede the cursor with a line feed, which neither has: gateways that do
 * not know the flag refuse such a record, and all other records stay as they were.
 */
function cursorField({ cursor, ownHeaders }: Pick<AnswerContent, 'cursor' | 'ownHeaders'>): string | undefined {
  return ownHeaders === undefined ? cursor : `${ownHeaders}\n${cursor ?? ''}`;
}

/** Bytes before the body; `undefined` when a text exceeds its length field: then the answer has no record. */
export function bodyOffsetOf({ contentType, gasUsed, cursor, ownHeaders }: AnswerContent): number | undefined {
  const typeBytes = Buffer.byteLength(contentType);
  const gasBytes = gasUsed === undefined ? 0 : Buffer.byteLength(gasUsed);
  const cursorBytes = Buffer.byteLength(cursorField({ cursor, ownHeaders }) ?? '');
  if (typeBytes > 0xff || gasBytes > 0xff || cursorBytes > 0xffff) return undefined;
  return headBytes + typeBytes + gasBytes + cursorBytes;
}

/** Writes the head and texts of an answer that has a `bodyOffsetOf`. `isCompressed`: the body follows as zstd. */
export function writeHead(bytes: Buffer, offset: number, content: AnswerContent, isCompressed = false): void {
  const { contentType, gasUsed, cursor, ownHeaders, committedAt, isImmutable } = content;
  bytes.writeUInt16BE(magic, offset);
  bytes[offset + at.format] = recordFormat;
  bytes[offset + at.flags] =
    (isCompressed ? flag.zstd : 0) |
    (isImmutable ? 0 : flag.mutable) |
    (gasUsed === undefined ? 0 : flag.gasUsed) |
    (cursor === undefined ? 0 : flag.cursor) |
    (ownHeaders === undefined ? 0 : flag.ownHeaders) |
    (committedAt === undefined ? 0 : flag.committedAt);
  bytes.writeUInt16BE(content.status, offset + at.status);
  bytes.writeBigUInt64BE(committedAt ?? 0n, offset + at.committedAt);
  bytes.writeUInt32BE(content.body.length, offset + at.body);
  let next = offset + headBytes;
  next += bytes[offset + at.contentType] = bytes.write(contentType, next);
  next += bytes[offset + at.gasUsed] = gasUsed === undefined ? 0 : bytes.write(gasUsed, next);
  const field = cursorField(content);
  bytes.writeUInt16BE(field === undefined ? 0 : bytes.write(field, next), offset + at.cursor);
}

/** Whether the record begins with a head of this format. */
export function hasHead(record: Buffer): boolean {
  return record.length >= headBytes && record.readUInt16BE(0) === magic && record[at.format] === recordFormat;
}

/** The inverse of `writeHead`. */
export function readHead(bytes: Buffer, offset: number): Omit<AnswerContent, 'body'> {
  const flags = bytes[offset + at.flags] as number;
  const gasUsed = offset + headBytes + (bytes[offset + at.contentType] as number);
  const cursor = gasUsed + (bytes[offset + at.gasUsed] as number);
  const has = (part: number): boolean => (flags & part) !== 0;
  const field = bytes.toString('utf8', cursor, bodyOffset(bytes, offset));
  const ownEnd = has(flag.ownHeaders) ? field.indexOf('\n') : -1;
  return {
    status: bytes.readUInt16BE(offset + at.status),
    contentType: bytes.toString('utf8', offset + headBytes, gasUsed),
    gasUsed: has(flag.gasUsed) ? bytes.toString('utf8', gasUsed, cursor) : undefined,
    cursor: has(flag.cursor) ? field.slice(ownEnd + 1) : undefined,
    ownHeaders: has(flag.ownHeaders) ? field.slice(0, Math.max(0, ownEnd)) : undefined,
    committedAt: has(flag.committedAt) ? (bytes.readBigUInt64BE(offset + at.committedAt) as LedgerVersion) : undefined,
    isImmutable: !has(flag.mutable),
  };
}

/** The offset of a record's body in `bytes`. */
export function bodyOffset(bytes: Buffer, offset: number): number {
  const texts = (bytes[offset + at.contentType] as number) + (bytes[offset + at.gasUsed] as number);
  return offset + headBytes + texts + bytes.readUInt16BE(offset + at.cursor);
}

/** Bytes of the uncompressed body. */
export function bodyLength(bytes: Buffer, offset: number): number {
  return bytes.readUInt32BE(offset + at.body);
}

/** Whether the record's body is zstd. */
export function isCompressed(bytes: Buffer, offset: number): boolean {
  return ((bytes[offset + at.flags] as number) & flag.zstd) !== 0;
}
