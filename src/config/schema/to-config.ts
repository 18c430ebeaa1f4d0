/** Converts a checked file to a `Config`: durations to ms, sizes to bytes, addresses to URLs, paths to absolute ones. */
import { resolve } from 'node:path';
import type {
  AccessConfig,
  Config,
  LogConfig,
  PlanConfig,
  RedisConfig,
  RedisTargetConfig,
  TlsConfig,
} from '../config.ts';
import type { FileConfig } from './schema.ts';
import { chainIds } from './schema-parts.ts';
import { durationMs, sizeBytes } from './units.ts';

type RedisFile = NonNullable<FileConfig['cache']['redis']>;

/** The config of `file`, frozen. `folder`: the config file's, base of relative paths. */
export function toConfig(file: FileConfig, folder: string): Config {
  const { listen, operations, chainId, upstream, cache, latest, log } = file;
  return deepFreeze<Config>({
    listen: { ...listen, tls: listen.tls && tlsOf(listen.tls, folder) },
    operations: { ...operations, hosts: operations.hosts?.map((name) => name.toLowerCase()) },
    dialect: file.dialect,
    chainId: typeof chainId === 'string' ? chainIds[chainId] : chainId,
    workers: file.workers,
    upstreams: file.upstreams.map(({ name, url, tier, headers, maxRequestsPerSecond }) => ({
      name,
      url: upstreamUrl(url),
      tier,
      headers: headers && lowerCase(headers),
      maxRequestsPerSecond,
    })),
    upstream: {
      timeoutMs: durationMs(upstream.timeout),
      deadlineMs: durationMs(upstream.deadline),
      probeIntervalMs: durationMs(upstream.probeInterval),
      connections: upstream.connections,
      maxAttempts: upstream.maxAttempts,
      maxLagMs: durationMs(upstream.maxLag),
      hedge: upstream.hedge === false ? undefined : upstream.hedge,
      audit: upstream.audit,
    },
    cache: {
      gasPriceTtlMs: durationMs(cache.gasPriceTtl),
      memory: { maxBytes: sizeBytes(cache.memory.maxBytes) },
      redis: cache.redis && redisOf(cache.redis),
    },
    latest: {
      maxStalenessMs: durationMs(latest.maxStaleness),
      waitForVersionMs: durationMs(latest.waitForVersion),
      minClientStalenessMs: durationMs(latest.minClientStaleness),
      maxClientStalenessMs: durationMs(latest.maxClientStaleness),
    },
    access: file.access && accessOf(file.access, folder),
    encode: file.encode,
    log: logOf(log),
  });
}

function logOf({ level, access: { slow, ...access } }: FileConfig['log']): LogConfig {
  return { level, access: { ...access, slowMs: durationMs(slow) } };
}

function tlsOf(file: NonNullable<FileConfig['listen']['tls']>, folder: string): TlsConfig {
  return { ...file, cert: resolve(folder, file.cert), key: resolve(folder, file.key) };
}

function accessOf(file: NonNullable<FileConfig['access']>, folder: string): AccessConfig {
  const plans = Object.entries(file.plans).map(([name, { window, wait, ...plan }]): [string, PlanConfig] => {
    return [name, { ...plan, windowMs: durationMs(window), waitMs: durationMs(wait) }];
  });
  const keys = { ...file.keys, file: file.keys.file && resolve(folder, file.keys.file) };
  return { ...file, keys, plans: Object.fromEntries(plans) };
}

/** Without a trailing slash, since `{url}/accounts/...` adds one (the root path stays `/`). */
function upstreamUrl(text: string): URL {
  return new URL(text.replace(/\/+$/, ''));
}

function lowerCase(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

function redisOf({ keyPrefix, timeout, ttl, ...servers }: RedisFile): RedisConfig | undefined {
  const target = targetOf(servers);
  return target && { target, keyPrefix, timeoutMs: durationMs(timeout), ttlMs: durationMs(ttl) };
}

/** `consistency.ts` ensures that exactly one of the three is set. */
function targetOf({ url, cluster, sentinel }: Partial<RedisFile>): RedisTargetConfig | undefined {
  if (url !== undefined) return { kind: 'single', url };
  if (cluster !== undefined) return { kind: 'cluster', urls: cluster };
  return sentinel && { kind: 'sentinel', name: sentinel.name, urls: sentinel.nodes };
}

/** Freezes a value and its parts, without keys that are undefined. A URL stays mutable: its state is internal. */
function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const [key, part] of Object.entries(value)) {
    if (part === undefined) Reflect.deleteProperty(value, key);
    else deepFreeze(part);
  }
  return Object.freeze(value);
}
