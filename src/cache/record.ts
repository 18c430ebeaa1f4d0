/**
 * How answers are written in Redis (format 1). An answer is kept once under its digest; what a read finds is a
 * reference to it. Both prove themselves: a reference names the read it belongs to, an answer is taken only when it
 * hashes to the digest it was asked for. Whatever is damaged, cut off, foreign or of another format is no answer.
 */
import { constants, crc32, zstdCompress, zstdCompressSync, zstdDecompress, zstdDecompressSync } from 'node:zlib';
import { promisify } from 'node:util';
import type { LedgerVersion } from '../ledger/version.ts';
import { contentDigest, nothingCoded, type AnswerContent, type CachedResponse } from './entry.ts';
import { keyText, type CacheKey } from './key.ts';

/** Part of every key in Redis, so that another format is never even looked at. */
export const recordFormat = 1;

/** Larger answers are not shared (nor are many smaller ones: `RedisLink.longestValue`), and a length beyond it that a damaged record claims takes no memory. */
export const largestBody = 32 * 1024 * 1024;
/** Smaller bodies are kept as they are: expanding one would take a quarter of a hit in Redis (bench/RESULTS.md). */
export const smallestCompressed = 8 * 1024;
/** Up to this size a way to another thread and back costs more than the work itself (bench/RESULTS.md). */
const largestInPlace = 64 * 1024;
/** Level 1 looks back at most 512 KiB; what claims a wider window is not ours, and would take that much memory. */
const largestWindowLog = 20;

const magic = 0x4c47;
const flag = { zstd: 1, mutable: 2, gasUsed: 4, cursor: 8, committedAt: 16 } as const;
/** magic 2, format 1, flags 1, status 2, content type 1, gas used 1, cursor 2, committed at 8, body 4. */
const headBytes = 22;

const compressInThread = promisify(zstdCompress);
const expandInThread = promisify(zstdDecompress);

/**
 * The record of an answer, or `undefined` when it is larger than any that is shared. Bodies from `compressFrom` bytes on
 * are compressed; a reader takes both forms.
 */
export async function encodeRecord(
  answer: CachedResponse,
  compressFrom = smallestCompressed,
): Promise<Buffer | undefined> {
  const { body } = answer;
  const isCompressed = body.length >= compressFrom;
  const head = headOf(answer, isCompressed);
  if (head === undefined || body.length > largestBody) return undefined;
  return Buffer.concat([head, isCompressed ? await compress(body) : body]);
}

/** The answer that `record` holds, or `undefined` unless it is the one with this digest. */
export async function decodeRecord(record: Buffer, digest: string): Promise<CachedResponse | undefined> {
  if (record.length < headBytes || record.readUInt16BE(0) !== magic || record[2] !== recordFormat) return undefined;
  const flags = record.readUInt8(3);
  const contentTypeEnd = headBytes + record.readUInt8(6);
  const gasUsedEnd = contentTypeEnd + record.readUInt8(7);
  const bodyStart = gasUsedEnd + record.readUInt16BE(8);
  const bodyBytes = record.readUInt32BE(18);
  const isCompressed = (flags & flag.zstd) !== 0;
  const stored = record.subarray(bodyStart);
  // The bytes may be a view on a receive buffer, which is let go at once: `Answers` minds what is kept for longer.
  const body = isCompressed ? await expand(stored, bodyBytes) : Buffer.from(stored);
  if (body?.length !== bodyBytes) return undefined;
  const content = {
    status: record.readUInt16BE(4),
    contentType: record.toString('utf8', headBytes, contentTypeEnd),
    gasUsed: (flags & flag.gasUsed) === 0 ? undefined : record.toString('utf8', contentTypeEnd, gasUsedEnd),
    cursor: (flags & flag.cursor) === 0 ? undefined : record.toString('utf8', gasUsedEnd, bodyStart),
    body,
    committedAt: (flags & flag.committedAt) === 0 ? undefined : (record.readBigUInt64BE(10) as LedgerVersion),
    isImmutable: (flags & flag.mutable) === 0,
  };
  // One content has one head: a bit that the digest does not see must not be another either.
  if (headOf(content, isCompressed)?.equals(record.subarray(0, bodyStart)) !== true) return undefined;
  return contentDigest(content) === digest ? { ...content, digest, coded: nothingCoded } : undefined;
}

/** What stands before the body; `undefined` when a header is longer than any node's. */
function headOf(content: AnswerContent, isCompressed: boolean): Buffer | undefined {
  const { status, body, committedAt = 0n } = content;
  const [contentType, gasUsed, cursor] = [content.contentType, content.gasUsed ?? '', content.cursor ?? ''].map(
    (text) => Buffer.from(text),
  ) as [Buffer, Buffer, Buffer];
  if (contentType.length > 255 || gasUsed.length > 255 || cursor.length > 65_535) return undefined;
  const head = Buffer.alloc(headBytes);
  head.writeUInt16BE(magic, 0);
  head.writeUInt8(recordFormat, 2);
  head.writeUInt8(flagsOf(content) | (isCompressed ? flag.zstd : 0), 3);
  head.writeUInt16BE(status, 4);
  head.writeUInt8(contentType.length, 6);
  head.writeUInt8(gasUsed.length, 7);
  head.writeUInt16BE(cursor.length, 8);
  head.writeBigUInt64BE(committedAt, 10);
  head.writeUInt32BE(body.length, 18);
  return Buffer.concat([head, contentType, gasUsed, cursor]);
}

function flagsOf({ gasUsed, cursor, committedAt, isImmutable }: AnswerContent): number {
  return (
    (isImmutable ? 0 : flag.mutable) |
    (gasUsed === undefined ? 0 : flag.gasUsed) |
    (cursor === undefined ? 0 : flag.cursor) |
    (committedAt === undefined ? 0 : flag.committedAt)
  );
}

async function compress(body: Buffer): Promise<Buffer> {
  const options = { params: { [constants.ZSTD_c_compressionLevel]: 1 }, pledgedSrcSize: body.length };
  return body.length <= largestInPlace ? zstdCompressSync(body, options) : compressInThread(body, options);
}

async function expand(stored: Buffer, length: number): Promise<Buffer | undefined> {
  if (length > largestBody) return undefined;
  const options = {
    params: { [constants.ZSTD_d_windowLogMax]: largestWindowLog },
    maxOutputLength: Math.max(1, length),
  };
  try {
    return length <= largestInPlace ? zstdDecompressSync(stored, options) : await expandInThread(stored, options);
  } catch {
    return undefined;
  }
}

/** What a read finds: the digest of its answer, and when it has to be asked for anew (seconds since the epoch). */
export interface Reference {
  readonly digest: string;
  readonly expiresAt: number | undefined;
}

/** Short enough for Redis' compact form of small hashes (64 bytes). */
export function encodeReference(key: CacheKey, { digest, expiresAt }: Reference): string {
  const text = `${digest}.${expiresAt?.toString(36) ?? ''}`;
  return `${text}.${checksum(key, text)}`;
}

/** `undefined` unless the text was made for this very key. */
export function decodeReference(key: CacheKey, text: string): Reference | undefined {
  const [, body = '', digest = '', expiry = '', sum] =
    /^(([\w-]{22})\.([\da-z]{0,8}))\.([\da-z]{1,7})$/.exec(text) ?? [];
  if (body === '' || sum !== checksum(key, body)) return undefined;
  return { digest, expiresAt: expiry === '' ? undefined : Number.parseInt(expiry, 36) };
}

function checksum(key: CacheKey, text: string): string {
  return crc32(`${keyText(key)}\n${text}`).toString(36);
}
