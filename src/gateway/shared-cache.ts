/** Builds the shared tier: answers, leases and news in Redis. */
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { RedisConfig } from '../config/config.ts';
import type { MemoryCache } from '../cache/memory.ts';
import type { PurgeScope } from '../cache/purge-scope.ts';
import type { Shared } from '../cache/read-through.ts';
import { clearRedis } from '../cache/redis-clear.ts';
import { Leases } from '../cache/leases.ts';
import { connectRedis, connectSubscriber } from '../cache/redis-client.ts';
import { RedisKeys } from '../cache/redis-keys.ts';
import { withoutAddress } from '../cache/redis-failure.ts';
import { RedisLink, type TroubleChange } from '../cache/redis-link.ts';
import { SharedState, type NewsListener } from '../cache/shared-state.ts';
import { SharedTier } from '../cache/shared-tier.ts';
import { WriteQueue } from '../cache/write-queue.ts';
import { createRedisMetrics } from '../metrics/redis-metrics.ts';
import type { Settings } from './settings.ts';
import { SteadyLog, type Lines } from './steady-log.ts';

export interface SharedCacheParts {
  readonly memory: MemoryCache;
  readonly registry: Registry;
  readonly log: Logger;
  readonly chainId: () => number | undefined;
  /** The ledger's name, once it is known. */
  readonly ledger: () => string | undefined;
  readonly settings: Settings['redis'];
  readonly news: NewsListener;
}

export interface SharedCache extends Shared {
  /** Resolves when Redis can be used, or is known not to be. */
  readonly started: Promise<void>;
  readonly news: SharedState;
  /** Deletes from Redis; see `clearRedis`. */
  readonly clear: (scope: PurgeScope) => Promise<number | undefined>;
  /** What is wrong with Redis now, without its addresses. */
  readonly trouble: () => string | undefined;
  close(): void;
}

export function buildSharedCache(config: RedisConfig, parts: SharedCacheParts): SharedCache {
  const { memory, registry, settings } = parts;
  const log = new SteadyLog(parts.log);
  const metrics = createRedisMetrics(registry, () => ({
    isUp: link.trouble('left alone') === undefined,
    isWritable: link.trouble('no writes') === undefined,
    pendingWrites: writes.size.writes,
    pendingBytes: writes.size.bytes,
  }));
  const link: RedisLink = new RedisLink((onError) => connectRedis(config.target, onError), {
    get timeoutMs() {
      return settings.timeoutMs;
    },
    trialKey: `${config.keyPrefix}:trial`,
    onFailure: (kind) => metrics.failures.inc({ kind }),
    onTrouble: (change) => logTrouble(log, change),
  });
  const writes: WriteQueue = new WriteQueue(link, (outcome) => metrics.writes.inc({ outcome }));
  const keys = keysOf(config.keyPrefix, parts.ledger);
  const tier = new SharedTier(
    { link, writes, findAnswer: (digest) => memory.findAnswer(digest) },
    Object.assign(settings, { keys }),
  );
  const leases = new Leases(link, {
    nameOf: (key) => keys()?.lease(key),
    get followMs() {
      return settings.followMs;
    },
  });
  const state = new SharedState(
    link,
    // Its troubles are those of the other connection, which tells them.
    connectSubscriber(config.target, () => undefined),
    parts.news,
    { prefix: config.keyPrefix, ledger: () => ledgerName(parts) },
  );
  return {
    started: link.started,
    tier,
    news: state,
    leases,
    onLookup: (outcome) => metrics.lookups.inc({ outcome }),
    onTurn: (turn) => metrics.turns.inc({ turn }),
    clear: async (scope) => {
      const names = keys();
      return names === undefined ? undefined : clearRedis(link, names, scope);
    },
    trouble: () => troubleOf(link),
    close: () => {
      state.close();
      link.close();
    },
  };
}

function troubleOf(link: RedisLink): string | undefined {
  const [alone, unwritten] = [link.trouble('left alone'), link.trouble('no writes')];
  if (alone !== undefined) return withoutAddress(alone);
  return unwritten === undefined ? undefined : `takes no writes: ${withoutAddress(unwritten)}`;
}

function logTrouble(log: Lines, { server, trouble, isOn, reason }: TroubleChange): void {
  const details = { reason, ...(server === '' ? {} : { server }) };
  if (trouble === 'left alone') {
    if (isOn) log.warn(details, 'Redis is left alone until it answers again: answers are not shared');
    else log.info(details, 'Redis answers again');
  } else if (isOn) log.warn(details, 'Redis refuses writes: what it has is used, nothing is added');
  else log.info(details, 'Redis takes writes again');
}

/** What tells this ledger from every other: chain id and first transaction. */
function ledgerName({ chainId, ledger }: SharedCacheParts): string | undefined {
  const [chain, name] = [chainId(), ledger()];
  return chain === undefined || name === undefined ? undefined : `${chain}.${name}`;
}

/** The names for the ledger of the moment, made once per ledger. */
function keysOf(prefix: string, ledger: () => string | undefined): () => RedisKeys | undefined {
  let known: { readonly ledger: string; readonly keys: RedisKeys } | undefined;
  return () => {
    const now = ledger();
    if (now === undefined) return undefined;
    if (known?.ledger !== now) known = { ledger: now, keys: new RedisKeys(prefix, now) };
    return known.keys;
  };
}
