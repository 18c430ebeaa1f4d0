/** Builds the tiers of the cache, and the events between replicas that share Redis. */
import type { Config } from '../config/config.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import { operations } from '../cache/key.ts';
import { MemoryCache } from '../cache/memory/memory.ts';
import { missReasons } from '../cache/memory/miss-history.ts';
import type { PurgeScope } from '../cache/purge/purge-scope.ts';
import { purge } from '../cache/purge/purger.ts';
import { ReadThrough } from '../cache/read-through.ts';
import { createCacheMetrics } from '../metrics/cache-metrics.ts';
import type { Origin } from '../proxy/reads/read-result.ts';
import { LedgerIdentity } from '../upstream/node/ledger-identity.ts';
import type { FleetParts } from './fleet.ts';
import type { LiveSettings } from './settings.ts';
import type { SharedCache, SharedCacheParts } from './shared-cache.ts';
import type { StatusSource } from './status.ts';

/** The cache of this process. */
export type Cache = ReturnType<typeof buildCache>;

interface CacheContext {
  readonly status: StatusSource;
  /** Absent: memory is the only tier. */
  readonly buildShared: ((parts: SharedCacheParts) => SharedCache) | undefined;
  readonly processes: number;
}

/** Builds memory and, with `cache.redis`, the shared tier. */
export function buildCache(config: Config, settings: LiveSettings, parts: FleetParts, context: CacheContext) {
  const { status, buildShared, processes } = context;
  const { fleet, latest, sender, registry, witness } = parts;
  const labels = { kinds: operations, reasons: missReasons };
  const metrics = createCacheMetrics(registry, labels, () => ({ ...memory.fill, maxBytes: memory.maxBytes }));
  const memory: MemoryCache = new MemoryCache({
    maxBytes: config.cache.memory.maxBytes,
    onEvict: (reads) => metrics.evictions.inc(reads),
    onNeverRead: (kind) => metrics.neverRead(kind),
  });
  const identity = new LedgerIdentity(fleet, sender);
  const shared = buildShared?.({
    memory,
    registry,
    journal: status.journal,
    chainId: () => fleet.chainId,
    ledger: () => identity.name,
    generation: () => fleet.generation,
    readRoots: (known, wantsNext) => witness.look(known, wantsNext),
    onReplaced: (version) => {
      fleet.replaceHistory(version as LedgerVersion);
      shared?.news.forgetServed();
    },
    onForeign: () => void tiers.purge({ kind: 'everything' }),
    processes,
    settings: settings.redis,
    news: {
      onServed: (version) => latest.onPeerVersion(version as LedgerVersion),
      onRefused: (node, version) => fleet.onPeerRefusal(node, version as LedgerVersion, performance.now()),
      onPurge: (scope) => tiers.purge(scope),
    },
  });
  const tiers: ReadThrough<Origin> = new ReadThrough<Origin>({ memory, shared });
  const forget = (scope: PurgeScope): Promise<number> => tiers.purge(scope);
  return {
    memory,
    tiers,
    metrics,
    /** Purges the memory of this process alone. */
    purgeHere: forget,
    /** Purges here, in Redis, and at the other replicas. */
    purge: (scope: PurgeScope) =>
      purge(scope, {
        forget,
        shared: shared && { clear: shared.clear, publishPurge: (scope) => shared.news.publishPurge(scope) },
      }),
    /** The ledger was rolled back: see `History.rolledBack`. */
    rolledBack: () => {
      shared?.history.rolledBack();
      shared?.news.forgetServed();
    },
    /** Absent: memory is the only tier. */
    shared,
    /** Resolves when the shared tier is in use, or known to be unavailable. */
    start: async () => {
      if (shared === undefined) return;
      await Promise.all([identity.look(), shared.started]);
      await shared.history.check();
      await shared.news.follow();
    },
    close: () => {
      identity.close();
      shared?.close();
    },
  };
}
