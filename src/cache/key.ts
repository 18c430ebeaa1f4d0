/**
 * Cache keys. A ledger read is a pure function of (canonical request, ledger version), so a key is exactly these two.
 * Each part is canonical and none can contain the separator except a view's body, whose neighbours on both sides are
 * fixed in form: two different reads never share a key, and two spellings of one read always do.
 *
 * Versions that lie close together share a page, because a resource that is read at many versions mostly has the same
 * bytes: equal bytes are then stored once, and a version costs a few bytes.
 */
import { hash } from 'node:crypto';
import type { AnswerForm, LedgerVersion } from '../ledger/index.ts';
import type { Operation } from './kinds.ts';

/** A read, from which `cacheKey` makes its key. */
export interface KeyParts {
  readonly chainId: number;
  readonly operation: Operation;
  /** Canonical text of the item: see `canonical-body.ts` for views. */
  readonly subject: string;
  /** Absent where the subject alone decides, such as a committed transaction. */
  readonly version: LedgerVersion | undefined;
  /** The node sends no `Vary`, so the form is part of the key (protocol 1.2). */
  readonly form: AnswerForm;
}

/** `page` names the read and the neighbourhood of its version, `slot` the version within it. */
export interface CacheKey {
  readonly page: string;
  readonly slot: number;
  /** SHA-256 of the page, one character per byte: memory's index of the page. */
  readonly id: string;
}

/** Versions to a page, as a power of two: about twenty seconds of a ledger that commits 200 versions a second. */
const pageBits = 12n;
const slotMask = (1n << pageBits) - 1n;

/** Longer subjects are keyed by their digest, so that a key's size is bounded whatever a client sends. */
const longestSubject = 400;

/** The key of a read. */
export function cacheKey({ version, ...parts }: KeyParts): CacheKey {
  const read = readText(parts);
  if (version === undefined) return keyOn(read, 0);
  return keyOn(`${read}${version >> pageBits}`, Number(version & slotMask));
}

/** The key of a slot on a page. */
export function keyOn(page: string, slot: number): CacheKey {
  return { page, slot, id: hash('sha256', page, 'binary') };
}

/** The version in the key; `undefined`: the subject alone decides. */
export function versionOf({ page, slot }: CacheKey): bigint | undefined {
  const number = page.slice(page.lastIndexOf('|') + 1);
  return number === '' ? undefined : (BigInt(number) << pageBits) | BigInt(slot);
}

/** The common start of one read's pages: a page's text is this and a page number, or nothing. */
export function readText({ chainId, operation, subject, form }: Omit<KeyParts, 'version'>): string {
  return `${chainId}|${operation}|${bounded(subject)}|${form}|`;
}

/** The whole key as one text. */
export function keyText({ page, slot }: CacheKey): string {
  return `${page}@${slot}`;
}

/**
 * FNV-1a of a text from `from` to `to`, 32 bits, signed, for tables in memory: no proof against texts that are chosen to
 * collide. `start`: the hash of what comes ahead of it, or a seed.
 */
export function textHash(text: string, from = 0, to = text.length, start = 0x811c9dc5): number {
  let hash = start;
  for (let at = from; at < to; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash;
}

/** Start of a subject that is a digest: its account is unknown. */
export const digestMark = 'sha256:';

/** The subject itself, or its SHA-256 over all of it; subjects never start with the mark of themselves. */
function bounded(subject: string): string {
  return subject.length <= longestSubject ? subject : digestMark + hash('sha256', subject, 'base64url');
}
