/**
 * Deletes a purge's scope from Redis in small steps, between which the server runs other commands. No read waits for
 * it.
 */
import type { Redis } from 'ioredis';
import type { CacheKey } from '../key.ts';
import type { PurgeScope } from './purge-scope.ts';
import { pagesIn, patternsOf } from '../redis/redis-keys.ts';
import type { RedisLink } from '../redis/redis-link.ts';

/** Keys that one SCAN visits: well under a millisecond of the server's time. */
const stepKeys = 500;
/** Bound of one step. */
const stepMs = 2_000;
/** Bound of a purge, enough for a hundred million keys. */
const longestMs = 300_000;

/**
 * Deletes the scope in every epoch of the ledger that may have entries; the number of keys (of references for one read),
 * or `undefined` when a part of Redis was not cleared. Answers without references stay until their TTL ends: no read
 * finds them.
 */
export async function clearRedis(
  link: RedisLink,
  prefix: string,
  ledger: string,
  epochs: readonly string[],
  scope: PurgeScope,
): Promise<number | undefined> {
  if (scope.kind === 'read') return clearRead(link, pagesIn(prefix, ledger, scope.key, epochs), scope.key);
  const servers = link.servers('master');
  // A server behind an open circuit would not be cleared.
  if (servers.length === 0 || link.trouble('circuit open') !== undefined) return undefined;
  const untilMs = performance.now() + longestMs;
  let cleared = 0;
  for (const pattern of patternsOf(prefix, ledger, scope)) {
    for (const server of servers) {
      const deleted = await clearPattern(link, server, pattern, untilMs);
      if (deleted === undefined) return undefined;
      cleared += deleted;
    }
  }
  return cleared;
}

/** Removes the reference from each page; the number of references, or `undefined` where one may be left. */
async function clearRead(link: RedisLink, pages: readonly string[], key: CacheKey): Promise<number | undefined> {
  let cleared = 0;
  for (const page of pages) {
    const outcome = await link.write(page, (client) => client.hdel(page, String(key.slot)));
    const deleted =
      'failure' in outcome && outcome.failure === 'wrong type'
        ? await link.write(page, (client) => client.unlink(page))
        : outcome;
    if (!('value' in deleted)) return undefined;
    cleared += deleted.value;
  }
  return cleared;
}

async function clearPattern(link: RedisLink, server: Redis, pattern: string, untilMs: number) {
  let cursor = '0';
  let cleared = 0;
  do {
    const scanned = await link.runFor(stepMs, () => server.scan(cursor, 'MATCH', pattern, 'COUNT', stepKeys));
    if (!('value' in scanned) || performance.now() > untilMs) return undefined;
    const [next, found] = scanned.value;
    // One command per key: in a cluster, the keys of one command must share a slot.
    const deleted = await link.runFor(stepMs, () => Promise.all(found.map((name) => server.unlink(name))));
    if (!('value' in deleted)) return undefined;
    cleared += deleted.value.reduce((sum, count) => sum + count, 0);
    cursor = next;
  } while (cursor !== '0');
  return cleared;
}
