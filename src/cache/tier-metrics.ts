/** Metrics of the tiers behind memory: the store on the machine's disk, and Redis. */
import type { Registry } from 'prom-client';
import { Counter, Gauge, Histogram } from '../metrics/index.ts';
import type { WriteOutcome } from './write-behind.ts';

const lookupOutcomes = ['hit', 'absent', 'damaged', 'unavailable'] as const;
type LookupOutcome = (typeof lookupOutcomes)[number];
const writeOutcomes: readonly WriteOutcome[] = ['written', 'failed', 'dropped'];

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
  const lookups = new Counter(registry, {
    name: 'ledgergate_redis_lookups_total',
    help: 'Look-ups in Redis by outcome: hit, absent, damaged (replaced), unavailable.',
    labels: { outcome: lookupOutcomes },
  });
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
  const writes = new Counter(registry, {
    name: 'ledgergate_redis_writes_total',
    help: 'Answers for Redis by outcome: written, failed, dropped (too many waited, or it is too large).',
    labels: { outcome: writeOutcomes },
  });
  const failed = new Counter(registry, {
    name: 'ledgergate_redis_failures_total',
    help: 'Commands that failed, by kind: timeout, connection, refused (no writes now), wrong type, error.',
    labels: { kind: ['timeout', 'connection', 'refused', 'wrong type', 'error'] },
  }).by('kind');
  return {
    lookedUp(outcome: LookupOutcome, seconds: number) {
      lookups.inc({ outcome });
      duration.observe(seconds);
    },
    turned,
    wrote: (outcome: WriteOutcome, answers: number) => writes.inc({ outcome }, answers),
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
  const lookups = new Counter(registry, {
    name: 'ledgergate_store_lookups_total',
    help: 'Look-ups in the store by outcome: hit, absent, damaged (replaced), unavailable.',
    labels: { outcome: lookupOutcomes },
  });
  const writes = new Counter(registry, {
    name: 'ledgergate_store_writes_total',
    help: 'Answers for the store by outcome: written, failed, dropped (too many waited, or it is too large).',
    labels: { outcome: writeOutcomes },
  });
  return {
    lookedUp: (outcome: LookupOutcome) => lookups.inc({ outcome }),
    wrote: (outcome: WriteOutcome, answers: number) => writes.inc({ outcome }, answers),
  };
}
