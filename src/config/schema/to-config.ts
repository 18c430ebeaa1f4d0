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

/** The config of `file`, frozen. `folder`: the config file's, base of relative paths. */
export function toConfig(file: FileConfig, folder: string): Config {
  return deepFreeze<Config>({
    listen: { ...file.listen, ...tlsOf(file.listen.tls, folder) },
    operations: { ...file.operations, ...hostsOf(file.operations.hosts) },
    dialect: file.dialect,
    ...chainIdOf(file.chainId),
    workers: file.workers,
    upstreams: file.upstreams.map(({ name, url, tier, headers }) => ({
      name,
      url: upstreamUrl(url),
      tier,
      ...(headers === undefined ? {} : { headers: lowerCase(headers) }),
    })),
    upstream: {
      timeoutMs: durationMs(file.upstream.timeout),
      deadlineMs: durationMs(file.upstream.deadline),
      probeIntervalMs: durationMs(file.upstream.probeInterval),
      connections: file.upstream.connections,
      maxAttempts: file.upstream.maxAttempts,
      maxLagMs: durationMs(file.upstream.maxLag),
      ...(file.upstream.hedge === false ? {} : { hedge: file.upstream.hedge }),
      audit: file.upstream.audit,
    },
    cache: { memory: { maxBytes: sizeBytes(file.cache.memory.maxBytes) }, ...redisOf(file.cache.redis) },
    latest: {
      maxStalenessMs: durationMs(file.latest.maxStaleness),
      waitForVersionMs: durationMs(file.latest.waitForVersion),
      minClientStalenessMs: durationMs(file.latest.minClientStaleness),
      maxClientStalenessMs: durationMs(file.latest.maxClientStaleness),
    },
    ...accessOf(file.access, folder),
    encode: file.encode,
    log: logOf(file.log),
  });
}

function hostsOf(hosts: FileConfig['operations']['hosts']): { readonly hosts?: readonly string[] } {
  return hosts === undefined ? {} : { hosts: hosts.map((name) => name.toLowerCase()) };
}

function chainIdOf(chainId: FileConfig['chainId']): { readonly chainId?: number } {
  if (chainId === undefined) return {};
  return { chainId: typeof chainId === 'number' ? chainId : chainIds[chainId] };
}

function logOf({ level, access: { slow, ...access } }: FileConfig['log']): LogConfig {
  return { level, access: { ...access, slowMs: durationMs(slow) } };
}

function tlsOf(file: FileConfig['listen']['tls'], folder: string): { readonly tls?: TlsConfig } {
  if (file === undefined) return {};
  return { tls: { ...file, cert: resolve(folder, file.cert), key: resolve(folder, file.key) } };
}

function accessOf(file: FileConfig['access'], folder: string): { readonly access?: AccessConfig } {
  if (file === undefined) return {};
  const plans = Object.entries(file.plans).map(([name, { window, wait, ...plan }]): [string, PlanConfig] => {
    return [name, { ...plan, windowMs: durationMs(window), waitMs: durationMs(wait) }];
  });
  const keys = file.keys.file === undefined ? file.keys : { ...file.keys, file: resolve(folder, file.keys.file) };
  return { access: { ...file, keys, plans: Object.fromEntries(plans) } };
}

/** Without a trailing slash, since `{url}/accounts/...` adds one (the root path stays `/`). */
function upstreamUrl(text: string): URL {
  return new URL(text.replace(/\/+$/, ''));
}

function lowerCase(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

function redisOf(file: FileConfig['cache']['redis']): { readonly redis?: RedisConfig } {
  const target = file === undefined ? undefined : targetOf(file);
  if (file === undefined || target === undefined) return {};
  const { keyPrefix, timeout, ttl } = file;
  return { redis: { target, keyPrefix, timeoutMs: durationMs(timeout), ttlMs: durationMs(ttl) } };
}

/** `consistency.ts` ensures that exactly one of the three is set. */
function targetOf({
  url,
  cluster,
  sentinel,
}: NonNullable<FileConfig['cache']['redis']>): RedisTargetConfig | undefined {
  if (url !== undefined) return { kind: 'single', url };
  if (cluster !== undefined) return { kind: 'cluster', urls: cluster };
  return sentinel === undefined ? undefined : { kind: 'sentinel', name: sentinel.name, urls: sentinel.nodes };
}

/** Freezes a value and its parts. A URL stays mutable: its state is internal. */
function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}
