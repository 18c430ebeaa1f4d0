/** The cache of one process: memory, the store, Redis, and the events between replicas that share Redis. */
import type { Config } from '../config/index.ts';
import { createCacheMetrics } from './cache-metrics.ts';
import { type ComparedLedger, EpochRegistry, epochTimes } from './epoch/registry.ts';
import { MemoryCache } from './memory/memory.ts';
import type { PurgeScope } from './purge/purge-scope.ts';
import { purge } from './purge/purge.ts';
import { ReadThrough } from './read-through.ts';
import { createSharedCache, type SharedCacheParts } from './redis/shared-cache.ts';
import type { NewsListener, ReplicaNews } from './redis/news.ts';
import type { RedisSource } from './redis/redis-source.ts';
import { createStoredCache, type StoreParts } from './store/stored-cache.ts';

/** The process that the cache is a part of, and the nodes' ledger. */
interface CacheDeps extends Omit<
  StoreParts & SharedCacheParts & ComparedLedger,
  'memory' | 'epochs' | 'ledger' | 'news' | 'source' | 'onReplaced' | 'onForeign'
> {
  /** Needed with `redis` in the config. */
  readonly redisSource: RedisSource | undefined;
  readonly chainId: () => number | undefined;
  /** The first transaction's hash distinguishes ledgers of one chain id. Looked up at the start, closed with the cache. */
  readonly identity: { readonly name: string | undefined; look(): Promise<void>; close(): void };
  /** All nodes report a new root at `version`. */
  readonly replaceHistory: (version: bigint) => void;
  readonly onNews: NewsListener['onNews'];
  /** Called when other processes wait for an answer to become final. */
  readonly onAwaited: () => void;
}

/** The cache of this process. */
export type Cache = ReturnType<typeof createCache>;

/** Memory and, with `store` and `redis` in its config, the tiers behind it, which open in the background. */
export function createCache(config: Config['cache'], deps: CacheDeps) {
  const { identity, onNews, registry } = deps;
  const metrics = createCacheMetrics(registry, () => ({ ...memory.fill, maxBytes: memory.maxBytes }));
  const memory: MemoryCache = new MemoryCache({
    maxBytes: config.memory.maxBytes,
    onEvict: (reads) => metrics.evictions.inc(reads),
    onNeverRead: (kind) => metrics.neverRead(kind),
  });
  const compared: ComparedLedger = {
    ...deps,
    ledger: () => {
      const [chainId, { name }] = [deps.chainId(), identity];
      return chainId === undefined || name === undefined ? undefined : `${chainId}.${name}`;
    },
    onReplaced: (version) => {
      deps.replaceHistory(version);
      shared?.news.forgetServed();
    },
    onForeign: () => void tiers.purge({ kind: 'everything' }),
  };
  const epochs = new EpochRegistry(compared, epochTimes(deps.processes));
  const parts = { ...deps, memory, epochs };
  const stored = config.store && createStoredCache(config.store, parts);
  const news: NewsListener = { onNews, onPurge: (scope) => tiers.purge(scope), purgeMark: stored?.purgeMark };
  const source = deps.redisSource;
  const shared = config.redis && source && createSharedCache(config.redis, { ...parts, news, source });
  const tiers: ReadThrough = new ReadThrough({ memory, stored, shared, onAwaited: deps.onAwaited });
  const forget = (scope: PurgeScope) => tiers.purge(scope);
  return {
    memory,
    tiers,
    metrics,
    /** Purges the memory of this process, and the store. */
    purgeHere: forget,
    /** Drops every answer of the ledger before from memory: names keep the other tiers apart. */
    forgetLedger: () => void tiers.forget({ kind: 'everything' }),
    /** Purges here, in Redis, and at the other replicas. */
    purge: (scope: PurgeScope) => purge(scope, forget, shared),
    /** The ledger was rolled back: see `EpochRegistry.rolledBack`. */
    rolledBack: () => {
      epochs.rolledBack();
      shared?.news.forgetServed();
    },
    /** Publishes to the other replicas; without Redis, there are none. Never waits. */
    publish: (news: ReplicaNews) => shared?.news.publish(news),
    /** Fill and present fault of each tier; `undefined` for a tier that the config does not have. */
    status: () => ({
      memory: { entries: memory.fill.entries, bytes: memory.fill.bytes, maxBytes: memory.maxBytes },
      store: stored && { ...stored.store.size, trouble: stored.trouble() },
      redis: shared && { trouble: shared.trouble() },
    }),
    /** Resolves when store and shared tier are in use, or known to be unavailable. */
    start: async () => {
      if (shared === undefined && stored === undefined) return;
      await Promise.all([identity.look(), shared?.started, stored?.started]);
      await epochs.check();
      await shared?.news.follow();
    },
    close: async () => {
      identity.close();
      epochs.close();
      shared?.close();
      await stored?.close();
    },
  };
}
