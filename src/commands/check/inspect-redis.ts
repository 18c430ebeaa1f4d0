/** Findings about Redis, from one probe of it. Pure. */
import type { CheckFinding } from './inspect-fleet.ts';
import type { RedisProbe, RedisServerFacts } from './probe-redis.ts';

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
