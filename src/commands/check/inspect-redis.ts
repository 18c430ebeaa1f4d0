/** One look at the Redis of the cache and at that of access: can the gateway use them? Nothing is written. */
import type { Cluster, Redis } from 'ioredis';
import { redisConnections } from '../../cache/index.ts';
import type { LoadedConfig, Problem, RedisServersConfig } from '../../config/index.ts';
import { connectionFault } from '../../upstream/index.ts';

const redisTimeoutMs = 2_000;

/** Looks at the Redis of the cache and at that of access. Never rejects, and takes `redisTimeoutMs` at most. */
export async function inspectRedis({ config: { access, cache }, redacted }: Pick<LoadedConfig, 'config' | 'redacted'>) {
  const usesOwn = access?.redis !== undefined;
  const [cacheLook, accessLook] = await Promise.all([
    cache.redis && lookAtRedis('cache', cache.redis, redacted.cache.redis),
    access?.redis && lookAtRedis('access', access.redis, redacted.access?.redis),
  ]);
  const cacheUse = access === undefined || usesOwn ? cacheAlone : limitsToo;
  const isShared =
    accessLook?.servers.some(({ run }) => cacheLook?.servers.some((other) => other.run === run)) === true;
  return {
    findings: [...(cacheLook?.findings ?? []), ...(accessLook?.findings ?? [])],
    warnings: [
      ...(cacheLook?.warnings ?? []),
      // A server has one policy, which access needs more.
      ...(isShared ? [] : adviceOn('cache', cacheLook?.servers, cacheUse)),
      ...(accessLook?.warnings ?? []),
      ...(isShared ? ['access.redis is the server of cache.redis: answers take the memory of limits'] : []),
      ...adviceOn('access', accessLook?.servers, limitsAlone),
    ],
  };
}

interface RedisLook {
  readonly findings: readonly Pick<Problem, 'path' | 'message'>[];
  readonly warnings: readonly string[];
  readonly servers: readonly RedisMemory[];
}

/** Connects, reads and writes without changing anything. `given`: its addresses without secrets. */
async function lookAtRedis(
  section: 'cache' | 'access',
  redis: RedisServersConfig,
  given: Omit<NonNullable<LoadedConfig['redacted']['cache']['redis']>, 'ttl'> | undefined,
): Promise<RedisLook> {
  const { promise: failed, reject } = Promise.withResolvers<never>();
  // Also after the time-out, when no caller waits any more.
  failed.catch(() => undefined);
  const client = redisConnections(redis, redis).connect(reject);
  const timer = setTimeout(() => reject(new DOMException('', 'TimeoutError')), redisTimeoutMs);
  try {
    const { refusal, servers } = await Promise.race([failed, stateOfRedis(client, `${redis.keyPrefix}:check`)]);
    const effect = section === 'cache' ? 'nothing is shared' : 'limits are not counted in it';
    const warnings = refusal === undefined ? [] : [`${section}.redis takes no writes, so ${effect}: ${refusal}`];
    return { findings: [], warnings, servers };
  } catch (error) {
    const { reason, value } = connectionFault(error, redisTimeoutMs);
    // An error that Redis answers is its own best description.
    const isOfRedis = reason === 'bad answer' && value !== undefined;
    const remedy = reason === 'connection refused' ? ': does Redis listen on this port?' : '';
    const why = isOfRedis ? value : [reason, ...(value ? [`(${value})`] : [])].join(' ') + remedy;
    const addresses = given?.url ?? (given?.cluster ?? given?.sentinel?.nodes ?? []).join(', ');
    const path = [section, 'redis', redis.target.kind === 'single' ? 'url' : redis.target.kind];
    return { findings: [{ path, message: `${addresses} cannot be used: ${why}` }], warnings: [], servers: [] };
  } finally {
    clearTimeout(timer);
    client.disconnect();
  }
}

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
const limitsAlone: RedisUse = {
  policies: /^noeviction$/,
  advice: 'set maxmemory and maxmemory-policy noeviction (docs/limits.md)',
  mayLose: 'keys, limits and usage',
};

const limitsToo: RedisUse = {
  ...limitsAlone,
  advice:
    'set maxmemory and maxmemory-policy noeviction, or give limits a Redis of their own: access.redis (docs/limits.md)',
};

/** A server's memory settings. `memory`: absent where it hides them. */
interface RedisMemory {
  /** The server's own name for its run: two addresses may lead to one server. */
  readonly run: string;
  readonly memory: { readonly maxBytes: number; readonly policy: string } | undefined;
}

/** `refusal`: of a write that changes nothing. */
async function stateOfRedis(client: Redis | Cluster, key: string) {
  if (client.status !== 'ready') await new Promise<void>((resolve) => client.once('ready', () => resolve()));
  await client.hget(key, '0');
  // Nothing has this name, so nothing is written; a server that refuses writes refuses this one too.
  const refused = client.set(key, '', 'XX').then(
    () => undefined,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  const servers = 'nodes' in client ? client.nodes('master') : [client];
  return { servers: await Promise.all(servers.map(memoryOf)), refusal: await refused };
}

async function memoryOf(server: Redis): Promise<RedisMemory> {
  const info = await server.info().catch(() => '');
  const valueOf = (name: string): string | undefined => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];
  const { host = '', port = 0 } = server.options;
  const [run = `${host}:${port}`, maxBytes, policy] = ['run_id', 'maxmemory', 'maxmemory_policy'].map(valueOf);
  const isKnown = maxBytes !== undefined && policy !== undefined;
  return { run, memory: isKnown ? { maxBytes: Number(maxBytes), policy } : undefined };
}

function adviceOn(section: 'cache' | 'access', servers: RedisLook['servers'] = [], use: RedisUse): readonly string[] {
  // The servers of a cluster mostly share one setting: a set reports it once.
  const faults = new Set(servers.flatMap(({ memory }) => memoryFaults(memory, use)));
  return [...faults].map((fault) => `${section}.redis ${fault}`);
}

function memoryFaults(memory: RedisMemory['memory'], { policies, advice, mayLose }: RedisUse): readonly string[] {
  if (memory === undefined) return [`hides its memory limit, because INFO is not allowed: ${advice}`];
  const { maxBytes, policy } = memory;
  const faults: string[] = [];
  if (maxBytes === 0) faults.push(`has no memory limit: ${advice}`);
  if (policies.test(policy)) return faults;
  if (policy === 'noeviction') faults.push(`evicts nothing: once it is full nothing new is shared; ${advice}`);
  else faults.push(`may evict ${mayLose} (maxmemory-policy ${policy}); ${advice}`);
  return faults;
}
