/** Builds the shared tier: answers, leases and events in Redis. */
import type { RedisConfig } from '../../config/index.ts';
import type { Journal } from '../../metrics/index.ts';
import { type TierEpoch, unverified, type EpochFields } from '../epoch/registry.ts';
import type { PurgeScope } from '../purge/purge-scope.ts';
import { createRedisMetrics } from '../cache-metrics.ts';
import type { SecondTier, TierParts } from '../tiers.ts';
import { Leases } from './leases.ts';
import { AnswerNames, pagesIn, patternsOf } from './redis-keys.ts';
import { RedisLink, type RedisOutcome, type TroubleChange } from './redis-link.ts';
import type { RedisSource } from './redis-source.ts';
import { News, type NewsListener } from './news.ts';
import { SharedTier } from './shared-tier.ts';

/** The process that shares its answers. */
export interface SharedCacheParts extends TierParts {
  readonly news: NewsListener;
  readonly source: RedisSource;
  /** Live settings of the config; `followMs`: longest wait for another replica's read of the same key. */
  readonly settings: {
    readonly redis: { readonly timeoutMs: number; readonly ttlMs: number; readonly followMs: number };
  };
}

/** The cache that replicas share in Redis, with its news and the epochs that it belongs to. Connects in the background. */
export function createSharedCache({ keyPrefix: prefix }: RedisConfig, parts: SharedCacheParts) {
  const { memory, journal, epochs, source } = parts;
  const { ledger } = epochs.nodes;
  const settings = parts.settings.redis;
  const metrics = createRedisMetrics(parts.registry, () => ({
    isUp: link.trouble('circuit open') === undefined && epoch.current !== undefined,
    isWritable: link.trouble('read-only') === undefined,
    pendingWrites: tier.size.writes,
    pendingBytes: tier.size.bytes,
  }));
  const link: RedisLink = new RedisLink((onError) => source.connect(onError), {
    get timeoutMs() {
      return settings.timeoutMs;
    },
    trialKey: `${prefix}:trial`,
    onFailure: (kind) => metrics.failed(kind),
    onTrouble: (change) => {
      recordTrouble(journal, change);
      if (change.trouble === 'circuit open' && !change.isOn) void epochs.check();
    },
  });
  const epoch: TierEpoch = epochs.join(epochsIn(link, prefix));
  const names = (): AnswerNames | undefined => {
    const { current } = epoch;
    return current && new AnswerNames(prefix, current.ledger, current.epoch);
  };
  const tier: SharedTier = new SharedTier(link, settings, {
    names,
    findAnswer: (digest) => memory.findAnswer(digest),
    onWritten: (outcome, answers) => metrics.wrote(outcome, answers),
  });
  // The other connection reports the same faults.
  const subscriber = source.subscribe(() => undefined);
  const news = new News(link, subscriber, parts.news, {
    prefix,
    ledger,
    epoch: () => epoch.current?.epoch.id,
  });
  const second: SecondTier = {
    tier,
    leases: new Leases(link, (key) => names()?.lease(key), settings),
    onLookup: (outcome, seconds) => metrics.lookedUp(outcome, seconds),
    onTurn: (turn) => metrics.turned(turn),
  };
  return {
    ...second,
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
