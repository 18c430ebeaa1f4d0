/** The parts that the tiers behind memory have in common: the process, and counts. */
import type { Registry } from 'prom-client';
import { Counter, type Journal } from '../metrics/index.ts';
import type { Miss } from './record.ts';
import type { WriteOutcome } from './write-behind.ts';

/** The process that a cache is a part of. */
export interface CacheProcess {
  readonly registry: Registry;
  readonly journal: Journal;
  /** The name of this start of the gateway, which its processes share. */
  readonly run: string;
  /** Processes of this gateway, which share the store. */
  readonly processes: number;
  /** The other workers; absent in a single process. */
  readonly peers: { readonly flights: ReadFlights } | undefined;
  /** Live settings of the config. */
  readonly settings: { readonly sender: { readonly timeoutMs: number }; readonly redis: SharedTierTimes };
}

/** The reads that the workers of a machine make. It only saves work: in doubt, a worker reads on its own. */
export interface ReadFlights {
  /**
   * Waits for another worker's read of this name, for at most `withinMs`. `lead`: read for all workers. `look`: that read
   * has ended, and the store may have its answer. Never rejects.
   */
  enter(name: string, withinMs: number): Promise<'lead' | 'look'>;
  /** Ends a read of this worker. */
  leave(name: string): void;
}

/**
 * Times of Redis in ms. `timeoutMs`: bound of a whole look-up. `ttlMs`: longest life of an answer. `followMs`: longest wait
 * for another replica's read.
 */
export interface SharedTierTimes {
  readonly timeoutMs: number;
  readonly ttlMs: number;
  readonly followMs: number;
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
