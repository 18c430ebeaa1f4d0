/** Builds the reads of one process: the reader, reads of "latest", short shares and audits. */
import type { Registry } from 'prom-client';
import type { Cache, CacheKey } from '../../cache/index.ts';
import type { Fleet } from '../../upstream/index.ts';
import { Audits, type AuditReport } from './audits.ts';
import { Freshness } from './freshness.ts';
import { Reader } from './reader.ts';
import { Shares } from './shares.ts';
import type { StalenessSettings } from './staleness.ts';

interface ReadsContext {
  readonly fleet: Fleet;
  readonly cache: Pick<Cache, 'memory' | 'tiers' | 'metrics'>;
  readonly registry: Registry;
  /** Live settings of the config. */
  readonly settings: {
    readonly latest: StalenessSettings;
    readonly audits: { readonly share: number };
  };
  /** Time for which a gas price is shared. */
  readonly gasPriceTtlMs: number;
  /** Deletes a read that nodes answer differently from every tier. */
  readonly drop: (key: CacheKey) => Promise<void>;
  readonly onDisagreement: (report: AuditReport) => void;
}

/** The reads of one process. */
export type Reads = ReturnType<typeof createReads>;

/** Builds the reads. A literal without getters: V8 makes an object that has one a dictionary, and each load slow. */
export function createReads({ fleet, cache, registry, settings, gasPriceTtlMs, ...events }: ReadsContext) {
  const audits = new Audits(fleet.sender, settings.audits, registry, events);
  const reader = new Reader(fleet, cache, (stored) => audits.consider(stored));
  const freshness = new Freshness(fleet, reader, settings.latest, registry);
  const shares = new Shares(fleet, freshness, cache.tiers, gasPriceTtlMs);
  return { reader, freshness, shares, audits };
}
