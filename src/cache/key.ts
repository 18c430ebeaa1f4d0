/**
 * Cache keys. A ledger read is a pure function of (canonical request, ledger version), so a key is exactly these two.
 * Each part is canonical and none can contain the separator except a view's body, whose neighbours on both sides are
 * fixed in form: two different reads never share a key, and two spellings of one read always do.
 */
import { hash } from 'node:crypto';
import type { LedgerVersion } from '../ledger/version.ts';

declare const brand: unique symbol;

export type CacheKey = string & { readonly [brand]: 'CacheKey' };

/** How the answer is written: the node sends no `Vary`, so the form is part of the key (protocol 1.2). */
export type AnswerForm = 'json' | 'bcs';

export type Operation = 'resource' | 'module' | 'view' | 'transaction';

export interface KeyParts {
  readonly chainId: number;
  readonly operation: Operation;
  /** What is read, in canonical text: see `view-body.ts` for views. */
  readonly subject: string;
  /** Absent where the subject alone decides: a committed transaction. */
  readonly version: LedgerVersion | undefined;
  readonly form: AnswerForm;
}

/** Longer subjects are keyed by their digest, so that a key's size is bounded whatever a client sends. */
const longestSubject = 400;

export function cacheKey({ chainId, operation, subject, version, form }: KeyParts): CacheKey {
  return `${chainId}|${operation}|${bounded(subject)}|${version ?? ''}|${form}` as CacheKey;
}

/** The subject itself, or its SHA-256 over all of it; subjects never start with `sha256:` of themselves. */
function bounded(subject: string): string {
  return subject.length <= longestSubject ? subject : `sha256:${hash('sha256', subject, 'base64url')}`;
}
