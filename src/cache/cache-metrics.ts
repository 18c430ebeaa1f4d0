/** Metrics of the cache: look-ups, decisions of the storing policy, purges, and fill of memory. */
import type { Registry } from 'prom-client';
import { type Count, Counter, Gauge } from '../metrics/index.ts';

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

/** Counts events of the memory tier. */
export type CacheMetrics<Kind extends string, Reason extends string> = ReturnType<
  typeof createCacheMetrics<Kind, Reason>
>;

/** Label values of the memory tier. */
interface ReadLabels<Kind extends string, Reason extends string> {
  /** Kinds of read. */
  readonly kinds: readonly Kind[];
  /** Reasons for a miss. */
  readonly reasons: readonly Reason[];
}

interface CacheFill {
  readonly entries: number;
  readonly bytes: number;
  readonly maxBytes: number;
}

const memory = { tier: ['memory'] } as const;

/** Registers the families of the cache; `readFill` is called at each scrape. */
export function createCacheMetrics<Kind extends string, Reason extends string>(
  registry: Registry,
  { kinds, reasons }: ReadLabels<Kind, Reason>,
  readFill: () => CacheFill,
) {
  const reads = createReadMetrics(registry, { kinds, reasons });
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
    labels: { kind: kinds },
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
    neverRead: (kind: Kind) => unread.inc({ kind }),
    purged,
  };
}

/** One count for each read; look-ups by outcome are its sums at each scrape. */
function createReadMetrics<Kind extends string, Reason extends string>(
  registry: Registry,
  { kinds, reasons }: ReadLabels<Kind, Reason>,
) {
  const results: readonly ('hit' | Reason)[] = ['hit', ...reasons];
  const reads = new Counter(registry, {
    name: 'ledgergate_cache_reads_total',
    help: 'Reads by kind and what memory had for them: hit, or the reason for a miss. Reasons are of what memory remembers, some 260,000 reads that left it or were not stored, and 130,000 that were stored at some version; first time also stands for what is forgotten. An unknown read is mistaken for a remembered one with a probability below 1 in 30,000.',
    labels: { kind: kinds, result: results },
  });
  const total = (of: readonly ('hit' | Reason)[]): number =>
    kinds.flatMap((kind) => of.map((result) => reads.of({ kind, result }).value)).reduce((sum, count) => sum + count);
  void new Counter(registry, {
    name: 'ledgergate_cache_lookups_total',
    help: 'Look-ups in memory by outcome, the sums of ledgergate_cache_reads_total; those in Redis are ledgergate_redis_lookups_total.',
    labels: { ...memory, outcome: ['hit', 'miss'] },
    counted: ({ outcome }) => total(outcome === 'hit' ? ['hit'] : reasons),
  });
  const hits = Object.fromEntries(kinds.map((kind) => [kind, reads.of({ kind, result: 'hit' })]));
  return {
    /** Counts hits of this kind. */
    hitsOf: (kind: Kind): Count => hits[kind] as Count,
    miss: (kind: Kind, reason: Reason) => reads.inc({ kind, result: reason }),
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
