/** One look at Redis and at the store from outside: can the gateway use them? Nothing is written. */
import { accessSync, constants, existsSync, readdirSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Cluster, Redis } from 'ioredis';
import { faultOf, redisConnections } from '../../cache/index.ts';
import type { Config, LoadedConfig, Problem, RedisConfig } from '../../config/index.ts';
import { connectionFault } from '../../upstream/index.ts';

/** A fault of the value at `path`. */
export type CheckFinding = Pick<Problem, 'path' | 'message'>;

/** Problems and warnings about a tier. */
interface TierInspection {
  readonly findings: readonly CheckFinding[];
  readonly warnings: readonly string[];
}

/** Longest look at Redis. */
const redisTimeoutMs = 2_000;

/** Connects, reads and writes without changing anything. Never rejects, and takes `redisTimeoutMs` at most. */
export async function inspectRedis(
  redis: RedisConfig,
  { config, redacted }: Pick<LoadedConfig, 'config' | 'redacted'>,
): Promise<TierInspection> {
  const { promise: failed, reject } = Promise.withResolvers<never>();
  // Also after the time-out, when no caller waits any more.
  failed.catch(() => undefined);
  const client = redisConnections(redis, redis).connect(reject);
  const timer = setTimeout(() => reject(new DOMException('', 'TimeoutError')), redisTimeoutMs);
  try {
    const use = config.access === undefined ? cacheAlone : limitsToo;
    const warnings = await Promise.race([failed, warningsOfRedis(client, `${redis.keyPrefix}:check`, use)]);
    return { findings: [], warnings: warnings.map((warning) => `cache.redis ${warning}`) };
  } catch (error) {
    const { reason, value } = connectionFault(error, redisTimeoutMs);
    // An error that Redis answers is its own best description.
    const isOfRedis = reason === 'bad answer' && value !== undefined;
    const remedy = reason === 'connection refused' ? ': does Redis listen on this port?' : '';
    const why = isOfRedis ? value : [reason, ...(value ? [`(${value})`] : [])].join(' ') + remedy;
    const { url, cluster, sentinel } = redacted.cache.redis ?? {};
    const addresses = url ?? (cluster ?? sentinel?.nodes ?? []).join(', ');
    const path = ['cache', 'redis', redis.target.kind === 'single' ? 'url' : redis.target.kind];
    return { findings: [{ path, message: `${addresses} cannot be used: ${why}` }], warnings: [] };
  } finally {
    clearTimeout(timer);
    client.disconnect();
  }
}

/** Memory settings that fit the content of a Redis. */
interface RedisUse {
  readonly policies: RegExp;
  readonly advice: string;
  /** The fault of an eviction that it must not have. */
  readonly mayLose: string;
}

const cacheAlone: RedisUse = {
  policies: /^volatile-/,
  advice: 'set maxmemory and maxmemory-policy volatile-lfu (docs/redis.md)',
  mayLose: 'what must stay',
};

/** Windows of limits expire, so that `volatile-*` evicts them, too. */
const limitsToo: RedisUse = {
  policies: /^noeviction$/,
  advice: 'set maxmemory and maxmemory-policy noeviction (docs/limits.md)',
  mayLose: 'limits and usage',
};

async function warningsOfRedis(client: Redis | Cluster, key: string, use: RedisUse): Promise<readonly string[]> {
  if (client.status !== 'ready') await new Promise<void>((resolve) => client.once('ready', () => resolve()));
  await client.hget(key, '0');
  // Nothing has this name, so nothing is written; a server that refuses writes refuses this one too.
  const refusals = client.set(key, '', 'XX').then(
    () => [],
    (error: unknown) => [
      `takes no writes, so nothing is shared: ${error instanceof Error ? error.message : String(error)}`,
    ],
  );
  const servers = 'nodes' in client ? client.nodes('master') : [client];
  const faults = await Promise.all(servers.map((server) => memoryFaults(server, use)));
  // The servers of a cluster mostly share one setting: a set reports it once.
  return [...new Set([...(await refusals), ...faults.flat()])];
}

async function memoryFaults(server: Redis, { policies, advice, mayLose }: RedisUse): Promise<readonly string[]> {
  const info = await server.info('memory').catch(() => '');
  const [maxBytes, policy] = [/^maxmemory:(\d+)/m.exec(info)?.[1], /^maxmemory_policy:(\S+)/m.exec(info)?.[1]];
  if (maxBytes === undefined || policy === undefined)
    return [`hides its memory limit, because INFO is not allowed: ${advice}`];
  const faults: string[] = [];
  if (Number(maxBytes) === 0) faults.push(`has no memory limit, and answers are kept for cache.redis.ttl: ${advice}`);
  if (policies.test(policy)) return faults;
  if (policy === 'noeviction') faults.push(`evicts nothing: once it is full nothing new is shared; ${advice}`);
  else faults.push(`may evict ${mayLose} (maxmemory-policy ${policy}); ${advice}`);
  return faults;
}

/** `f_type` of file systems (statfs(2)) that no store belongs on: their locks do not hold, or they are memory. */
const unfit: Readonly<Record<number, string>> = {
  0x6969: 'NFS, whose locks may not hold',
  0xff534d42: 'CIFS, whose locks may not hold',
  0x517b: 'SMB, whose locks may not hold',
  0x01021994: 'tmpfs, which is memory',
};

/** Looks at the store's folder, or at the one above it, which the gateway will create it in. */
export async function inspectStore({
  path: folder,
  maxBytes,
}: NonNullable<Config['cache']['store']>): Promise<TierInspection> {
  const place = existsSync(folder) ? folder : dirname(folder);
  try {
    accessSync(place, constants.R_OK | constants.W_OK | constants.X_OK);
    const names = existsSync(folder) ? readdirSync(folder) : [];
    const held = names.reduce(
      (sum, name) => sum + (statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0),
      0,
    );
    return { findings: [], warnings: warningsOfDisk(place, maxBytes - held) };
  } catch (error) {
    return { findings: [{ path: ['cache', 'store', 'path'], message: faultOf(error) }], warnings: [] };
  }
}

/** `wantedBytes`: beside the files that are there. */
function warningsOfDisk(place: string, wantedBytes: number): readonly string[] {
  const { bavail, bsize, type } = statfsSync(place);
  const free = bavail * bsize;
  const kind = unfit[type];
  return [
    ...(kind === undefined ? [] : [`cache.store.path is on ${kind}: use a local disk`]),
    ...(free >= wantedBytes
      ? []
      : [
          `cache.store.maxBytes is more than the disk has free: ${gib(wantedBytes)} GiB beside what is there, of ${gib(free)}`,
        ]),
  ];
}

function gib(bytes: number): string {
  return (bytes / 2 ** 30).toFixed(1);
}
