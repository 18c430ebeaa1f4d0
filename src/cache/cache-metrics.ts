/** Metrics of the cache: memory, decisions of the storing policy, purges, and the tiers behind memory. */
import type { Registry } from 'prom-client';
import { type Count, Counter, Gauge, Histogram } from '../metrics/index.ts';
import { operations, type Operation } from './kinds.ts';
import type { Miss } from './record.ts';
import type { WriteOutcome } from './write-behind.ts';

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
  const hits = Object.fromEntries(operations.map((kind) => [kind, reads.of({ kind, result: 'hit' })]));
  return {
    /** Counts hits of this kind. */
    hitsOf: (kind: Operation): Count => hits[kind] as Count,
    miss: (kind: Operation) => reads.inc({ kind, result: 'miss' }),
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

/** Counts look-ups and writes of a tier behind memory; `place` names the tier in the text of help. */
function createTierCounters(registry: Registry, tier: 'redis' | 'store', place: string) {
  const lookups = new Counter(registry, {
    name: `ledgergate_${tier}_lookups_total`,
    help: `Look-ups in ${place} by outcome: hit, absent, damaged (replaced), unavailable.`,
    labels: { outcome: ['hit', 'absent', 'damaged', 'unavailable'] },
  });
  const writes = new Counter(registry, {
    name: `ledgergate_${tier}_writes_total`,
    help: `Answers for ${place} by outcome: written, failed, dropped (too many waited, or it is too large).`,
    labels: { outcome: ['written', 'failed', 'dropped'] },
  });
  return {
    lookedUp: (outcome: 'hit' | Miss) => lookups.inc({ outcome }),
    wrote: (outcome: WriteOutcome, answers: number) => writes.inc({ outcome }, answers),
  };
}

interface RedisGauges {
  readonly isUp: boolean;
  readonly isWritable: boolean;
  readonly pendingWrites: number;
  readonly pendingBytes: number;
}

/** Registers the families of the shared tier; `read` is called at each scrape. */
export function createRedisMetrics(registry: Registry, read: () => RedisGauges) {
  new Gauge(registry, {
    name: 'ledgergate_redis_up',
    help: 'Whether Redis is used: 0 while it, or one node of a cluster, does not answer in time, or nodes have not confirmed the history that it holds; 0 when that is so for any worker.',
    join: 'min',
    read: () => Number(read().isUp),
  });
  new Gauge(registry, {
    name: 'ledgergate_redis_writable',
    help: 'Whether Redis takes writes: 0 while it refuses them.',
    join: 'min',
    read: () => Number(read().isWritable),
  });
  new Gauge(registry, {
    name: 'ledgergate_redis_pending_writes',
    help: 'Answers on their way to Redis.',
    read: () => read().pendingWrites,
  });
  new Gauge(registry, {
    name: 'ledgergate_redis_pending_write_bytes',
    help: 'Bytes of answers on their way to Redis.',
    read: () => read().pendingBytes,
  });
  const counters = createTierCounters(registry, 'redis', 'Redis');
  const duration = new Histogram(registry, {
    name: 'ledgergate_redis_lookup_duration_seconds',
    help: 'Time of a look-up in Redis, with any outcome; cache.redis.timeout bounds it.',
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1],
  }).of({});
  const turned = new Counter(registry, {
    name: 'ledgergate_redis_reads_total',
    help: 'Reads that Redis did not have: lead (for all replicas), followed (another replica read), alone.',
    labels: { turn: ['lead', 'followed', 'alone'] },
  }).by('turn');
  const failed = new Counter(registry, {
    name: 'ledgergate_redis_failures_total',
    help: 'Commands that failed, by kind: timeout, connection, refused (no writes now), wrong type, error.',
    labels: { kind: ['timeout', 'connection', 'refused', 'wrong type', 'error'] },
  }).by('kind');
  return {
    ...counters,
    lookedUp(outcome: 'hit' | Miss, seconds: number) {
      counters.lookedUp(outcome);
      duration.observe(seconds);
    },
    turned,
    failed,
  };
}

interface StoreGauges {
  readonly isUp: boolean;
  readonly bytes: number;
  readonly maxBytes: number;
}

/** Registers the families of the store; `read` is called at each scrape. */
export function createStoreMetrics(registry: Registry, read: () => StoreGauges) {
  new Gauge(registry, {
    name: 'ledgergate_store_up',
    help: 'Whether the store is used: 0 while it has a fault, or nodes have not confirmed the history that it holds; 0 when that is so for any worker.',
    join: 'min',
    read: () => Number(read().isUp),
  });
  new Gauge(registry, {
    name: 'ledgergate_store_bytes',
    help: 'Bytes of the store in use, as of the last write.',
    join: 'max',
    read: () => read().bytes,
  });
  new Gauge(registry, {
    name: 'ledgergate_store_max_bytes',
    help: 'Bytes that the store may take on the disk (cache.store.maxBytes).',
    join: 'max',
    read: () => read().maxBytes,
  });
  return createTierCounters(registry, 'store', 'the store');
}
