/** From simulated rates to cores, bytes, connections and nodes, by what single steps cost (`measured.ts`). */
import { assumed, measured } from './measured.ts';
import type { Outcome } from './run.ts';
import { groupSize, type Shape } from './shape.ts';
import { quantile, type Call, type Server } from './tally.ts';
import type { Kind } from './traffic.ts';

/** A part of the deployment, and how much of what it can do is used: above `assumed.load` it is too small. */
export interface Load {
  readonly part:
    'gateway processes' | 'busiest Redis server' | 'wire of a Redis server' | 'full nodes' | 'archival nodes';
  readonly used: number;
}

export interface Capacity {
  /** Of requests that are for the cache at all, by who answered. */
  readonly shares: Readonly<Record<Server, number>>;
  /** A second, of the whole deployment. */
  readonly calls: Readonly<Record<Call | 'all', number>>;
  /** Busy cores of all gateways, hits on the socket (`listen.fastPath`) and by way of the server. */
  readonly cores: { readonly front: number; readonly server: number };
  readonly newsCores: number;
  readonly redis: RedisLoad | undefined;
  /** MB of one process, once its memory tier is full. */
  readonly processMb: number;
  /** How long an answer stays in memory, in seconds. */
  readonly residenceSeconds: number;
  readonly connections: number;
  /** Bytes a second to clients and CDN. */
  readonly sentBytes: number;
  readonly staleness: Staleness;
  /** How many have to be there, in all regions together, for what they are asked. */
  readonly nodes: { readonly full: number; readonly archival: number };
  /** The fullest first. */
  readonly loads: readonly Load[];
}

/** Of one Redis and its busiest server; a second. */
export interface RedisLoad {
  readonly commands: number;
  readonly busiestCommands: number;
  readonly busiestBytes: number;
  readonly storedBytes: number;
  /** Messages that are told, and that each replica hears. */
  readonly told: number;
  /** Of a server, all of which take part in telling. */
  readonly core: number;
}

/** Of reads of "latest", in milliseconds. */
export interface Staleness {
  readonly ageP50: number;
  readonly ageP99: number;
  readonly overtakenP50: number;
  readonly overtakenP99: number;
  readonly waitingShare: number;
}

/** Answered without a look into the cache. */
const uncached: ReadonlySet<Kind> = new Set(['passed', 'pending', 'submit', 'encode']);

export function capacityOf(outcome: Outcome): Capacity {
  const { shape, tally, scale, seconds } = outcome;
  const perSecond = scale / seconds;
  const calls = callsOf(outcome, perSecond);
  const redis = shape.redis && redisLoadOf(outcome);
  const newsCores = redis === undefined ? 0 : (shape.replicas * redis.told * measured.newsHeard.value) / 1e6;
  const cores = {
    front: coresOf(outcome, perSecond, measured.frontHit.value) + newsCores,
    server: coresOf(outcome, perSecond, measured.hit.value) + newsCores,
  };
  const requests = servedOf(tally.served) - (tally.served.get('cdn') ?? 0);
  const connections = requests * perSecond * assumed.connectionsPerRequest;
  const [memory] = outcome.memory;
  // Memory fills evenly from the beginning, warm-up included.
  const bytesPerSecond = (memory?.bytes ?? 0) / (seconds * 1.5);
  const filling =
    memory !== undefined && memory.evicted > 0
      ? (seconds * 1.5 * memory.entries) / (memory.entries + memory.evicted)
      : undefined;
  return {
    shares: sharesOf(outcome),
    calls,
    cores,
    newsCores,
    redis,
    processMb:
      measured.process.value + shape.memoryBytes / 1e6 + (connections / shape.replicas) * measured.connection.value,
    residenceSeconds: filling ?? shape.memoryBytes / bytesPerSecond,
    connections,
    sentBytes: (tally.sentBytes + requests * measured.headBytes.value) * perSecond,
    staleness: stalenessOf(outcome),
    nodes: {
      full: Math.ceil((calls.all - calls.archival) / (assumed.fullReads * assumed.load)),
      archival: Math.ceil(calls.archival / (assumed.archivalReads * assumed.load)),
    },
    loads: loadsOf(shape, cores.front, calls, redis),
  };
}

function sharesOf({ tally }: Outcome): Record<Server, number> {
  const shares: Record<Server, number> = { cdn: 0, memory: 0, flight: 0, redis: 0, followed: 0, upstream: 0, local: 0 };
  let all = 0;
  for (const [kind, byServer] of tally.kinds) {
    if (uncached.has(kind)) continue;
    for (const [server, times] of byServer) {
      shares[server] += times;
      all += times;
    }
  }
  for (const server of Object.keys(shares) as Server[]) shares[server] /= Math.max(1, all);
  return shares;
}

function callsOf({ tally }: Outcome, perSecond: number): Record<Call | 'all', number> {
  const of = (call: Call): number => (tally.calls.get(call) ?? 0) * perSecond;
  const calls = {
    full: of('full'),
    archival: of('archival'),
    look: of('look'),
    module: of('module'),
    submit: of('submit'),
  };
  return { ...calls, all: Object.values(calls).reduce((sum, rate) => sum + rate, 0) };
}

function coresOf({ tally, shape }: Outcome, perSecond: number, hitUs: number): number {
  const { miss, share, redisHit, passed, encode } = measured;
  const costOf: Readonly<Record<Server, number>> = {
    cdn: 0,
    memory: hitUs,
    flight: hitUs,
    redis: redisHit.value,
    followed: redisHit.value,
    upstream: miss.value + (shape.redis === undefined ? 0 : share.value),
    local: encode.value,
  };
  let us = (tally.calls.get('look') ?? 0) * passed.value + (tally.calls.get('module') ?? 0) * passed.value;
  for (const [kind, byServer] of tally.kinds) {
    for (const [server, times] of byServer) {
      us += times * (uncached.has(kind) && server === 'upstream' ? passed.value : costOf[server]);
    }
  }
  return (us * perSecond) / 1e6;
}

function redisLoadOf({ tally, shape, seconds, sample }: Outcome): RedisLoad {
  const group = groupSize(shape);
  const perSecond = group / sample / seconds;
  const shards = shape.redis?.shards ?? 1;
  const shown = tally.told / sample / seconds;
  const told = shape.news === 'each tells' ? shown * group : shown;
  const busiest = Math.max(...tally.shardCommands) * perSecond;
  const delivery = (group / shards) * measured.redisDelivery.value;
  const us = busiest * measured.redisCommand.value + told * (measured.redisPublish.value + delivery);
  // The highest version is kept beside it, on one server.
  const kept = told * measured.redisCommand.value;
  return {
    commands: tally.shardCommands.reduce((sum, count) => sum + count, 0) * perSecond + 2 * told,
    busiestCommands: busiest,
    busiestBytes: Math.max(...tally.shardBytes) * perSecond + told * (group / shards) * 80,
    storedBytes: tally.storedBytes * perSecond,
    told,
    core: (us + kept) / 1e6,
  };
}

function stalenessOf({ tally }: Outcome): Staleness {
  const waiting = tally.waitedMs.filter((ms) => ms > 0).length;
  return {
    ageP50: quantile(tally.snapshotAgeMs, 0.5),
    ageP99: quantile(tally.snapshotAgeMs, 0.99),
    overtakenP50: quantile(tally.overtakenMs, 0.5),
    overtakenP99: quantile(tally.overtakenMs, 0.99),
    waitingShare: waiting / Math.max(1, tally.waitedMs.length),
  };
}

function loadsOf(
  { replicas, regions, nodes }: Shape,
  cores: number,
  calls: Readonly<Record<Call | 'all', number>>,
  redis: RedisLoad | undefined,
): readonly Load[] {
  const full = calls.all - calls.archival;
  const loads: Load[] = [
    { part: 'gateway processes', used: cores / replicas },
    { part: 'full nodes', used: full / (nodes.full * regions * assumed.fullReads) },
    { part: 'archival nodes', used: calls.archival / (nodes.archival * regions * assumed.archivalReads) },
  ];
  if (redis !== undefined) {
    loads.push({ part: 'busiest Redis server', used: redis.core });
    loads.push({ part: 'wire of a Redis server', used: redis.busiestBytes / assumed.wire });
  }
  return loads.sort((a, b) => b.used - a.used);
}

function servedOf(counts: ReadonlyMap<Server, number>): number {
  return [...counts.values()].reduce((sum, times) => sum + times, 0);
}
