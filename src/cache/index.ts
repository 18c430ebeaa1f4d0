/** The door of cache. */
export { type CacheMetrics, createCacheMetrics } from './cache-metrics.ts';
export { Coalescer } from './coalesce.ts';
export {
  type CachedResponse,
  type ContentCoding,
  contentDigest,
  mutableTtlMs,
  nothingCoded,
  ownBytes,
} from './entry.ts';
export { History } from './history/history.ts';
export type { HistoryParts } from './history/membership.ts';
export { everyTerm, type Term } from './history/terms.ts';
export { cacheKey, type CacheKey, keyText, readText } from './key.ts';
export { isOfState, kinds, type Operation, operations } from './kinds.ts';
export type { BytesRange } from './memory/answers.ts';
export { type CacheLocation, MemoryCache } from './memory/memory.ts';
export { type MissReason, missReasons } from './memory/miss-history.ts';
export { formatScope, type PurgeScope } from './purge/purge-scope.ts';
export { purge, type PurgeResult } from './purge/purger.ts';
export { clearRedis } from './purge/redis-clear.ts';
export { ReadThrough } from './read-through.ts';
export { redisConnections } from './redis/connections.ts';
export { HistoryRegistry } from './redis/history-registry.ts';
export { Leases } from './redis/leases.ts';
export { connectRedis, connectSubscriber, type RedisClient } from './redis/redis-client.ts';
export { AnswerNames, LedgerNames } from './redis/redis-keys.ts';
export { RedisLink, type TroubleChange } from './redis/redis-link.ts';
export { type NewsListener, SharedState } from './redis/shared-state.ts';
export { SharedTier } from './redis/shared-tier.ts';
export { WriteQueue } from './redis/write-queue.ts';
export { faultOf } from './store/file.ts';
export { purgeMarkOf, StoreRegistry } from './store/registry.ts';
export { AnswerStore } from './store/store.ts';
export { createRedisMetrics, createStoreMetrics } from './tier-metrics.ts';
export type {
  AnswerLoad,
  ForgottenReads,
  Loaded,
  ReadFlights,
  ReadTurn,
  SecondTier,
  StoreTier,
  TierName,
} from './tiers.ts';
