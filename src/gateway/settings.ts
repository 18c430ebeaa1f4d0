/**
 * What running parts read of the config: plain objects, the same for as long as the process runs, whose values a reload
 * replaces. So a reload costs a request no more than reading a property, and no part is built anew.
 */
import type { Config, RedisConfig } from '../config/config.ts';

/** A probe that takes longer than this says the same as none. */
const longestProbeMs = 2_000;
const longestConnectMs = 3_000;
/** A second attempt is begun after this part of a node's answers has usually come; with all of them, never. */
const noHedge = { quantile: 1, share: 0 };

export type LiveSettings = ReturnType<typeof createSettings>;

/** `stallMs` is no part of the config. */
export function createSettings(config: Config, stallMs: number) {
  const values = valuesOf(config);
  const sender = Object.assign(values.sender, { stallMs, hedge: values.hedge });
  return {
    ...values,
    sender,
    /** Takes over the values of `next`. */
    apply(next: Config): void {
      const fresh = valuesOf(next);
      Object.assign(values.connect, fresh.connect);
      Object.assign(values.sender, fresh.sender);
      Object.assign(values.hedge, fresh.hedge);
      Object.assign(values.fleet, fresh.fleet);
      Object.assign(values.probes, fresh.probes);
      Object.assign(values.latest, fresh.latest);
      Object.assign(values.audits, fresh.audits);
      Object.assign(values.encode, fresh.encode);
      if (next.cache.redis !== undefined) Object.assign(values.redis, fresh.redis);
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
    probes: { intervalMs: probeIntervalMs, timeoutMs: Math.min(timeoutMs, longestProbeMs) },
    latest: { ...latest },
    audits: { share: audit },
    encode: { enabled: encode.enabled, shadow: encode.shadow },
    redis: redisOf(cache.redis, timeoutMs),
  };
}

/** `followMs`: how long another replica's read of the same key is waited for. */
function redisOf(redis: RedisConfig | undefined, followMs: number) {
  return { timeoutMs: redis?.timeoutMs ?? 0, ttlMs: redis?.ttlMs ?? 0, followMs };
}
