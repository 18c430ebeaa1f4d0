/**
 * The config of one serving process: its share of the bounds, and the live values, which are plain objects that last as
 * long as the process and whose properties a reload replaces. A request reads a property, and a reload rebuilds no part.
 */
import {
  accessRedisOf,
  type AccessConfig,
  type Config,
  type RedisConfig,
  type UpstreamConfig,
} from '../config/index.ts';

/** A slower probe counts as failed. */
const longestProbeMs = 2_000;
const longestConnectMs = 3_000;
/** Quantile 1: no attempt is ever slow enough for a hedge. */
const noHedge = { quantile: 1, share: 0 };

/** The config of one of `processes`: its share of connections, memory and allowances. */
export function shareOf(config: Config, processes: number): Config {
  if (processes === 1) return config;
  const { memory } = config.cache;
  const { connections } = config.upstream;
  const { maxConnections } = config.listen;
  const { max } = config.streams;
  const { minReads } = config.follow;
  return {
    ...config,
    listen: { ...config.listen, maxConnections: Math.max(1, Math.floor(maxConnections / processes)) },
    upstreams: config.upstreams.map((upstream) => shareOfNode(upstream, processes)),
    upstream: { ...config.upstream, connections: Math.max(1, Math.floor(connections / processes)) },
    cache: { ...config.cache, memory: { ...memory, maxBytes: Math.floor(memory.maxBytes / processes) } },
    follow: { ...config.follow, minReads: minReads / processes },
    streams: { ...config.streams, max: Math.ceil(max / processes) },
  };
}

function shareOfNode(upstream: UpstreamConfig, processes: number): UpstreamConfig {
  const { maxRequestsPerSecond } = upstream;
  if (maxRequestsPerSecond === undefined) return upstream;
  return { ...upstream, maxRequestsPerSecond: maxRequestsPerSecond / processes };
}

/** The live values, by the part that reads them. `stallMs`: not part of the config. */
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

function valuesOf({ upstream, latest, follow, streams, encode, cache, access, tracing }: Config) {
  const { timeoutMs, deadlineMs, maxAttempts, hedge = noHedge, probeIntervalMs, maxLagMs, audit } = upstream;
  return {
    connect: { connectTimeoutMs: Math.min(timeoutMs, longestConnectMs) },
    sender: { timeoutMs, deadlineMs, maxAttempts, waitForVersionMs: latest.waitForVersionMs },
    hedge: { ...hedge },
    fleet: { maxLagMs },
    discovery: { intervalMs: upstream.discoverIntervalMs },
    probes: { intervalMs: probeIntervalMs, timeoutMs: Math.min(timeoutMs, longestProbeMs) },
    latest: { ...latest, bounds: boundsOf(latest, access) },
    audits: { share: audit },
    follow: { ...follow },
    streams: { ...streams },
    encode: { enabled: encode.enabled, share: encode.shadow },
    redis: redisOf(cache.redis, timeoutMs),
    accessRedis: { timeoutMs: accessRedisOf({ access, cache })?.timeoutMs ?? 0 },
    tracing: { headers: tracing?.headers ?? {} },
  };
}

/** Bounds of staleness above 0 ms, ascending: reads that have one of them share a state. */
function boundsOf({ maxStalenessMs, overrides }: Config['latest'], access: Config['access']): readonly number[] {
  const plans: AccessConfig['plans'] = access?.plans ?? {};
  const others = [...overrides, ...Object.values(plans)].map((source) => source.maxStalenessMs ?? 0);
  const bounds = new Set([maxStalenessMs, ...others]);
  return [...bounds].filter((boundMs) => boundMs > 0).sort((one, other) => one - other);
}

/** `followMs`: longest wait for another replica's read of the same key. */
function redisOf(redis: RedisConfig | undefined, followMs: number) {
  return { timeoutMs: redis?.timeoutMs ?? 0, ttlMs: redis?.ttlMs ?? 0, followMs };
}
