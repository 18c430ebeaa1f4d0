/**
 * How answers are written in Redis (format 1). An answer is kept once under its digest; what a read finds is a
 * reference to it. Both prove themselves: a reference names the read it belongs to, an answer is taken only when it
 * hashes to the digest it was asked for. Whatever is damaged, cut off, foreign or of another format is no answer.
 */
import { constants, crc32, zstdCompress, zstdCompressSync, zstdDecompress, zstdDecompressSync } from 'node:zlib';
import { promisify } from 'node:util';
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

/** Larger answers are not shared (nor are many smaller ones: `RedisLink.longestValue`), and a length beyond it that a damaged record claims takes no memory. */
export const largestBody = 32 * 1024 * 1024;
/** Smaller bodies are kept as they are: expanding one would take a quarter of a hit in Redis (bench/RESULTS.md). */
export const smallestCompressed = 8 * 1024;
/** Up to this size a way to another thread and back costs more than the work itself (bench/RESULTS.md). */
const largestInPlace = 64 * 1024;
/** Level 1 looks back at most 512 KiB; what claims a wider window is not ours, and would take that much memory. */
const largestWindowLog = 20;

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
  if (!hasHead(record)) return undefined;
  const bodyStart = bodyOffset(record, 0);
  const bodyBytes = bodyLength(record, 0);
  const isCompressed = hasCompressedBody(record, 0);
  const stored = record.subarray(bodyStart);
  // The bytes may be a view on a receive buffer, which is let go at once: `Answers` copies what is kept for longer.
  const body = isCompressed ? await expand(stored, bodyBytes) : Buffer.from(stored);
  if (body?.length !== bodyBytes) return undefined;
  const content = { ...readHead(record, 0), body };
  // One content has one head: a bit that the digest does not see must not be another either.
  if (headOf(content, isCompressed)?.equals(record.subarray(0, bodyStart)) !== true) return undefined;
  return contentDigest(content) === digest ? { ...content, digest, coded: nothingCoded } : undefined;
}

/** What stands before the body; `undefined` where a text has no room. */
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
