/**
 * The parsed config, from a checked file: durations in ms, sizes in bytes, absolute paths. It is plain data, so that workers
 * get it as a message. Its types follow from the schema, which describes each key.
 */
import { resolve } from 'node:path';
import { chainIds, durationMs, sizeBytes } from './schema/schema-parts.ts';
import type { FileConfig } from './schema/schema.ts';
import { findFunctions } from './schema/staleness-overrides.ts';

/** A checked config with every default, deeply frozen. */
export type Config = ReturnType<typeof toConfig>;
/** One node. */
export type UpstreamConfig = Config['upstreams'][number];
/** The cache tier that replicas share. */
export type RedisConfig = NonNullable<Config['cache']['redis']>;
/** Servers of Redis, and the bounds of commands. */
export type RedisServersConfig = Omit<RedisConfig, 'ttlMs'>;
/** Files for TLS toward a node or Redis. */
export type ClientTlsConfig = NonNullable<UpstreamConfig['tls']>;
/** Addresses of Redis in one of its three topologies. */
export type RedisTargetConfig = RedisConfig['target'];
/** Keys, plans and costs. */
export type AccessConfig = NonNullable<Config['access']>;

/** A frozen value; keys that may be undefined are left out then. */
type Frozen<T> = T extends readonly (infer Item)[]
  ? readonly Frozen<Item>[]
  : T extends object
    ? { readonly [Key in keyof T as undefined extends T[Key] ? never : Key]: Frozen<T[Key]> } & {
        readonly [Key in keyof T as undefined extends T[Key] ? Key : never]?: Frozen<T[Key]>;
      }
    : T;

type RedisFile = NonNullable<FileConfig['cache']['redis']>;

/** The config of `file`, frozen. `folder`: the config file's, base of relative paths. */
export function toConfig(file: FileConfig, folder: string) {
  const { listen, operations, chainId, upstream, cache, latest, log } = file;
  return deepFreeze({
    listen: { ...listen, tls: listen.tls && tlsOf(listen.tls, folder) },
    operations: { ...operations, hosts: operations.hosts?.map((name) => name.toLowerCase()) },
    dialect: file.dialect,
    chainId: typeof chainId === 'string' ? chainIds[chainId] : chainId,
    workers: file.workers,
    upstreams: file.upstreams.map(({ name, url, discover, tier, headers, tls, maxRequestsPerSecond, weight }) => ({
      name,
      url: upstreamUrl(url),
      discover,
      tier,
      headers: headers && lowerCase(headers),
      tls: tls && clientTlsOf(tls, folder),
      maxRequestsPerSecond,
      weight,
    })),
    upstream: {
      timeoutMs: durationMs(upstream.timeout),
      deadlineMs: durationMs(upstream.deadline),
      probeIntervalMs: durationMs(upstream.probeInterval),
      discoverIntervalMs: durationMs(upstream.discoverInterval),
      connections: upstream.connections,
      maxAttempts: upstream.maxAttempts,
      maxLagMs: durationMs(upstream.maxLag),
      hedge: upstream.hedge === false ? undefined : upstream.hedge,
      audit: upstream.audit,
    },
    cache: {
      gasPriceTtlMs: durationMs(cache.gasPriceTtl),
      memory: { maxBytes: sizeBytes(cache.memory.maxBytes) },
      store: cache.store && { path: resolve(folder, cache.store.path), maxBytes: sizeBytes(cache.store.maxBytes) },
      redis: cache.redis && redisOf(cache.redis, folder),
    },
    latest: {
      maxStalenessMs: durationMs(latest.maxStaleness),
      waitForVersionMs: durationMs(latest.waitForVersion),
      minClientStalenessMs: durationMs(latest.minClientStaleness),
      maxClientStalenessMs: durationMs(latest.maxClientStaleness),
      overrides: latest.overrides.map(overrideOf),
      floor: latest.floor,
    },
    follow: file.follow,
    streams: { max: file.streams.max, intervalMs: durationMs(file.streams.interval) },
    access: file.access && accessOf(file.access, folder, cache.store?.path),
    encode: file.encode,
    log: logOf(log),
    tracing: file.tracing && tracingOf(file.tracing),
  });
}

/** `consistency.ts` ensures that exactly one of `view` and `route` is set. */
function overrideOf({ view, route, maxStaleness }: FileConfig['latest']['overrides'][number]) {
  return { view: view && findFunctions(view), route, maxStalenessMs: durationMs(maxStaleness) };
}

function logOf({ level, format, access: { slow, ...access } }: FileConfig['log']) {
  return { level, format, access: { ...access, slowMs: durationMs(slow) } };
}

function tracingOf({ endpoint, headers, share }: NonNullable<FileConfig['tracing']>) {
  return { endpoint: endpoint.replace(/\/+$/, ''), headers: headers && lowerCase(headers), share };
}

function tlsOf(file: NonNullable<FileConfig['listen']['tls']>, folder: string) {
  const { cert, key, ciphers } = file;
  return { cert: resolve(folder, cert), key: resolve(folder, key), ciphers };
}

function accessOf(file: NonNullable<FileConfig['access']>, folder: string, storePath: string | undefined) {
  const plans = Object.entries(file.plans).map(([name, { window, wait, maxStaleness, ...plan }]) => {
    const maxStalenessMs = maxStaleness === undefined ? undefined : durationMs(maxStaleness);
    const perAddress = plan.perAddress && {
      requests: plan.perAddress.requests,
      windowMs: durationMs(plan.perAddress.window),
    };
    const times = { windowMs: durationMs(window), waitMs: durationMs(wait), maxStalenessMs };
    return [name, { ...plan, ...times, perAddress }] as const;
  });
  const keys = { ...file.keys, file: file.keys.file && resolve(folder, file.keys.file) };
  // The store's folder where none is given: both stay over restarts.
  const path = file.usage.path ?? storePath;
  const usage = { ...file.usage, path: path && resolve(folder, path) };
  return {
    ...file,
    keys,
    jwt: file.jwt && jwtOf(file.jwt, folder),
    redis: file.redis && serversOf(file.redis, folder),
    usage,
    plans: Object.fromEntries(plans),
  };
}

/** `jwks`: an address, or the absolute name of a file. */
function jwtOf(file: NonNullable<NonNullable<FileConfig['access']>['jwt']>, folder: string) {
  const { clockSkew, jwks, ...jwt } = file;
  const source = /^https?:\/\//.test(jwks) ? { url: jwks } : { file: resolve(folder, jwks) };
  return { ...jwt, jwks: source, clockSkewMs: durationMs(clockSkew) };
}

/** The Redis of keys, limits and usage: its own, or that of the cache; `undefined`: they have none. */
export function accessRedisOf({ access, cache }: Pick<Config, 'access' | 'cache'>): RedisServersConfig | undefined {
  return access && (access.redis ?? cache.redis);
}

/** Without a trailing slash, since `{url}/accounts/...` adds one (the root path stays `/`). */
function upstreamUrl(text: string): string {
  return new URL(text.replace(/\/+$/, '')).href;
}

function lowerCase(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

function redisOf({ ttl, ...servers }: RedisFile, folder: string) {
  const known = serversOf(servers, folder);
  return known && { ...known, ttlMs: durationMs(ttl) };
}

function serversOf({ keyPrefix, timeout, tls, ...servers }: Omit<RedisFile, 'ttl'>, folder: string) {
  const target = targetOf(servers);
  if (target === undefined) return undefined;
  return { target, tls: tls && clientTlsOf(tls, folder), keyPrefix, timeoutMs: durationMs(timeout) };
}

function clientTlsOf({ ca, cert, key, serverName }: NonNullable<RedisFile['tls']>, folder: string) {
  const absolute = (name: string | undefined) => name && resolve(folder, name);
  return { ca: absolute(ca), cert: absolute(cert), key: absolute(key), serverName };
}

/** `consistency.ts` ensures that exactly one of the three is set. */
function targetOf({ url, cluster, sentinel }: Partial<RedisFile>) {
  if (url !== undefined) return { kind: 'single' as const, url };
  if (cluster !== undefined) return { kind: 'cluster' as const, urls: cluster };
  return sentinel && { kind: 'sentinel' as const, name: sentinel.name, urls: sentinel.nodes };
}

/** Freezes a value and its parts, without keys that are undefined. */
function deepFreeze<T>(value: T): Frozen<T> {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value as Frozen<T>;
  for (const [key, part] of Object.entries(value)) {
    if (part === undefined) Reflect.deleteProperty(value, key);
    else deepFreeze(part);
  }
  return Object.freeze(value) as Frozen<T>;
}
