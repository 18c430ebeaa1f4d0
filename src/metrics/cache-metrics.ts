/** Metrics of the cache: look-ups, decisions of the storing policy, purges, and fill of memory. */
import type { Registry } from 'prom-client';
import { Counter } from './counter.ts';
import { Gauge } from './gauge.ts';

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

const purgeScopes = ['read', 'account', 'everything'] as const;

/** Counts events of the memory tier. */
export type CacheMetrics = ReturnType<typeof createCacheMetrics>;

interface CacheFill {
  readonly entries: number;
  readonly bytes: number;
  readonly maxBytes: number;
}

const memory = { tier: ['memory'] } as const;

/** Registers the families of the cache; `readFill` is called at each scrape. */
export function createCacheMetrics(registry: Registry, readFill: () => CacheFill) {
  const lookups = new Counter(registry, {
    name: 'ledgergate_cache_lookups_total',
    help: 'Look-ups in memory by outcome; those in Redis are ledgergate_redis_lookups_total.',
    labels: { ...memory, outcome: ['hit', 'miss'] },
  });
  const stored = new Counter(registry, {
    name: 'ledgergate_cache_store_decisions_total',
    help: 'Answers of upstreams by what the storing policy said: stored, or why not.',
    labels: { decision: decisions },
  });
  const purges = new Counter(registry, {
    name: 'ledgergate_purges_total',
    help: 'Purges that operators asked for here, by what they were of: read, account, everything.',
    labels: { scope: purgeScopes },
  });
  createGauges(registry, readFill);
  const [hits, misses] = [
    lookups.of({ tier: 'memory', outcome: 'hit' }),
    lookups.of({ tier: 'memory', outcome: 'miss' }),
  ];
  return {
    hit: () => hits.inc(),
    miss: () => misses.inc(),
    coalesced: new Counter(registry, {
      name: 'ledgergate_coalesced_requests_total',
      help: 'Reads that shared the upstream read of another client.',
    }).of({}),
    decided: (decision: (typeof decisions)[number]) => stored.inc({ decision }),
    evictions: new Counter(registry, {
      name: 'ledgergate_cache_evictions_total',
      help: 'Reads that left memory to make room for others.',
    }).of({}),
    purged: (scope: (typeof purgeScopes)[number]) => purges.inc({ scope }),
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
