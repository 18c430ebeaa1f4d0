/** From simulated rates to cores, bytes and nodes, by the measured cost of single steps (`measured.ts`). */
import { assumed, measured } from './measured.ts';
import type { Outcome } from './run.ts';
import type { Call, Server } from './tally.ts';
import { groupSize, type Shape } from './shape.ts';
import type { RequestShape, Route } from './shapes.ts';

/** A part of the deployment, and the share of its capacity in use: above `assumed.load` it is too small. */
export interface Load {
  readonly part: 'gateway processes' | 'busiest Redis server' | 'full nodes' | 'archival nodes';
  readonly used: number;
}

export interface Capacity {
  /** Shares of the reads that can be held, by server. */
  readonly shares: Readonly<Record<Server, number>>;
  /** Share of all requests that made no call of a node of their own. */
  readonly withoutNode: number;
  /** A second, of the whole deployment. */
  readonly calls: Readonly<Record<Call | 'all', number>>;
  /** Busy cores of all gateways. */
  readonly cores: number;
  readonly redis: RedisLoad | undefined;
  /** MB of one process with a full memory tier. */
  readonly processMb: number;
  /** Bytes a second to clients. */
  readonly sentBytes: number;
  /** Nodes that the calls need, in all regions together. */
  readonly nodes: { readonly full: number; readonly archival: number };
  /** The fullest first. */
  readonly loads: readonly Load[];
}

/** Load of one Redis and its busiest server, a second. */
export interface RedisLoad {
  readonly commands: number;
  readonly busiestCommands: number;
  readonly busiestBytes: number;
  readonly storedBytes: number;
  /** Versions that a replica publishes, and every replica receives. */
  readonly news: number;
  /** Busy share of the busiest server's core. */
  readonly core: number;
}

/** Never held: answered by a node or by the gateway itself. */
function isHeld({ subjects }: RequestShape): boolean {
  return subjects.kind !== 'passed' && subjects.kind !== 'submit' && subjects.kind !== 'local';
}

/** The routes of a deployment whose answers can be held. */
function heldRoutes({ traffic }: Shape): ReadonlySet<Route> {
  return new Set(traffic.requests.filter(isHeld).map(({ route }) => route));
}

export function capacityOf(outcome: Outcome): Capacity {
  const { shape, tally, sample, seconds } = outcome;
  const perSecond = shape.replicas / sample / seconds;
  const calls = callsOf(outcome, perSecond);
  const redis = shape.redis && redisLoadOf(outcome, calls.look / shape.replicas);
  const newsCores = (shape.replicas * (redis?.news ?? 0) * measured.newsReceived.value) / 1e6;
  const cores = (microsecondsOf(outcome) * perSecond) / 1e6 + newsCores;
  const requests = sum([...tally.routes.values()].map((byServer) => sum([...byServer.values()]))) * perSecond;
  const connections = requests / shape.traffic.connectionRate / shape.replicas;
  return {
    shares: sharesOf(outcome),
    withoutNode: withoutNodeOf(outcome),
    calls,
    cores,
    redis,
    processMb: measured.process.value + shape.memoryBytes / 1e6 + connections * measured.connection.value,
    sentBytes: tally.sentBytes * perSecond + requests * measured.headBytes.value,
    nodes: {
      full: Math.ceil((calls.all - calls.archival) / (assumed.fullReads * assumed.load)),
      archival: Math.ceil(calls.archival / (assumed.archivalReads * assumed.load)),
    },
    loads: loadsOf(shape, cores, calls, redis),
  };
}

/** Share of all requests that made no call of a node of their own. */
function withoutNodeOf({ tally }: Outcome): number {
  const servers = [...tally.routes.values()];
  const all = sum(servers.flatMap((byServer) => [...byServer.values()]));
  return 1 - sum(servers.map((byServer) => byServer.get('upstream') ?? 0)) / Math.max(1, all);
}

function sharesOf({ shape, tally }: Outcome): Record<Server, number> {
  const shares: Record<Server, number> = { memory: 0, flight: 0, redis: 0, followed: 0, upstream: 0, local: 0 };
  const held = heldRoutes(shape);
  for (const [route, byServer] of tally.routes) {
    if (!held.has(route)) continue;
    for (const [server, times] of byServer) shares[server] += times;
  }
  const all = Math.max(1, sum(Object.values(shares)));
  for (const server of Object.keys(shares) as Server[]) shares[server] /= all;
  return shares;
}

function callsOf({ tally }: Outcome, perSecond: number): Record<Call | 'all', number> {
  const of = (call: Call): number => (tally.calls.get(call) ?? 0) * perSecond;
  const calls = { full: of('full'), archival: of('archival'), look: of('look'), submit: of('submit') };
  return { ...calls, all: sum(Object.values(calls)) };
}

function microsecondsOf({ tally, shape }: Outcome): number {
  const { hit, miss, share, redisHit, passed } = measured;
  const costs: Readonly<Record<Server, number>> = {
    memory: hit.value,
    flight: hit.value,
    redis: redisHit.value,
    followed: redisHit.value,
    upstream: miss.value + (shape.redis === undefined ? 0 : share.value),
    local: hit.value,
  };
  let microseconds = (tally.calls.get('look') ?? 0) * passed.value;
  const held = heldRoutes(shape);
  for (const [route, byServer] of tally.routes) {
    for (const [server, times] of byServer)
      microseconds += times * (!held.has(route) && server === 'upstream' ? passed.value : costs[server]);
  }
  return microseconds;
}

/** `news`: versions that the group moves to a second; one replica publishes each, and every server delivers it. */
function redisLoadOf({ tally, shape, sample, seconds }: Outcome, news: number): RedisLoad {
  const group = groupSize(shape);
  const perSecond = group / sample / seconds;
  const busiestCommands = Math.max(...tally.shardCommands) * perSecond;
  const delivery = (group / tally.shardCommands.length) * measured.redisDelivery.value;
  const microseconds =
    (busiestCommands + news) * measured.redisCommand.value + news * (measured.redisPublish.value + delivery);
  return {
    commands: sum(tally.shardCommands) * perSecond,
    busiestCommands,
    busiestBytes: Math.max(...tally.shardBytes) * perSecond,
    storedBytes: tally.storedBytes * perSecond,
    news,
    core: microseconds / 1e6,
  };
}

function loadsOf(
  { replicas, regions, nodes }: Shape,
  cores: number,
  calls: Capacity['calls'],
  redis: RedisLoad | undefined,
): readonly Load[] {
  const loads: Load[] = [
    { part: 'gateway processes', used: cores / replicas },
    { part: 'full nodes', used: (calls.all - calls.archival) / (nodes.full * regions * assumed.fullReads) },
    { part: 'archival nodes', used: calls.archival / (nodes.archival * regions * assumed.archivalReads) },
  ];
  if (redis !== undefined) loads.push({ part: 'busiest Redis server', used: redis.core });
  return loads.sort((a, b) => b.used - a.used);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
