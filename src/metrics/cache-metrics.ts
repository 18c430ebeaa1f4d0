/** Metrics of the cache: look-ups by tier and outcome, what is stored and why not, what is held. */
import { Counter, Gauge, type Registry } from 'prom-client';

export interface CacheMetrics {
  hit(): void;
  miss(): void;
  readonly coalesced: Counter;
  /** `why` is `stored`, or the policy's reason for not storing. */
  decided(why: string): void;
  readonly evictions: Counter;
  readonly purges: Counter<'scope'>;
}

/** `readFill` is called at each scrape. */
export function createCacheMetrics(
  registry: Registry,
  readFill: () => { readonly entries: number; readonly bytes: number },
): CacheMetrics {
  const registers = [registry];
  const lookups = new Counter({
    name: 'ledgergate_cache_lookups_total',
    help: 'Cache look-ups by tier and outcome.',
    labelNames: ['tier', 'outcome'] as const,
    registers,
  });
  const hits = lookups.labels({ tier: 'memory', outcome: 'hit' });
  const misses = lookups.labels({ tier: 'memory', outcome: 'miss' });
  const decisions = new Counter({
    name: 'ledgergate_cache_store_decisions_total',
    help: 'Answers of nodes by what the storing policy decided.',
    labelNames: ['decision'] as const,
    registers,
  });
  new Gauge({
    name: 'ledgergate_cache_entries',
    help: 'Entries held in memory.',
    labelNames: ['tier'] as const,
    registers,
    collect() {
      this.set({ tier: 'memory' }, readFill().entries);
    },
  });
  new Gauge({
    name: 'ledgergate_cache_bytes',
    help: 'Bytes held in memory, by the accounting that bounds them.',
    labelNames: ['tier'] as const,
    registers,
    collect() {
      this.set({ tier: 'memory' }, readFill().bytes);
    },
  });
  return {
    hit: () => hits.inc(),
    miss: () => misses.inc(),
    coalesced: new Counter({
      name: 'ledgergate_coalesced_requests_total',
      help: 'Reads that shared the upstream read of another client.',
      registers,
    }),
    decided: (why) => decisions.inc({ decision: why }),
    evictions: new Counter({
      name: 'ledgergate_cache_evictions_total',
      help: 'Entries that left memory to make room.',
      registers,
    }),
    purges: new Counter({
      name: 'ledgergate_purges_total',
      help: 'Purges that operators asked for here, by what they were of: read, account, everything.',
      labelNames: ['scope'] as const,
      registers,
    }),
  };
}
