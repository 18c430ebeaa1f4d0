/** Builds the counter of requests: in Redis for all replicas, in the primary for all workers, or in this process. */
import { randomUUID } from 'node:crypto';
import type { Registry } from 'prom-client';
import {
  counterInPrimary,
  counterWithFallback,
  createLimitMetrics,
  type LimitCounter,
  LimitQueue,
  type LimitServiceClient,
  MemoryCounter,
  PlanLimits,
  RedisCounter,
  Usage,
  UsageStore,
  type WhenRedisIsDown,
} from '../access/index.ts';
import { connectRedis, RedisLink, type TroubleChange } from '../cache/index.ts';
import type { AccessConfig, RedisConfig } from '../config/index.ts';
import type { Journal } from '../metrics/index.ts';

/** The part of `access` that limits depend on. */
export type LimitsConfig = Pick<AccessConfig, 'costs' | 'whenRedisIsDown' | 'usage'>;

/** Parts of which limits are built: `redis` and `limitService` decide on the counter. */
export interface LimitsParts {
  /** `cache.redis`: the same server, over a connection of its own. */
  readonly redis: RedisConfig | undefined;
  /** Read at each use: a reload may change it. */
  readonly redisBounds: { readonly timeoutMs: number };
  readonly registry: Registry;
  readonly journal: Journal;
  readonly processes: number;
  /** The primary; `undefined` in a single process. */
  readonly limitService: LimitServiceClient | undefined;
  readonly plans: () => Iterable<string>;
}

/** The limits of this process. */
export type BuiltLimits = ReturnType<typeof createLimits>;

/** Builds limits and usage from the config. */
export function createLimits(config: LimitsConfig, parts: LimitsParts) {
  const { redis, registry, processes, limitService, plans } = parts;
  let current = config;
  const [queue, queueOfAddresses] = [new LimitQueue(), new LimitQueue()];
  const metrics = createLimitMetrics(registry, {
    byKey: config.usage.metricsByKey,
    waiting: () => queue.waiting + queueOfAddresses.waiting,
    plans,
  });
  const link = redis && connect(redis, parts, () => current.whenRedisIsDown);
  const counted = link && new RedisCounter(link, { prefix: redis.keyPrefix, onLost: () => metrics.lost('settlement') });
  const usage = new Usage({
    now: () => Date.now(),
    store: link && new UsageStore(link, { prefix: redis.keyPrefix, process: randomUUID() }),
    onLost: () => metrics.lost('usage'),
  });
  const limits = new PlanLimits({
    counter: counterOf(),
    queue,
    queueOfAddresses,
    costs: () => current.costs,
    usage,
    metrics,
  });
  return {
    limits,
    usage,
    metrics,
    /** Resolves when Redis is reachable, or known not to be. */
    started: link?.started ?? Promise.resolve(),
    /** Applies costs and `whenRedisIsDown`; metrics by key need a restart. */
    update: (changed: LimitsConfig) => {
      current = changed;
    },
    /** Flushes usage and settlements to Redis within its timeouts, and frees everything. */
    close: async () => {
      limits.close();
      await Promise.all([counted?.close(), usage.close()]);
      link?.close();
    },
  };

  function counterOf(): LimitCounter {
    const memory = new MemoryCounter({ now, processes });
    if (counted !== undefined) {
      return counterWithFallback({
        shared: counted,
        memory,
        choice: () => current.whenRedisIsDown,
        onFallback: (choice) => metrics.fellBack(choice),
      });
    }
    if (limitService === undefined) return new MemoryCounter({ now });
    return counterWithFallback({ shared: counterInPrimary(limitService), memory });
  }
}

const now = (): number => performance.now();

const choices: Readonly<Record<WhenRedisIsDown, string>> = {
  local: 'each replica counts for itself',
  refuse: 'requests with limits are refused',
  allow: 'requests are not counted',
};

function connect(config: RedisConfig, { redisBounds, journal }: LimitsParts, choice: () => WhenRedisIsDown): RedisLink {
  return new RedisLink((onError) => connectRedis(config.target, onError), {
    get timeoutMs() {
      return redisBounds.timeoutMs;
    },
    trialKey: `${config.keyPrefix}:trial`,
    // `counterWithFallback` counts failures per request.
    onFailure: () => undefined,
    onTrouble: ({ server, trouble, isOn, reason }: TroubleChange) => {
      const place = { trouble, whenRedisIsDown: choice(), ...(server === '' ? {} : { server }) };
      if (isOn)
        journal.record('limits alone', { reason, ...place }, `limits are not counted in Redis: ${choices[choice()]}`);
      else journal.record('limits shared', place, 'limits are counted in Redis again');
    },
  });
}
