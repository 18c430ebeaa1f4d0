/** The cache of one process: memory, the store, Redis, and the events between replicas that share Redis. */
import type { Registry } from 'prom-client';
import type { Config } from '../config/index.ts';
import { type Count, Counter, Gauge } from '../metrics/index.ts';
import { type ComparedLedger, EpochRegistry, epochTimes } from './epoch/registry.ts';
import { operations, type Operation } from './kinds.ts';
import { MemoryCache } from './memory/memory.ts';
import { purge, type PurgeScope } from './purge.ts';
import { ReadThrough } from './read-through.ts';
import { createSharedCache } from './redis/shared-cache.ts';
import type { NewsListener, ReplicaNews } from './redis/news.ts';
import type { RedisSource } from './redis/redis-source.ts';
import { createStoredCache } from './store/store.ts';
import type { CacheProcess } from './tiers.ts';

/** The process that the cache is a part of, and the nodes' ledger. */
interface CacheDeps extends CacheProcess, Omit<ComparedLedger, 'ledger' | 'onReplaced' | 'onForeign'> {
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
  const memory: MemoryCache = new MemoryCache(config.memory.maxBytes, () => metrics.evictions.inc(), metrics.neverRead);
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
  const stored = config.store && createStoredCache(config.store, deps, memory, epochs);
  const news: NewsListener = { onNews, onPurge: (scope) => tiers.purge(scope), purgeMark: stored?.purgeMark };
  const source = deps.redisSource;
  const shared = config.redis && source && createSharedCache(config.redis, deps, memory, epochs, source, news);
  const tiers: ReadThrough = new ReadThrough(memory, stored?.store, shared?.tier, deps.onAwaited);
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
      store: stored && { ...stored.store.disk, trouble: stored.trouble() },
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

/** Decisions of the storing policy: `stored`, or the reason against it. */
export const decisions = [
  'stored',
  'no version',
  'no ledger headers',
  'other chain',
  'version not reached',
  'version pruned',
  'unframed body',
  'encoded body',
  'other form',
  'too large',
  'status',
  'error not final',
  'not committed',
  'not complete',
] as const;

interface CacheFill {
  readonly entries: number;
  readonly bytes: number;
  readonly maxBytes: number;
}

const memory = { tier: ['memory'] } as const;

/** Registers the families of the cache; `readFill` is called at each scrape. */
export function createCacheMetrics(registry: Registry, readFill: () => CacheFill) {
  const reads = createReadMetrics(registry);
  const decided = new Counter(registry, {
    name: 'ledgergate_cache_store_decisions_total',
    help: 'Answers of upstreams by the decision of the storing policy: stored, or the reason against it.',
    labels: { decision: decisions },
  }).by('decision');
  const purged = new Counter(registry, {
    name: 'ledgergate_purges_total',
    help: 'Purges by operators of this gateway, by scope: read, account, everything.',
    labels: { scope: ['read', 'account', 'everything'] },
  }).by('scope');
  const unread = new Counter(registry, {
    name: 'ledgergate_cache_never_read_total',
    help: 'Reads that left memory (evicted, expired, purged) and had no hit since they were stored, by kind. Reads that memory holds are not counted yet.',
    labels: { kind: operations },
  });
  createGauges(registry, readFill);
  return {
    ...reads,
    coalesced: new Counter(registry, {
      name: 'ledgergate_coalesced_requests_total',
      help: 'Reads that shared the upstream read of another client.',
    }).of({}),
    decided,
    evictions: new Counter(registry, {
      name: 'ledgergate_cache_evictions_total',
      help: 'Reads that left memory to make room for others.',
    }).of({}),
    neverRead: (kind: Operation) => unread.inc({ kind }),
    purged,
  };
}

/** One count for each read; look-ups by outcome are its sums at each scrape. */
function createReadMetrics(registry: Registry) {
  const results = ['hit', 'miss'] as const;
  const reads = new Counter(registry, {
    name: 'ledgergate_cache_reads_total',
    help: 'Reads by kind, and whether memory had their answers.',
    labels: { kind: operations, result: results },
  });
  void new Counter(registry, {
    name: 'ledgergate_cache_lookups_total',
    help: 'Look-ups in memory by outcome, the sums of ledgergate_cache_reads_total; those in Redis are ledgergate_redis_lookups_total.',
    labels: { ...memory, outcome: results },
    counted: ({ outcome: result }) => operations.reduce((sum, kind) => sum + reads.of({ kind, result }).value, 0),
  });
  const countsOf = (result: (typeof results)[number]): Partial<Record<string, Count>> =>
    Object.fromEntries(operations.map((kind) => [kind, reads.of({ kind, result })]));
  const [hits, misses] = [countsOf('hit'), countsOf('miss')];
  return {
    hitsOf: (kind: Operation): Count => hits[kind] as Count,
    miss: (kind: Operation) => misses[kind]?.inc(),
  };
}

function createGauges(registry: Registry, readFill: () => CacheFill): void {
  const gauge = (name: string, help: string, value: (fill: CacheFill) => number): void => {
    new Gauge(registry, { name, help, labels: memory, read: () => [[{ tier: 'memory' }, value(readFill())]] });
  };
  gauge('ledgergate_cache_entries', 'Reads whose answers are held in memory.', ({ entries }) => entries);
  gauge('ledgergate_cache_bytes', 'Bytes held in memory, by the account that bounds them.', ({ bytes }) => bytes);
  gauge(
    'ledgergate_cache_max_bytes',
    'Bytes that memory may hold (cache.memory.maxBytes).',
    ({ maxBytes }) => maxBytes,
  );
}
