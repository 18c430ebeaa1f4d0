/** Deployments of docs/scaling.md: the traffic of all clients together, and the processes, nodes and Redis it meets. */

import type { ClientsShape } from './clients.ts';
import { uniformOf } from './random.ts';
import { latestShare, requestShapes, type RequestShape, type Route } from './shapes.ts';

export interface Traffic extends ClientsShape {
  /** Requests a second, of all clients in all regions. */
  readonly rate: number;
  readonly requests: readonly RequestShape[];
  /** The most items of one kind. */
  readonly accounts: number;
  readonly accountSkew: number;
  /** Sizes of resources: bytes of the answer, and the share of reads. */
  readonly types: readonly { readonly bytes: number; readonly share: number }[];
  /** Mean age of a version that a client names, in milliseconds. */
  readonly headAgeMs: number;
  /** Links in the catalogue of deep reads, and how unevenly they are followed. */
  readonly links: number;
  readonly linkSkew: number;
  /** Mean time from a commit to a read of the transaction, or of the block. */
  readonly hashAgeMs: number;
  /** Mean time from a commit until its client has seen it, and reads on. */
  readonly commitSeenMs: number;
}

export interface LedgerShape {
  readonly blocksPerSecond: number;
  readonly versionsPerBlock: number;
  /** Writes of resources a second, spread as reads are: how often answers change. Infinity: with every version. */
  readonly writesPerSecond: number;
  readonly retentionMs: number;
}

export interface RedisShape {
  /** 1: a single server; more: a Cluster. */
  readonly shards: number;
  /** From a replica to Redis and back, in milliseconds. */
  readonly rttMs: number;
  /** For how long answers have been gathered when the run begins, at most. */
  readonly historyMs: number;
  /** News of a newer version: others look, when they are asked next; or of the state, which they answer from. */
  readonly news: 'version' | 'state';
}

export interface NodesShape {
  /** In each region. */
  readonly full: number;
  readonly archival: number;
  /** Time of a read, request and answer on the wire included; exponential beyond half of it. */
  readonly readMs: number;
  readonly lookMs: number;
  /** Full nodes are behind the ledger by this. */
  readonly lagMs: number;
}

/** Reads that are made ahead of their first client. */
export interface HotShape {
  /** Times that a read is asked for within one state, at least. */
  readonly times: number;
  /** Most reads ahead, for each newer state: the most frequent ones. */
  readonly most: number;
}

/** A follower's pages. */
export interface FollowShape {
  readonly everyMs: number;
  /** Transactions are answered from their page for so long after their commit. */
  readonly keptMs: number;
}

export interface Shape {
  readonly name: string;
  readonly traffic: Traffic;
  readonly ledger: LedgerShape;
  readonly nodes: NodesShape;
  /** Processes that serve, in all regions together; a worker counts as one. */
  readonly replicas: number;
  readonly regions: number;
  /** One for each region. */
  readonly redis?: RedisShape | undefined;
  /** `cache.memory.maxBytes` of each process. */
  readonly memoryBytes: number;
  /** `latest.maxStaleness`. */
  readonly maxStalenessMs: number;
  /** `latest.overrides`, in milliseconds: a bound of its own for a route, or for this part of its items. */
  readonly overrides?: Partial<Record<Route, { readonly boundMs: number; readonly ofItems: number }>> | undefined;
  /** `latest.floor`: whom the newest version binds that a client has shown or got. */
  readonly floor: 'client' | 'gateway';
  /** Hot reads are repeated at the next shared state ahead of their first client, as `src/proxy/reads/hot-reads.ts` does. */
  readonly hot?: HotShape;
  /** Each process reads the pages of new transactions, as `src/proxy/reads/follower/follower.ts` does with `follow.mode: always`. */
  readonly follow?: FollowShape;
}

/** The clients of `shapes.ts`: how unevenly they read, and how old what they read is. */
export const usualTraffic: Omit<Traffic, 'rate'> = {
  requests: requestShapes,
  accounts: 1_000_000,
  accountSkew: 1.1,
  types: [
    { bytes: 400, share: 0.75 },
    { bytes: 1_000, share: 0.17 },
    { bytes: 4_000, share: 0.075 },
    { bytes: 60_000, share: 0.005 },
  ],
  headAgeMs: 1_000,
  links: 200_000,
  linkSkew: 1,
  hashAgeMs: 5_000,
  commitSeenMs: 500,
  clientRate: 0.2,
  connectionRate: 0.2,
  pageRequests: 1,
};

const redis: RedisShape = { shards: 1, rttMs: 0.5, historyMs: 3_600_000, news: 'version' };

/** A deployment with everything at its usual value. */
export function shapeOf(name: string, rate: number, changes: Partial<Shape> = {}): Shape {
  return {
    name,
    traffic: { ...usualTraffic, rate },
    ledger: { blocksPerSecond: 25, versionsPerBlock: 20, writesPerSecond: 1_000, retentionMs: 2 * 3_600_000 },
    nodes: { full: 6, archival: 2, readMs: 8, lookMs: 2, lagMs: 30 },
    replicas: 1,
    regions: 1,
    memoryBytes: 256 * 1024 * 1024,
    maxStalenessMs: 200,
    floor: 'client',
    ...changes,
  };
}

const million = 1_000_000;
const wide = { replicas: 1_000, regions: 5 } as const;

/** Requests a second of which 1,000 read the newest state. */
const thousandLatest = Math.round(1_000 / latestShare(requestShapes));

export const shapes: readonly Shape[] = [
  shapeOf('one process, 1,000 latest reads/s', thousandLatest),
  shapeOf('one process', 10_000),
  shapeOf('10 processes, one Redis', 100_000, { replicas: 10, redis }),
  shapeOf('100 processes, Cluster of 12', million, { replicas: 100, redis: { ...redis, shards: 12 } }),
  shapeOf('1,000 processes, 5 regions', million, wide),
  shapeOf('5 regions, Cluster of 6 each', million, { ...wide, redis: { ...redis, shards: 6 } }),
  shapeOf('the same, 1 s of staleness', million, {
    ...wide,
    redis: { ...redis, shards: 6 },
    maxStalenessMs: 1_000,
  }),
];

/** Replicas that move to newer versions together: those of a region where they share a Redis, else each alone. */
export function groupSize({ replicas, regions, redis }: Shape): number {
  return redis === undefined ? 1 : replicas / regions;
}

/** Milliseconds between two blocks. */
export function blockMs({ blocksPerSecond }: LedgerShape): number {
  return 1000 / blocksPerSecond;
}

/** The bound of reads of an item's newest state. */
export function boundOf({ maxStalenessMs, overrides }: Shape, route: Route, item: string): number {
  const override = overrides?.[route];
  return override !== undefined && uniformOf(item, 7) < override.ofItems ? override.boundMs : maxStalenessMs;
}

/** All bounds, the loosest first. */
export function boundsOf({ maxStalenessMs, overrides = {} }: Shape): readonly number[] {
  const bounds = new Set([maxStalenessMs, ...Object.values(overrides).map(({ boundMs }) => boundMs)]);
  return [...bounds].sort((a, b) => b - a);
}
