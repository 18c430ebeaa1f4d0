/**
 * Cache keys. A ledger read is a pure function of (canonical request, ledger version), so a key is exactly these two.
 * Each part is canonical and none can contain the separator except a view's body, whose neighbours on both sides are
 * fixed in form: two different reads never share a key, and two spellings of one read always do.
 *
 * Versions that lie close together share a page, because a resource that is read at many versions mostly has the same
 * bytes: what is equal is then kept once, and a version costs a few bytes.
 */
import { hash } from 'node:crypto';
import type { AnswerForm } from '../ledger/answer-form.ts';
import type { LedgerVersion } from '../ledger/version.ts';

export type Operation = 'resource' | 'module' | 'view' | 'transaction';

export interface KeyParts {
  readonly chainId: number;
  readonly operation: Operation;
  /** What is read, in canonical text: see `view-body.ts` for views. */
  readonly subject: string;
  /** Absent where the subject alone decides: a committed transaction. */
  readonly version: LedgerVersion | undefined;
  /** The node sends no `Vary`, so the form is part of the key (protocol 1.2). */
  readonly form: AnswerForm;
}

/** `page` names the read and the neighbourhood of its version, `slot` the version within it. */
export interface CacheKey {
  readonly page: string;
  readonly slot: number;
  /** SHA-256 of the page, a character to a byte: what memory knows it by, short and even. */
  readonly id: string;
}

/** Versions to a page, as a power of two: about twenty seconds of a ledger that commits 200 versions a second. */
const pageBits = 12n;
const slotMask = (1n << pageBits) - 1n;

/** Longer subjects are keyed by their digest, so that a key's size is bounded whatever a client sends. */
const longestSubject = 400;

export function cacheKey({ version, ...parts }: KeyParts): CacheKey {
  const read = readText(parts);
  if (version === undefined) return keyOn(read, 0);
  return keyOn(`${read}${version >> pageBits}`, Number(version & slotMask));
}

/** The key of a slot on a page. */
export function keyOn(page: string, slot: number): CacheKey {
  return { page, slot, id: hash('sha256', page, 'binary') };
}

/** The version that the key is of; `undefined`: its subject alone decides. */
export function versionOf({ page, slot }: CacheKey): bigint | undefined {
  const number = page.slice(page.lastIndexOf('|') + 1);
  return number === '' ? undefined : (BigInt(number) << pageBits) | BigInt(slot);
}

/** What the pages of one read have in common, whatever the version: a page's text is this and a number, or nothing. */
export function readText({ chainId, operation, subject, form }: Omit<KeyParts, 'version'>): string {
  return `${chainId}|${operation}|${bounded(subject)}|${form}|`;
}

/** The whole key as one text. */
export function keyText({ page, slot }: CacheKey): string {
  return `${page}@${slot}`;
}

/** Where this stands in the place of a subject, which account it is of cannot be told. */
export const digestMark = 'sha256:';

/** The subject itself, or its SHA-256 over all of it; subjects never start with the mark of themselves. */
function bounded(subject: string): string {
  return subject.length <= longestSubject ? subject : digestMark + hash('sha256', subject, 'base64url');
}
