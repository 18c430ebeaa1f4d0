/** What the tiers behind memory, Redis and the store, have in common. */
import type { Registry } from 'prom-client';
import { Counter, type Journal } from '../metrics/index.ts';
import type { EpochRegistry } from './epoch/registry.ts';
import type { MemoryCache } from './memory/memory.ts';
import type { Miss } from './record.ts';
import type { WriteOutcome } from './write-behind.ts';

/** The process that a tier is a part of, and its epochs of the nodes' ledger. */
export interface TierParts {
  readonly memory: MemoryCache;
  readonly registry: Registry;
  readonly journal: Journal;
  readonly epochs: EpochRegistry;
}

/** Counts look-ups and writes of a tier behind memory; `place` names the tier in the text of help. */
export function createTierCounters(registry: Registry, tier: 'redis' | 'store', place: string) {
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
