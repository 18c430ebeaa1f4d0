/** One look at the shared cache from outside: can it be used as the gateway will use it, and how does it forget? */
import type { Redis } from 'ioredis';
import { connectRedis, type RedisClient, type RedisServers } from '../../cache/redis/redis-client.ts';
import type { CheckFinding } from './inspect-fleet.ts';
import { connectionFault } from './probe.ts';

/** Settings that one server reports. */
interface RedisServerFacts {
  /** `INFO memory`, or `undefined` where the user may not ask for it. */
  readonly memory: { readonly maxBytes: number; readonly policy: string } | undefined;
}

/** Outcome of a probe. `writeFault`: Redis answers reads and refuses writes with this message. */
type RedisProbe =
  | { readonly kind: 'usable'; readonly servers: readonly RedisServerFacts[]; readonly writeFault: string | undefined }
  | { readonly kind: 'unusable'; readonly why: string };

/** Prefix of the gateway's keys, and the bound of the probe in milliseconds. */
interface RedisProbeOptions {
  readonly keyPrefix: string;
  readonly timeoutMs: number;
}

/** Connects, reads and writes without changing anything. Never throws and never takes longer than `timeoutMs`. */
export async function probeRedis(target: RedisServers, options: RedisProbeOptions): Promise<RedisProbe> {
  const { promise: failed, reject } = Promise.withResolvers<never>();
  // Also after the time-out, when no caller waits any more.
  failed.catch(() => undefined);
  const client = connectRedis(target, reject);
  const timer = setTimeout(() => reject(new DOMException('', 'TimeoutError')), options.timeoutMs);
  try {
    return await Promise.race([failed, inspect(client, `${options.keyPrefix}:check`)]);
  } catch (error) {
    const { reason, value } = connectionFault(error, options.timeoutMs);
    // An error that Redis answers is its own best description.
    const isOfRedis = reason === 'bad answer' && value !== undefined;
    return { kind: 'unusable', why: isOfRedis ? value : [reason, ...(value ? [`(${value})`] : [])].join(' ') };
  } finally {
    clearTimeout(timer);
    client.disconnect();
  }
}

async function inspect(client: RedisClient, key: string): Promise<RedisProbe> {
  if (client.status !== 'ready') await new Promise<void>((resolve) => client.once('ready', () => resolve()));
  await client.hget(key, '0');
  // Nothing has this name, so nothing is written; a server that refuses writes refuses this one too.
  const written = client.set(key, '', 'XX').then(
    () => undefined,
    (error: unknown) => String(error instanceof Error ? error.message : error),
  );
  const servers = 'nodes' in client ? client.nodes('master') : [client];
  return { kind: 'usable', servers: await Promise.all(servers.map(factsOf)), writeFault: await written };
}

async function factsOf(server: Redis): Promise<RedisServerFacts> {
  const info = await server.info('memory').catch(() => '');
  const [maxBytes, policy] = [/^maxmemory:(\d+)/m.exec(info)?.[1], /^maxmemory_policy:(\S+)/m.exec(info)?.[1]];
  return {
    memory: maxBytes === undefined || policy === undefined ? undefined : { maxBytes: Number(maxBytes), policy },
  };
}

/** Problems and warnings about Redis. */
export interface RedisInspection {
  readonly findings: readonly CheckFinding[];
  readonly warnings: readonly string[];
}

const path = ['cache', 'redis'];
const advice = 'set maxmemory and maxmemory-policy volatile-lfu (docs/redis.md)';

/** Turns a probe into problems and warnings. */
export function inspectRedis(probe: RedisProbe): RedisInspection {
  if (probe.kind === 'unusable') {
    return { findings: [{ path, message: `cannot be used: ${probe.why}` }], warnings: [] };
  }
  const { writeFault, servers } = probe;
  const refusal = writeFault === undefined ? [] : [`takes no writes, so nothing is shared: ${writeFault}`];
  // The servers of a cluster mostly share one setting: a set reports it once.
  const warnings = new Set([...refusal, ...servers.flatMap(memoryFaults)]);
  return { findings: [], warnings: [...warnings].map((warning) => `cache.redis ${warning}`) };
}

function memoryFaults({ memory }: RedisServerFacts): readonly string[] {
  if (memory === undefined) return [`hides its memory limit, because INFO is not allowed: ${advice}`];
  const { maxBytes, policy } = memory;
  const faults: string[] = [];
  if (maxBytes === 0) faults.push(`has no memory limit, and answers are kept for cache.redis.ttl: ${advice}`);
  if (policy === 'noeviction') faults.push(`evicts nothing: once it is full nothing new is shared; ${advice}`);
  if (policy.startsWith('allkeys-')) {
    faults.push(`may evict what must stay (maxmemory-policy ${policy}); ${advice}`);
  }
  return faults;
}
