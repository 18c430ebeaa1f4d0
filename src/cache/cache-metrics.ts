/** Metrics of the cache: look-ups, decisions of the storing policy, purges, and fill of memory. */
import type { Registry } from 'prom-client';
import { type Count, Counter, Gauge } from '../metrics/index.ts';
import { operations, type Operation } from './kinds.ts';

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
