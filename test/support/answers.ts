/** Answers as the tiers keep them. */
import { contentDigest, type AnswerContent, type CachedResponse } from '../../src/cache/record.ts';
import { cacheKey, type CacheKey } from '../../src/cache/key.ts';
import type { AnswerLoad, Loaded, ReadThrough } from '../../src/cache/read-through.ts';
import type { NamedEpoch } from '../../src/cache/redis/redis-keys.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';

/** A final answer; `body` as text, or as a number of bytes that are all alike. */
export function answerOf(body: string | number, changes: Partial<AnswerContent> = {}): CachedResponse {
  const content: AnswerContent = {
    status: 200,
    contentType: 'application/json',
    body: typeof body === 'number' ? Buffer.alloc(body, 'a') : Buffer.from(body),
    committedAt: undefined,
    gasUsed: undefined,
    cursor: undefined,
    ownHeaders: undefined,
    lifetimeMs: Infinity,
    ...changes,
  };
  return { ...content, digest: contentDigest(content), coded: {} };
}

/** The history that a replica is on, compared at version 100. */
export const anyEpoch: NamedEpoch = { id: '0k3v9aq2', before: [], checkpoint: { version: 100n, root: '' } };

/** The key of one resource at a version; another `subject` is another resource. */
export function keyAt(version: bigint, subject = '0x1/0x1::coin::CoinStore'): CacheKey {
  return cacheKey({ chainId: 4, operation: 'resource', subject, version: LedgerVersion.of(version), form: 'json' });
}

/** Loads one read through the tiers, for one caller. */
export function loadThrough(reads: ReadThrough, key: CacheKey, load: AnswerLoad): Promise<Loaded> {
  const caller = { signal: new AbortController().signal, client: 'a client' };
  return reads.load(key, '', caller, load, true, (loaded) => loaded);
}
