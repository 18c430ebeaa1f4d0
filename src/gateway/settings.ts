/**
 * The live values of the config: plain objects that last as long as the process, whose properties a reload replaces. A
 * request reads a property, and a reload rebuilds no part.
 */
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Config, RedisConfig } from '../config/index.ts';
import type { Journal } from '../metrics/index.ts';
import type { PeerWorkers } from './peer-workers.ts';

/** A slower probe counts as failed. */
const longestProbeMs = 2_000;
const longestConnectMs = 3_000;
/** Quantile 1: no attempt is ever slow enough for a hedge. */
const noHedge = { quantile: 1, share: 0 };

/** The objects that the parts of a serving process share. */
export interface ServingContext {
  readonly log: Logger;
  readonly journal: Journal;
  readonly registry: Registry;
  readonly settings: LiveSettings;
  /** Processes of this gateway, which share its bounds and its rates. */
  readonly processes: number;
  /** The name of this start of the gateway, which its processes share. */
  readonly run: string;
  /** The other workers; absent in a single process. */
  readonly peers: PeerWorkers | undefined;
}

/** Live values, by the part that reads them. */
export type LiveSettings = ReturnType<typeof createSettings>;

/** `stallMs`: not part of the config. */
export function createSettings(config: Config, stallMs: number) {
  const values = valuesOf(config);
  const sender = Object.assign(values.sender, { stallMs, hedge: values.hedge });
  return {
    ...values,
    sender,
    /** Replaces the values by those of `next`. */
    apply(next: Config): void {
      const fresh = valuesOf(next);
      for (const part of Object.keys(fresh) as (keyof typeof fresh)[]) {
        if (part !== 'redis' || next.cache.redis !== undefined) Object.assign(values[part], fresh[part]);
      }
    },
  };
}

function valuesOf({ upstream, latest, encode, cache }: Config) {
  const { timeoutMs, deadlineMs, maxAttempts, hedge = noHedge, probeIntervalMs, maxLagMs, audit } = upstream;
  return {
    connect: { connectTimeoutMs: Math.min(timeoutMs, longestConnectMs) },
    sender: { timeoutMs, deadlineMs, maxAttempts, waitForVersionMs: latest.waitForVersionMs },
    hedge: { ...hedge },
    fleet: { maxLagMs },
    discovery: { intervalMs: upstream.discoverIntervalMs },
    probes: { intervalMs: probeIntervalMs, timeoutMs: Math.min(timeoutMs, longestProbeMs) },
    latest: { ...latest },
    audits: { share: audit },
    encode: { enabled: encode.enabled, share: encode.shadow },
    redis: redisOf(cache.redis, timeoutMs),
  };
}

/** `followMs`: longest wait for another replica's read of the same key. */
function redisOf(redis: RedisConfig | undefined, followMs: number) {
  return { timeoutMs: redis?.timeoutMs ?? 0, ttlMs: redis?.ttlMs ?? 0, followMs };
}
