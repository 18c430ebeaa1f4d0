/**
 * Records in Redis (format 1). An answer is stored once under its digest; each read stores a reference to it. Both are
 * verified: a reference carries a checksum over its read, an answer must hash to the requested digest. Damaged,
 * truncated and foreign records, and those of another format, count as absent.
 */
import { constants, crc32, zstdCompress, zstdCompressSync, zstdDecompress, zstdDecompressSync } from 'node:zlib';
import { promisify } from 'node:util';
import { isFamilyText } from '../ledger/node-headers.ts';
import {
  bodyLength,
  bodyOffset,
  bodyOffsetOf,
  hasHead,
  isCompressed as hasCompressedBody,
  readHead,
  writeHead,
} from './answer-record.ts';
import { contentDigest, nothingCoded, type AnswerContent, type CachedResponse } from './entry.ts';
import { keyText, type CacheKey } from './key.ts';

/** Bytes. Larger answers are not shared (see also `RedisLink.longestValue`), nor allocated for a damaged record. */
export const largestBody = 32 * 1024 * 1024;
/** Bytes. Smaller bodies stay uncompressed: to expand one takes a quarter of a hit in Redis (bench/RESULTS.md). */
export const smallestCompressed = 8 * 1024;
/** Up to this size the switch to another thread costs more than the compression (bench/RESULTS.md). */
const largestInPlace = 64 * 1024;
/** Level 1 looks back at most 512 KiB; a record with a wider window is foreign, and would allocate it. */
const largestWindowLog = 20;

const compressInThread = promisify(zstdCompress);
const expandInThread = promisify(zstdDecompress);

/** The record of an answer, compressed from `compressFrom` bytes on; `undefined` where it is too large. */
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

/** The answer in `record`; `undefined` unless its content has this digest. */
export async function decodeRecord(record: Buffer, digest: string): Promise<CachedResponse | undefined> {
  if (!hasHead(record)) return undefined;
  const bodyStart = bodyOffset(record, 0);
  const bodyBytes = bodyLength(record, 0);
  const isCompressed = hasCompressedBody(record, 0);
  const stored = record.subarray(bodyStart);
  // The copy releases the receive buffer at once; `Answers` copies again into memory of its own.
  const body = isCompressed ? await expand(stored, bodyBytes) : Buffer.from(stored);
  if (body?.length !== bodyBytes) return undefined;
  const content = { ...readHead(record, 0), body };
  if (content.ownHeaders !== undefined && !isFamilyText(content.ownHeaders)) return undefined;
  // One content has one head: the digest does not cover every bit of it.
  if (headOf(content, isCompressed)?.equals(record.subarray(0, bodyStart)) !== true) return undefined;
  return contentDigest(content) === digest ? { ...content, digest, coded: nothingCoded } : undefined;
}

/** The bytes before the body; `undefined` where a text is too long. */
function headOf(content: AnswerContent, isCompressed: boolean): Buffer | undefined {
  const length = bodyOffsetOf(content);
  if (length === undefined) return undefined;
  const head = Buffer.alloc(length);
  writeHead(head, 0, content, isCompressed);
  return head;
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

/** A read's entry: the digest of its answer, and the end of a mutable one (seconds since the epoch). */
export interface Reference {
  readonly digest: string;
  readonly expiresAt: number | undefined;
}

/** The text of a reference, short enough for Redis' listpack encoding of hashes (64 bytes a value). */
export function encodeReference(key: CacheKey, { digest, expiresAt }: Reference): string {
  const text = `${digest}.${expiresAt?.toString(36) ?? ''}`;
  return `${text}.${checksum(key, text)}`;
}

/** The reference in `text`; `undefined` unless its checksum is that of this key. */
export function decodeReference(key: CacheKey, text: string): Reference | undefined {
  const [, body = '', digest = '', expiry = '', sum] =
    /^(([\w-]{22})\.([\da-z]{0,8}))\.([\da-z]{1,7})$/.exec(text) ?? [];
  if (body === '' || sum !== checksum(key, body)) return undefined;
  return { digest, expiresAt: expiry === '' ? undefined : Number.parseInt(expiry, 36) };
}

function checksum(key: CacheKey, text: string): string {
  return crc32(`${keyText(key)}\n${text}`).toString(36);
}
