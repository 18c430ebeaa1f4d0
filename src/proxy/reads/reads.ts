/** Builds the reads of one process: the reader, reads of "latest", short shares, audits, the follower and streams. */
import type { Registry } from 'prom-client';
import type { Cache } from '../../cache/index.ts';
import type { Fleet } from '../../upstream/index.ts';
import { Audits } from './audits.ts';
import type { StalenessSettings } from './demand.ts';
import { Follower, type FollowerEvents, type FollowSettings } from './follower/follower.ts';
import { createPageProof } from './follower/page-proof.ts';
import { pageReader } from './follower/page-reader.ts';
import { Tail } from './follower/tail.ts';
import { Waits } from './follower/waits.ts';
import { Freshness } from './freshness.ts';
import { Reader } from './reader.ts';
import { Shares } from './shares.ts';
import { InfoStreams } from './streams/info-streams.ts';
import { PastPages } from './streams/past-pages.ts';
import { createPulse } from './streams/pulse.ts';
import { TransactionStreams } from './streams/transaction-streams.ts';
import { Watches } from './streams/watches.ts';

type AuditEvents = ConstructorParameters<typeof Audits>[3];

interface ReadsContext extends AuditEvents {
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
  /** Whether this process has no time for reads ahead of clients. */
  readonly isBusy: () => boolean;
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
  const reader = new Reader(fleet, cache, tail, audits);
  const freshness = new Freshness(fleet, reader, latest, events.isBusy, registry);
  const shares = new Shares(fleet, freshness, reader, gasPriceTtlMs);
  const proof = createPageProof(fleet, tail, settings.audits, registry, followerEvents.distrusted);
  const readPage = pageReader(fleet, cache.tiers);
  const follower = new Follower(fleet, tail, readPage, proof, follow, followerEvents, registry, isAppointed);
  const waits = new Waits(reader, freshness, tail, follower, registry);
  const pulse = createPulse(fleet, latest);
  const pages = new PastPages(reader, tail);
  const streams = {
    transactions: new TransactionStreams(pages, freshness, tail, follower, pulse, follow),
    watches: new Watches(reader, freshness, pulse, settings.streams),
    info: new InfoStreams(freshness, pulse),
  };
  /** Ends timers, and reads that no client waits for. */
  const close = (): void => {
    for (const part of [audits, follower, proof, pulse, freshness.hot]) part.close();
  };
  return { reader, freshness, shares, audits, tail, follower, waits, streams, close };
}
