/** Builds the tiers of the cache, and the events between replicas that share Redis. */
import type { Config } from '../../config/index.ts';
import type { LedgerVersion } from '../../ledger/index.ts';
import {
  createCacheMetrics,
  MemoryCache,
  missReasons,
  operations,
  purge,
  purgeMarkOf,
  type PurgeScope,
  ReadThrough,
} from '../../cache/index.ts';
import type { Origin } from '../../proxy/reads/index.ts';
import { LedgerIdentity } from '../../upstream/index.ts';
import type { FleetParts } from '../fleet.ts';
import type { ServingContext } from '../settings.ts';
import type { SharedCache, SharedCacheParts } from './shared-cache.ts';
import type { StoredCache } from './stored-cache.ts';
import type { TierParts } from './tier-history.ts';

/** The cache of this process. */
export type Cache = ReturnType<typeof buildCache>;

interface CacheContext extends ServingContext {
  /** Absent without Redis. */
  readonly buildShared: ((parts: SharedCacheParts) => SharedCache) | undefined;
  /** Absent without a store. */
  readonly buildStored: ((parts: TierParts) => StoredCache) | undefined;
}

/** Builds memory and, with `cache.store` and `cache.redis`, the store and the shared tier. */
export function buildCache(config: Config, parts: FleetParts, context: CacheContext) {
  const { buildShared, buildStored, registry } = context;
  const { fleet, latest, prober, sender, witness } = parts;
  const labels = { kinds: operations, reasons: missReasons };
  const metrics = createCacheMetrics(registry, labels, () => ({ ...memory.fill, maxBytes: memory.maxBytes }));
  const memory: MemoryCache = new MemoryCache({
    maxBytes: config.cache.memory.maxBytes,
    onEvict: (reads) => metrics.evictions.inc(reads),
    onNeverRead: (kind) => metrics.neverRead(kind),
  });
  const identity = new LedgerIdentity(fleet, sender);
  const common: TierParts = {
    ...context,
    memory,
    chainId: () => fleet.chainId,
    ledger: () => identity.name,
    generation: () => fleet.generation,
    outageFromMs: () => fleet.outageFromMs,
    readRoots: (known, wantsNext) => witness.look(known, wantsNext),
    onReplaced: (version) => {
      fleet.replaceHistory(version as LedgerVersion);
      shared?.news.forgetServed();
    },
    onForeign: () => void tiers.purge({ kind: 'everything' }),
  };
  const stored = buildStored?.(common);
  const shared = buildShared?.({
    ...common,
    news: {
      onServed: (version) => latest.onPeerVersion(version as LedgerVersion),
      onRefused: (node, version) => fleet.onPeerRefusal(node, version as LedgerVersion, performance.now()),
      onPurge: (scope) => tiers.purge(scope),
      purgeMark: stored && purgeMarkOf(stored.store),
    },
  });
  const tiers: ReadThrough<Origin> = new ReadThrough<Origin>({
    memory,
    stored,
    shared,
    onAwaited: () => prober.lookAtSecond(),
  });
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
    purge: (scope: PurgeScope) =>
      purge(scope, {
        forget,
        shared: shared && { clear: shared.clear, publishPurge: (scope) => shared.news.publishPurge(scope) },
      }),
    /** The ledger was rolled back: see `History.rolledBack`. */
    rolledBack: () => {
      stored?.history.rolledBack();
      shared?.history.rolledBack();
      shared?.news.forgetServed();
    },
    /** Absent without a store. */
    stored,
    /** Absent without Redis. */
    shared,
    /** Resolves when store and shared tier are in use, or known to be unavailable. */
    start: async () => {
      if (shared === undefined && stored === undefined) return;
      await Promise.all([identity.look(), shared?.started, stored?.started]);
      await Promise.all([shared?.history.check(), stored?.history.check()]);
      await shared?.news.follow();
    },
    close: async () => {
      identity.close();
      shared?.close();
      await stored?.close();
    },
  };
}
