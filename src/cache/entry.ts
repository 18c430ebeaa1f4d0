/** A stored answer: body bytes verbatim, and no version, because one answer mostly holds at many versions. */
import { createHash, hash } from 'node:crypto';
import type { LedgerVersion } from '../ledger/index.ts';

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
