/**
 * A node's answer as it is kept: body bytes verbatim, the few headers that belong to the body, and no live state. It
 * does not say which version it is of: one answer mostly is the answer at many versions.
 */
import { createHash, hash } from 'node:crypto';
import type { LedgerVersion } from '../ledger/version.ts';

/** Content codings the gateway makes itself (RFC 9110 8.4.1); nodes are asked for plain bodies. */
export type ContentCoding = 'br' | 'zstd' | 'gzip';

/** What a node said, and for how long it holds. */
export interface AnswerContent {
  readonly status: number;
  readonly contentType: string;
  readonly body: Buffer;
  /** Cost of the call as the node told it: state at the version decides it, so it is kept with the body. */
  readonly gasUsed: string | undefined;
  readonly cursor: string | undefined;
  /** Version at which a transaction was committed, or a later one where the answer does not tell. */
  readonly committedAt: LedgerVersion | undefined;
  /** Whether these bytes are the answer for ever; a committed transaction is, in meaning but not to the byte. */
  readonly isImmutable: boolean;
}

export interface CachedResponse extends AnswerContent {
  /** `contentDigest` of the answer: its identity, and the middle of its entity tag. */
  readonly digest: string;
  /** Compressed forms, made when first asked for and shared by every version that has this answer. */
  readonly coded: Coded;
}

export type Coded = Readonly<Partial<Record<ContentCoding, Buffer>>>;

/** Of an answer that was not asked for in any coding yet. */
export const nothingCoded: Coded = Object.freeze({});

/**
 * 132 bits of SHA-256 over the whole answer: enough that two answers never share one. The parts before the body are
 * fixed in number and hold no line feed, so that they cannot run into each other.
 */
export function contentDigest(content: AnswerContent): string {
  const { status, contentType, gasUsed = '-', cursor = '-', committedAt = '-', isImmutable } = content;
  const head = `${status}\n${contentType}\n${gasUsed}\n${cursor}\n${committedAt}\n${isImmutable}\n`;
  return digestOf(head, content.body).slice(0, 22);
}

/** Larger bodies are cheaper hashed in two pieces than copied. */
const largestCopied = 16 * 1024;
const largestHead = 1024;
/** Room for a head of such length, three bytes a character, and a body that is copied. */
const scratch = Buffer.allocUnsafeSlow(largestHead * 3 + largestCopied);

/** A hash that is an object is torn down in the garbage collector's pauses, which thousands of them make long. */
function digestOf(head: string, body: Buffer): string {
  if (body.length > largestCopied) return inPieces(head, body);
  if (head.length > largestHead) return inPieces(head, body);
  const end = scratch.write(head);
  body.copy(scratch, end);
  return hash('sha256', scratch.subarray(0, end + body.length), 'base64url');
}

function inPieces(head: string, body: Buffer): string {
  return createHash('sha256').update(head).update(body).digest('base64url');
}

/** For how long an answer that is not immutable holds, in every tier: after that it is asked for again (protocol 1.1). */
export const mutableTtlMs = 10 * 60_000;

/** What an answer takes beside its bytes: objects, strings, its place in a map. Measured. */
const overheadBytes = 750;

/** Bytes that an answer on its way to Redis counts for, compressed forms included. */
export function answerBytes(answer: CachedResponse): number {
  let bytes = overheadBytes + answer.body.length;
  for (const coded of Object.values(answer.coded)) bytes += coded.length;
  return bytes;
}

/**
 * The bytes, as they may be kept. Node cuts small buffers out of larger ones, of 64 KiB each, and any part that is kept
 * keeps the whole: 200 bytes that a compressor gave could take as much as 300 times what they count for.
 */
export function ownBytes(bytes: Buffer): Buffer {
  if (bytes.buffer.byteLength <= bytes.length + bytes.length / 8) return bytes;
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}
