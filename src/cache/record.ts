/**
 * Answers as the cache has them: body bytes verbatim, and no version, because one answer mostly holds at many versions.
 * Then their records (format 1, big-endian): a head of fixed length, texts, the body. Memory has them in slabs. In Redis
 * an answer is stored once under its digest, and each read stores a reference to it. Both are verified there: a reference
 * carries a checksum over its read, an answer must hash to the requested digest. Damaged, truncated and foreign records,
 * and those of another format, count as absent.
 */
import { createHash, hash } from 'node:crypto';
import { constants, crc32, zstdCompress, zstdCompressSync, zstdDecompress, zstdDecompressSync } from 'node:zlib';
import { promisify } from 'node:util';
import { familyText, type LedgerVersion } from '../ledger/index.ts';
import { keyText, type CacheKey } from './key.ts';

/** Content codings the gateway makes itself (RFC 9110 8.4.1); nodes are asked for plain bodies. */
export type ContentCoding = 'br' | 'zstd' | 'gzip';

/** The parts of a node's answer that its digest covers. */
export interface AnswerContent {
  readonly status: number;
  readonly contentType: string;
  readonly body: Buffer;
  /** Cost of the call as the node reported it: the state at the version decides it. */
  readonly gasUsed: string | undefined;
  readonly cursor: string | undefined;
  /** Further headers of the ledger family that belong to the answer (`familyText`). */
  readonly ownHeaders: string | undefined;
  /** Version at which a transaction was committed, or a later one where the answer has none. */
  readonly committedAt: LedgerVersion | undefined;
  /**
   * Ms for which the answer is kept: 0, not at all; `Infinity`, its bytes hold for ever. The policy decides it
   * (proxy/reads: policy.ts); all tiers and the heads of answers obey. Records know `Infinity` and `mutableTtlMs` alone.
   */
  readonly lifetimeMs: number;
}

/** A stored answer with its identity and its compressed forms. */
export interface CachedResponse extends AnswerContent {
  /** `contentDigest` of the answer: its identity, and the middle of its entity tag. */
  readonly digest: string;
  /** Compressed forms, made on first use and shared by every version that has this answer. */
  readonly coded: Coded;
}

/** Compressed bodies by content coding. */
export type Coded = Readonly<Partial<Record<ContentCoding, Buffer>>>;

/** The compressed forms of an answer that has none yet. */
export const nothingCoded: Coded = Object.freeze({});

/** The stored form of an answer. Only one that others may get has a digest: `isShared`. */
export function createEntry(content: AnswerContent, isShared: boolean): CachedResponse {
  return { ...content, digest: isShared ? contentDigest(content) : '', coded: nothingCoded };
}

/**
 * 132 bits of SHA-256 over the whole answer: enough that two answers never share one. The parts before the body are
 * fixed in number and hold no line feed, so that they cannot run into each other.
 */
export function contentDigest(content: AnswerContent): string {
  const { status, contentType, gasUsed = '-', cursor = '-', committedAt = '-', lifetimeMs, ownHeaders } = content;
  const own = ownHeaders === undefined ? '' : ` ${ownHeaders}`;
  const head = `${status}\n${contentType}\n${gasUsed}\n${cursor}\n${committedAt}\n${lifetimeMs === Infinity}${own}\n`;
  return digestOf(head, content.body).slice(0, 22);
}

/** Larger bodies are cheaper to hash in two pieces than to copy. */
const largestCopied = 16 * 1024;
const largestHead = 1024;
/** Room for the largest head, three bytes a character, and the largest copied body. */
const scratch = Buffer.allocUnsafeSlow(largestHead * 3 + largestCopied);

/** One-shot `hash`: thousands of hash objects lengthen the garbage collector's pauses. */
function digestOf(head: string, body: Buffer): string {
  if (body.length > largestCopied || head.length > largestHead) {
    return createHash('sha256').update(head).update(body).digest('base64url');
  }
  const end = scratch.write(head);
  body.copy(scratch, end);
  return hash('sha256', scratch.subarray(0, end + body.length), 'base64url');
}

/**
 * Longest lifetime in ms of an answer whose bytes do not hold for ever: later nodes may render a committed transaction
 * otherwise (protocol 1.1).
 */
export const mutableTtlMs = 10 * 60_000;

/** Bytes of an answer beside its body: objects, strings, a map entry. Measured. */
const overheadBytes = 750;

/** Bytes of an answer in the write queue, compressed forms included. */
export function answerBytes(answer: CachedResponse): number {
  let bytes = overheadBytes + answer.body.length;
  for (const coded of Object.values(answer.coded)) bytes += coded.length;
  return bytes;
}

/**
 * The bytes in memory of their own. Node cuts small buffers out of shared ones of 64 KiB, and one stored slice retains
 * all of it: 200 compressed bytes could take 300 times their size.
 */
export function ownBytes(bytes: Buffer): Buffer {
  if (bytes.buffer.byteLength <= bytes.length + bytes.length / 8) return bytes;
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}

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
  const { contentType, gasUsed, cursor, ownHeaders, committedAt, lifetimeMs } = content;
  bytes.writeUInt16BE(magic, offset);
  bytes[offset + at.format] = recordFormat;
  bytes[offset + at.flags] =
    (isCompressed ? flag.zstd : 0) |
    (lifetimeMs === Infinity ? 0 : flag.mutable) |
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
    // A read's reference has the end of a shorter one.
    lifetimeMs: has(flag.mutable) ? mutableTtlMs : Infinity,
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

/** The record with its body compressed, where that is worth it; `record` has a plain one. */
export function compressedRecord(record: Buffer): Buffer {
  const start = bodyOffset(record, 0);
  if (record.length - start < smallestCompressed) return record;
  const compressed = zstdCompressSync(record.subarray(start), zstdOptions(record.length - start));
  const head = Buffer.from(record.subarray(0, start));
  head[at.flags] = (head[at.flags] as number) | flag.zstd;
  return Buffer.concat([head, compressed]);
}

/** The answer in `record`; `undefined` unless its content has this digest. */
export async function decodeRecord(record: Buffer, digest: string): Promise<CachedResponse | undefined> {
  if (record.length < headBytes || record.readUInt16BE(0) !== magic) return undefined;
  if (record[at.format] !== recordFormat) return undefined;
  const bodyStart = bodyOffset(record, 0);
  const bodyBytes = bodyLength(record, 0);
  const isCompressed = ((record[at.flags] as number) & flag.zstd) !== 0;
  const stored = record.subarray(bodyStart);
  // The copy releases the receive buffer at once; `Answers` copies again into memory of its own.
  const body = isCompressed ? await expand(stored, bodyBytes) : Buffer.from(stored);
  if (body?.length !== bodyBytes) return undefined;
  const content = { ...readHead(record, 0), body };
  if (content.ownHeaders !== undefined && !familyText.isValid(content.ownHeaders)) return undefined;
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

function zstdOptions(bytes: number) {
  return { params: { [constants.ZSTD_c_compressionLevel]: 1 }, pledgedSrcSize: bytes };
}

async function compress(body: Buffer): Promise<Buffer> {
  const options = zstdOptions(body.length);
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

/** A read's entry: the digest of its answer, and the end of a mutable one (seconds since 1970). */
interface Reference {
  readonly digest: string;
  readonly expiresAt: number | undefined;
}

/** The reference to an answer that a tier keeps for at most `mostMs`. */
export function referenceTo({ digest, lifetimeMs }: CachedResponse, mostMs = Infinity): Reference {
  const isFinal = lifetimeMs === Infinity;
  return { digest, expiresAt: isFinal ? undefined : Math.ceil((Date.now() + Math.min(lifetimeMs, mostMs)) / 1000) };
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

/** The reason of a miss. `damaged`: the entry is foreign or truncated, and is to be overwritten. */
export type Miss = 'absent' | 'damaged' | 'unavailable';

/** An answer that a tier has. `ttlMs`: remaining lifetime of a mutable one. */
export interface FoundAnswer {
  readonly answer: CachedResponse;
  readonly ttlMs?: number | undefined;
}

/** The result of a look-up. */
export type Lookup = FoundAnswer | { readonly miss: Miss };

/** The outcome of a look-up, as it is counted. */
export function outcomeOf(lookup: Lookup): 'hit' | Miss {
  return 'answer' in lookup ? 'hit' : lookup.miss;
}

/** Looks in memory by digest, which spares the transfer of a record and its proof. */
export type FindAnswer = (digest: string) => CachedResponse | undefined;

/** The answer that a tier's entry for the read names. `readRecord`: the record under this digest in the tier. */
export async function lookUp(
  key: CacheKey,
  entry: string,
  findAnswer: FindAnswer,
  readRecord: (digest: string) => Buffer | Miss | Promise<Buffer | Miss>,
): Promise<Lookup> {
  const reference = decodeReference(key, entry);
  if (reference === undefined) return { miss: 'damaged' };
  const { digest, expiresAt } = reference;
  const ttlMs = expiresAt === undefined ? undefined : expiresAt * 1000 - Date.now();
  if (ttlMs !== undefined && ttlMs <= 0) return { miss: 'absent' };
  const held = findAnswer(digest);
  if (held !== undefined) return { answer: held, ttlMs };
  const record = await readRecord(digest);
  if (typeof record === 'string') return { miss: record };
  const answer = await decodeRecord(record, digest);
  return answer === undefined ? { miss: 'damaged' } : { answer, ttlMs };
}
