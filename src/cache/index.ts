/**
 * Answers in memory, in a store on the disk and in Redis, with their keys, purges and metrics: `createCache`. Beside it,
 * connections to Redis for rooms that keep something else there.
 */
export { type Cache, createCache } from './cache.ts';
export { Coalescer } from './coalesce.ts';
export { type CachedResponse, type ContentCoding, createEntry, mutableTtlMs, ownBytes } from './record.ts';
export { cacheKey, type CacheKey } from './key.ts';
export { kinds, type Operation } from './kinds.ts';
export type { CacheLocation } from './memory/memory.ts';
export type { PurgeScope } from './purge.ts';
export type { Loaded } from './read-through.ts';
export { redisConnections } from './redis/redis-link.ts';
export { RedisSource } from './redis/redis-source.ts';
export { faultOf } from './store/file.ts';
export type { ReadFlights } from './tiers.ts';
