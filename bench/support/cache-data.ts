/** Reads and answers that caches are filled with. */
import type { CachedResponse } from '../../src/cache/record.ts';
import { cacheKey, type CacheKey } from '../../src/cache/key.ts';
import type { LedgerVersion } from '../../src/ledger/version.ts';
import { answerOf as answerWith } from '../../test/support/answers.ts';

export const bodyBytes = 400;

/** Reads of different accounts at one version, or of one account at different versions. */
export function keyOf(index: number, spread: 'accounts' | 'versions'): CacheKey {
  const account = (spread === 'accounts' ? index : 0).toString(16).padStart(64, '0');
  const version = (spread === 'accounts' ? 5_000_000_000n : 5_000_000_000n + BigInt(index)) as LedgerVersion;
  const subject = `0x${account}/0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>`;
  return cacheKey({ chainId: 1, operation: 'resource', subject, version, form: 'json' });
}

export function bodyOf(index: number): Buffer {
  return Buffer.from(`{"number":"${index}"}`.padEnd(bodyBytes, ' '));
}

/** A final answer with this body and no headers beside its type. */
export function answerOf(body: Buffer): CachedResponse {
  return answerWith('', { body });
}
