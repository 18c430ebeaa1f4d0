/**
 * Runs a shape: one of its replicas, or a few, are simulated request by request; the reads of all others, as far as they
 * reach the shared Redis, follow from the traffic (`others.ts`).
 */
import { LatestBlock } from './latest.ts';
import { SimulatedLedger } from './ledger.ts';
import { Others } from './others.ts';
import { randomOf } from './random.ts';
import { Replica } from './replica.ts';
import { groupSize, type Shape } from './shape.ts';
import { SharedRedis } from './shared-redis.ts';
import { TrafficSource, type Kind } from './traffic.ts';

export interface RunOptions {
  readonly seed: number;
  /** Requests of the simulated replicas; the first third warms up and is not counted. */
  readonly requests: number;
  /** Simulated replicas. Default 1. */
  readonly sample?: number;
}

/** `flight`: joined a read of the same replica. `followed`: waited for another replica's read. */
export type Server = 'memory' | 'flight' | 'redis' | 'followed' | 'upstream' | 'local';

/** Calls of nodes. */
export type Call = 'full' | 'archival' | 'look' | 'submit';

/** Counts of the measured part. */
export class Tally {
  readonly #fromMs: number;
  readonly kinds = new Map<Kind, Map<Server, number>>();
  readonly calls = new Map<Call, number>();
  /** Commands and bytes of each server of the Redis. */
  readonly shardCommands: number[];
  readonly shardBytes: number[];
  /** Bytes that are added to Redis. */
  storedBytes = 0;
  /** Bodies that are sent to clients. */
  sentBytes = 0;

  constructor(fromMs: number, shards = 1) {
    this.#fromMs = fromMs;
    this.shardCommands = Array.from({ length: shards }, () => 0);
    this.shardBytes = Array.from({ length: shards }, () => 0);
  }

  counts(atMs: number): boolean {
    return atMs >= this.#fromMs;
  }

  serve(atMs: number, kind: Kind, server: Server): void {
    if (!this.counts(atMs)) return;
    let byServer = this.kinds.get(kind);
    if (byServer === undefined) this.kinds.set(kind, (byServer = new Map()));
    add(byServer, server);
  }

  call(atMs: number, call: Call): void {
    if (this.counts(atMs)) add(this.calls, call);
  }

  command(atMs: number, shard: number, bytes: number): void {
    if (!this.counts(atMs)) return;
    this.shardCommands[shard] = (this.shardCommands[shard] ?? 0) + 1;
    this.shardBytes[shard] = (this.shardBytes[shard] ?? 0) + bytes;
  }
}

export interface Outcome {
  readonly shape: Shape;
  readonly tally: Tally;
  /** Simulated replicas, and seconds of the measured part. */
  readonly sample: number;
  readonly seconds: number;
}

const warmUpShare = 1 / 3;

export function simulate(shape: Shape, { seed, requests, sample = 1 }: RunOptions): Outcome {
  const endMs = (requests * 1000 * shape.replicas) / (shape.traffic.rate * sample);
  const tally = new Tally(endMs * warmUpShare, shape.redis?.shards);
  const replicas = replicasOf(shape, sample, { seed, tally });
  const balancer = randomOf(seed, 2);
  const source = new TrafficSource(shape, new SimulatedLedger(shape.ledger));
  for (const arrival of source.stream(shape.replicas / sample, randomOf(seed, 100))) {
    if (arrival.atMs > endMs) break;
    replicas[Math.floor(balancer() * sample)]?.serve(arrival);
  }
  return { shape, tally, sample, seconds: (endMs * (1 - warmUpShare)) / 1000 };
}

/** `count` simulated replicas and the Redis that they share with those that are not. */
export function replicasOf(
  shape: Shape,
  count: number,
  { seed, tally }: { readonly seed: number; readonly tally: Tally },
): readonly Replica[] {
  const ledger = new SimulatedLedger(shape.ledger);
  const latest = new LatestBlock(shape, ledger, randomOf(seed, 3));
  const others = new Others(shape, new TrafficSource(shape, ledger), {
    share: Math.max(0, groupSize(shape) - count) / shape.replicas,
    latestMs: (block, atMs) => latest.shownMs(block, atMs),
  });
  const redis = shape.redis && new SharedRedis(shape.redis, { others, tally, readMs: shape.nodes.readMs });
  return Array.from(
    { length: count },
    (_, index) => new Replica({ shape, ledger, latest, tally, redis, random: randomOf(seed, 1_000 + index) }),
  );
}

export function add<Name>(counts: Map<Name, number>, name: Name): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
