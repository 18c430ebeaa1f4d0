/** Builds the shared tier: answers, leases and events in Redis. */
import type { Registry } from 'prom-client';
import type { RedisConfig } from '../../config/index.ts';
import { Counter, Gauge, Histogram, type Journal } from '../../metrics/index.ts';
import { type EpochFields, type EpochRegistry, type TierEpoch, unverified } from '../epoch/registry.ts';
import type { MemoryCache } from '../memory/memory.ts';
import type { PurgeScope } from '../purge.ts';
import type { Miss } from '../record.ts';
import { type CacheProcess, createTierCounters } from '../tiers.ts';
import { AnswerNames, pagesIn, patternsOf } from './redis-keys.ts';
import { RedisLink, type RedisOutcome, type TroubleChange } from './redis-link.ts';
import type { RedisSource } from './redis-source.ts';
import { News, type NewsListener } from './news.ts';
import { SharedTier } from './shared-tier.ts';

/** The cache that replicas share in Redis, with its news and the epochs that it belongs to. Connects in the background. */
export function createSharedCache(
  { keyPrefix: prefix }: RedisConfig,
  { registry, journal, settings: { redis: settings } }: CacheProcess,
  memory: MemoryCache,
  epochs: EpochRegistry,
  source: RedisSource,
  listener: NewsListener,
) {
  const { ledger } = epochs.nodes;
  const metrics = createRedisMetrics(registry, () => ({
    isUp: link.trouble('circuit open') === undefined && epoch.current !== undefined,
    isWritable: link.trouble('read-only') === undefined,
    pendingWrites: tier.size.writes,
    pendingBytes: tier.size.bytes,
  }));
  const onTrouble = (change: TroubleChange): void => {
    recordTrouble(journal, change);
    if (change.trouble === 'circuit open' && !change.isOn) void epochs.check();
  };
  const connect: RedisSource['connect'] = (onError) => source.connect(onError);
  const link: RedisLink = new RedisLink(connect, settings, `${prefix}:trial`, onTrouble, metrics.failed);
  const epoch: TierEpoch = epochs.join(epochsIn(link, prefix));
  const names = (): AnswerNames | undefined => {
    const { current } = epoch;
    return current && new AnswerNames(prefix, current.ledger, current.epoch);
  };
  const tier: SharedTier = new SharedTier(link, settings, names, (digest) => memory.findAnswer(digest), metrics);
  // The other connection reports the same faults.
  const subscriber = source.subscribe(() => undefined);
  const news = new News(link, subscriber, prefix, ledger, () => epoch.current?.epoch.id, listener);
  return {
    tier,
    /** Resolves when Redis is reachable, or its absence is certain. */
    started: link.started,
    news,
    publishPurge: (scope: PurgeScope) => news.publishPurge(scope),
    /** Deletes the scope in every epoch of the ledger; see `SharedTier.clear`. */
    clear: async (scope: PurgeScope) => {
      const name = ledger();
      const ids = name === undefined ? undefined : await epoch.everyId(name);
      if (name === undefined || ids === undefined) return undefined;
      return scope.kind === 'read'
        ? tier.clearRead(scope.key, pagesIn(prefix, name, scope.key, ids))
        : tier.clear(patternsOf(prefix, name, scope));
    },
    /** The present fault of Redis, without its addresses. */
    trouble: () => troubleOf(link) ?? (epoch.current === undefined ? unverified : undefined),
    close: () => {
      news.close();
      link.close();
    },
  };
}

/** Epochs in Redis: one hash for each ledger, and a short-lived key for each epoch with members. */
export function epochsIn(link: RedisLink, prefix: string): EpochFields {
  const nameOf = (...parts: readonly string[]): string => [prefix, 'history', ...parts].join(':');
  return {
    read: async (ledger) => valueOf(await link.read(nameOf(ledger), (client) => client.hgetall(nameOf(ledger)))),
    put: async (ledger, field, text) =>
      'value' in (await link.write(nameOf(ledger), (client) => client.hset(nameOf(ledger), field, text))),
    delete: (ledger, fields) => link.write(nameOf(ledger), (client) => client.hdel(nameOf(ledger), ...fields)),
    beat(ledger, id, beatMs) {
      const name = nameOf(ledger, id);
      return link.write(name, (client) => client.set(name, '1', 'PX', beatMs));
    },
    async hasMembers(ledger, id) {
      const name = nameOf(ledger, id);
      const beat = valueOf(await link.read(name, (client) => client.get(name)));
      return beat === undefined ? undefined : beat !== null;
    },
  };
}

function valueOf<T>(outcome: RedisOutcome<T>): T | undefined {
  return 'value' in outcome ? outcome.value : undefined;
}

function troubleOf(link: RedisLink): string | undefined {
  const [alone, unwritten] = [link.trouble('circuit open'), link.trouble('read-only')];
  if (alone !== undefined) return alone;
  return unwritten === undefined ? undefined : `takes no writes: ${unwritten}`;
}

function recordTrouble(journal: Journal, { server, trouble, isOn, reason, cause }: TroubleChange): void {
  const place = server === '' ? {} : { server };
  // The end of a trouble has no reason.
  const details = isOn ? { reason, ...place } : place;
  if (isOn) journal.debug({ ...details, cause }, 'the fault in the words of the client library');
  if (trouble === 'circuit open') {
    if (isOn)
      journal.record('redis away', details, 'Redis circuit open: answers are not shared until Redis answers again');
    else journal.record('redis back', details, 'Redis answers again');
  } else if (isOn) {
    journal.record('redis read-only', details, 'Redis refuses writes: reads go on, no answer is added');
  } else journal.record('redis writable', details, 'Redis takes writes again');
}

interface RedisGauges {
  readonly isUp: boolean;
  readonly isWritable: boolean;
  readonly pendingWrites: number;
  readonly pendingBytes: number;
}

/** Registers the families of the shared tier; `read` is called at each scrape. */
export function createRedisMetrics(registry: Registry, read: () => RedisGauges) {
  new Gauge(registry, {
    name: 'ledgergate_redis_up',
    help: 'Whether Redis is used: 0 while it, or one node of a cluster, does not answer in time, or nodes have not confirmed the history that it holds; 0 when that is so for any worker.',
    join: 'min',
    read: () => Number(read().isUp),
  });
  new Gauge(registry, {
    name: 'ledgergate_redis_writable',
    help: 'Whether Redis takes writes: 0 while it refuses them.',
    join: 'min',
    read: () => Number(read().isWritable),
  });
  new Gauge(registry, {
    name: 'ledgergate_redis_pending_writes',
    help: 'Answers on their way to Redis.',
    read: () => read().pendingWrites,
  });
  new Gauge(registry, {
    name: 'ledgergate_redis_pending_write_bytes',
    help: 'Bytes of answers on their way to Redis.',
    read: () => read().pendingBytes,
  });
  const counters = createTierCounters(registry, 'redis', 'Redis');
  const duration = new Histogram(registry, {
    name: 'ledgergate_redis_lookup_duration_seconds',
    help: 'Time of a look-up in Redis, with any outcome; cache.redis.timeout bounds it.',
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1],
  }).of({});
  const turned = new Counter(registry, {
    name: 'ledgergate_redis_reads_total',
    help: 'Reads that Redis did not have: lead (for all replicas), followed (another replica read), alone.',
    labels: { turn: ['lead', 'followed', 'alone'] },
  }).by('turn');
  const failed = new Counter(registry, {
    name: 'ledgergate_redis_failures_total',
    help: 'Commands that failed, by kind: timeout, connection, refused (no writes now), wrong type, error.',
    labels: { kind: ['timeout', 'connection', 'refused', 'wrong type', 'error'] },
  }).by('kind');
  return {
    ...counters,
    lookedUp(outcome: 'hit' | Miss, seconds: number) {
      counters.lookedUp(outcome);
      duration.observe(seconds);
    },
    turned,
    failed,
  };
}
