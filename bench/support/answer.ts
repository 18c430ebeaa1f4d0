/** Answers as the tiers keep them, for benchmarks. */
import { contentDigest, type CachedResponse } from '../../src/cache/entry.ts';

/** A final answer with this body and no headers beside its type. */
export function answerOf(body: Buffer): CachedResponse {
  const content = {
    status: 200,
    contentType: 'application/json',
    body,
    gasUsed: undefined,
    cursor: undefined,
    committedAt: undefined,
    isImmutable: true,
  };
  return { ...content, digest: contentDigest(content), coded: {} };
}
