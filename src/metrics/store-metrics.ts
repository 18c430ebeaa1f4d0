/** Metrics of the store on the machine's disk. */
import type { Registry } from 'prom-client';
import { Counter } from './counter.ts';
import { Gauge } from './gauge.ts';

const storeLookups = ['hit', 'absent', 'damaged', 'unavailable'] as const;
const storeWrites = ['written', 'failed', 'dropped'] as const;

/** Readings of each scrape. */
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
    labels: { outcome: storeLookups },
  });
  const writes = new Counter(registry, {
    name: 'ledgergate_store_writes_total',
    help: 'Answers for the store by outcome: written, failed, dropped (too many waited, or it is too large).',
    labels: { outcome: storeWrites },
  });
  return {
    lookedUp: (outcome: (typeof storeLookups)[number]) => lookups.inc({ outcome }),
    wrote: (outcome: (typeof storeWrites)[number], answers: number) => writes.inc({ outcome }, answers),
  };
}
