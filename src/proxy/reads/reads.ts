/** Builds the reads of one process: the reader, reads of "latest", short shares, audits, the follower and streams. */
import type { Registry } from 'prom-client';
import type { Cache, CacheKey } from '../../cache/index.ts';
import type { Fleet } from '../../upstream/index.ts';
import { Audits, type AuditReport } from './audits.ts';
import { Follower, type FollowerEvents, type FollowSettings } from './follower.ts';
import { Freshness } from './freshness.ts';
import { InfoStreams } from './info-streams.ts';
import { PageProof } from './page-proof.ts';
import { PastPages } from './past-pages.ts';
import { PageReader } from './page-reader.ts';
import { Pulse } from './pulse.ts';
import { Reader } from './reader.ts';
import { Shares } from './shares.ts';
import type { StalenessSettings } from './staleness.ts';
import { Tail } from './tail.ts';
import { TransactionStreams } from './transaction-streams.ts';
import { Waits } from './waits.ts';
import { Watches } from './watches.ts';

interface ReadsContext {
  readonly fleet: Fleet;
  readonly cache: Pick<Cache, 'memory' | 'tiers' | 'metrics'>;
  readonly registry: Registry;
  /** Live settings of the config. */
  readonly settings: {
    readonly latest: StalenessSettings;
    readonly audits: { readonly share: number };
    readonly follow: FollowSettings;
    readonly streams: { readonly intervalMs: number };
  };
  /** Time for which a gas price is shared. */
  readonly gasPriceTtlMs: number;
  /** Deletes a read that nodes answer differently from every tier. */
  readonly drop: (key: CacheKey) => Promise<void>;
  /** Whether this process has no time for reads ahead of clients. */
  readonly isBusy: () => boolean;
  readonly onDisagreement: (report: AuditReport) => void;
  readonly followerEvents: FollowerEvents;
  /** Whether the follower of this process reads for all from the start: it is the only one. */
  readonly isAppointed: boolean;
}

/** The reads of one process. */
export type Reads = ReturnType<typeof createReads>;

/** Builds the reads. A literal without getters: V8 makes an object that has one a dictionary, and each load slow. */
export function createReads({
  fleet,
  cache,
  registry,
  settings,
  gasPriceTtlMs,
  followerEvents,
  isAppointed,
  ...events
}: ReadsContext) {
  const audits = new Audits(fleet.sender, settings.audits, registry, events);
  const { latest, follow } = settings;
  // An eighth: most pages are never asked for.
  const tail = new Tail(fleet, cache.tiers, () => cache.memory.maxBytes / 8);
  const reader = new Reader(fleet, cache, tail, (stored) => audits.consider(stored));
  const freshness = new Freshness(fleet, reader, latest, events.isBusy, registry);
  const shares = new Shares(fleet, freshness, cache.tiers, gasPriceTtlMs);
  const proof = new PageProof(fleet, settings.audits, registry, (mismatch) => {
    tail.distrust();
    followerEvents.distrusted(mismatch);
  });
  const pageReader = new PageReader(fleet, cache.tiers);
  const follower = new Follower(fleet, tail, pageReader, proof, follow, followerEvents, registry, isAppointed);
  const waits = new Waits(reader, freshness, tail, follower, cache.tiers, registry);
  const pulse = new Pulse(fleet, latest);
  const pages = new PastPages(reader, tail, cache.tiers);
  const streams = {
    transactions: new TransactionStreams(pages, freshness, tail, follower, pulse, follow),
    watches: new Watches(reader, freshness, pulse, cache.tiers, settings.streams),
    info: new InfoStreams(freshness, pulse),
  };
  return { reader, freshness, shares, audits, tail, proof, follower, waits, pulse, streams };
}
