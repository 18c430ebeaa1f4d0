/**
 * How answers are written in Redis (format 1). An answer is kept once under its digest; what a read finds is a
 * reference to it. Both prove themselves: a reference names the read it belongs to, an answer is taken only when it
 * hashes to the digest it was asked for. Whatever is damaged, cut off, foreign or of another format is no answer.
 */
import { constants, crc32, zstdCompress, zstdDecompress } from 'node:zlib';
import { promisify } from 'node:util';
import type { LedgerVersion } from '../ledger/version.ts';
import { contentDigest, type CachedResponse } from './entry.ts';
import { keyText, type CacheKey } from './key.ts';

/** Part of every key in Redis, so that another format is never even looked at. */
export const recordFormat = 1;

/** Smaller bodies are kept as they are: compressing them costs more than it saves (bench/RESULTS.md). */
export const smallestCompressed = 4 * 1024;
/** Far above what nodes answer: a length that a damaged record claims must not take memory. */
const largestBody = 64 * 1024 * 1024;

const magic = 0x4c47;
const flag = { zstd: 1, mutable: 2, gasUsed: 4, cursor: 8, committedAt: 16 } as const;
/** magic 2, format 1, flags 1, status 2, content type 1, gas used 1, cursor 2, committed at 8, body 4. */
const headBytes = 22;

const zstd = promisify(zstdCompress);
const unzstd = promisify(zstdDecompress);

/** The record of an answer, or `undefined` when one of its headers is longer than any node's. */
export async function encodeRecord(answer: CachedResponse): Promise<Buffer | undefined> {
  const { status, contentType, body, gasUsed = '', cursor = '', committedAt } = answer;
  if (contentType.length > 255 || gasUsed.length > 255 || cursor.length > 65_535) return undefined;
  const isCompressed = body.length >= smallestCompressed;
  const stored = isCompressed ? await zstd(body, { params: { [constants.ZSTD_c_compressionLevel]: 1 } }) : body;
  const head = Buffer.alloc(headBytes);
  head.writeUInt16BE(magic, 0);
  head.writeUInt8(recordFormat, 2);
  head.writeUInt8(flagsOf(answer) | (isCompressed ? flag.zstd : 0), 3);
  head.writeUInt16BE(status, 4);
  head.writeUInt8(contentType.length, 6);
  head.writeUInt8(gasUsed.length, 7);
  head.writeUInt16BE(cursor.length, 8);
  head.writeBigUInt64BE(committedAt ?? 0n, 10);
  head.writeUInt32BE(body.length, 18);
  return Buffer.concat([head, Buffer.from(contentType + gasUsed + cursor, 'latin1'), stored]);
}

/** The answer that `record` holds, or `undefined` unless it is the one with this digest. */
export async function decodeRecord(record: Buffer, digest: string): Promise<CachedResponse | undefined> {
  if (record.length < headBytes || record.readUInt16BE(0) !== magic || record[2] !== recordFormat) return undefined;
  const flags = record.readUInt8(3);
  const contentTypeEnd = headBytes + record.readUInt8(6);
  const gasUsedEnd = contentTypeEnd + record.readUInt8(7);
  const cursorEnd = gasUsedEnd + record.readUInt16BE(8);
  const bodyBytes = record.readUInt32BE(18);
  const body = await bodyOf(record.subarray(cursorEnd), bodyBytes, (flags & flag.zstd) !== 0);
  if (body?.length !== bodyBytes) return undefined;
  const content = {
    status: record.readUInt16BE(4),
    contentType: record.toString('latin1', headBytes, contentTypeEnd),
    gasUsed: (flags & flag.gasUsed) === 0 ? undefined : record.toString('latin1', contentTypeEnd, gasUsedEnd),
    cursor: (flags & flag.cursor) === 0 ? undefined : record.toString('latin1', gasUsedEnd, cursorEnd),
    body,
    committedAt: (flags & flag.committedAt) === 0 ? undefined : (record.readBigUInt64BE(10) as LedgerVersion),
    isImmutable: (flags & flag.mutable) === 0,
  };
  return contentDigest(content) === digest ? { ...content, digest, coded: {} } : undefined;
}

function flagsOf({ gasUsed, cursor, committedAt, isImmutable }: CachedResponse): number {
  return (
    (isImmutable ? 0 : flag.mutable) |
    (gasUsed === undefined ? 0 : flag.gasUsed) |
    (cursor === undefined ? 0 : flag.cursor) |
    (committedAt === undefined ? 0 : flag.committedAt)
  );
}

async function bodyOf(stored: Buffer, length: number, isCompressed: boolean): Promise<Buffer | undefined> {
  if (length > largestBody) return undefined;
  // The bytes may be a view on a receive buffer, which a kept answer must not keep alive.
  if (!isCompressed) return Buffer.from(stored);
  try {
    return await unzstd(stored, { maxOutputLength: Math.max(1, length) });
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
