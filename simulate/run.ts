/**
 * Runs a shape: one of its replicas, or a few, are simulated request by request; the reads of all others, as far as they
 * reach the shared Redis, follow from the traffic (`others.ts`).
 */
import { Lane, Latest } from './latest.ts';
import { SimulatedLedger } from './ledger.ts';
import { Others } from './others.ts';
import { randomOf } from './random.ts';
import { Replica } from './replica.ts';
import { boundOf, boundsOf, groupSize, type Shape } from './shape.ts';
import { SharedRedis } from './shared-redis.ts';
import { Tally } from './tally.ts';
import { TrafficSource } from './traffic.ts';

export interface RunOptions {
  readonly seed: number;
  /** Requests of the simulated replicas; the first third warms up and is not counted. */
  readonly requests: number;
  /** Simulated replicas. Default 1. */
  readonly sample?: number;
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
  const source = new TrafficSource(shape, new SimulatedLedger(shape.ledger));
  for (const arrival of source.stream(shape.replicas / sample, randomOf(seed, 100))) {
    if (arrival.atMs > endMs) break;
    replicas[(arrival.sender?.connection ?? 0) % sample]?.serve(arrival);
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
  const lanes = boundsOf(shape).map(
    (boundMs, index) => new Lane(shape, ledger, { boundMs, simulated: count, random: randomOf(seed, 3 + index) }),
  );
  const others = new Others(shape, new TrafficSource(shape, ledger), {
    share: Math.max(0, groupSize(shape) - count) / shape.replicas,
    latestMs: (subject, block, atMs) =>
      lanes
        .find(({ boundMs }) => boundMs === boundOf(shape, subject.shape.route, subject.text))
        ?.shownMs(block, atMs) ?? 0,
  });
  const redis = shape.redis && new SharedRedis(shape.redis, { others, tally, readMs: shape.nodes.readMs });
  const shared = new Map<number, number>();
  return Array.from({ length: count }, (_, index) => {
    const random = randomOf(seed, 1_000 + index);
    const floors = redis === undefined ? new Map<number, number>() : shared;
    const latest = new Latest({ shape, ledger, tally, random, lanes, floors });
    return new Replica({ shape, ledger, latest, tally, redis, random });
  });
}
