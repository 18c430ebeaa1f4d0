/**
 * Runs a shape: some of its replicas are simulated request by request, side by side, together with what they share;
 * what all others read of that is known from the traffic (`others.ts`). Rates of the simulated ones stand for all.
 */
import { Cdn, mayCdnKeep } from './cdn.ts';
import { SimulatedFleet } from './fleet.ts';
import { SimulatedLedger } from './ledger.ts';
import { GroupNews, shownAloneMs } from './news.ts';
import { Others } from './others.ts';
import { randomOf, type Random } from './random.ts';
import { Replica } from './replica.ts';
import { groupSize, type Shape } from './shape.ts';
import { SharedRedis } from './shared-redis.ts';
import { Snapshots } from './snapshots.ts';
import { Tally } from './tally.ts';
import { TrafficSource, type Arrival } from './traffic.ts';

export interface RunOptions {
  readonly seed: number;
  /** Replicas that are simulated; never more than share a Redis. */
  readonly sample: number;
  /** How many requests come to them altogether; the first third warms up and is not counted. */
  readonly requests: number;
}

export interface Outcome {
  readonly shape: Shape;
  readonly tally: Tally;
  /** Simulated replicas, and seconds of the measured part. */
  readonly sample: number;
  readonly seconds: number;
  /** All replicas to those that were simulated. */
  readonly scale: number;
  /** Of each simulated replica, at the end. */
  readonly memory: readonly { readonly entries: number; readonly bytes: number; readonly evicted: number }[];
}

const warmUpShare = 1 / 3;
/** Salts of `Others`. */
const inRedis = 11;
const inCdn = 12;

export function simulate(shape: Shape, options: RunOptions): Outcome {
  const sample = Math.min(options.sample, groupSize(shape));
  const perMs = (shape.traffic.rate * sample) / shape.replicas / 1000;
  const endMs = options.requests / perMs;
  const tally = new Tally(endMs * warmUpShare, shape.redis?.shards ?? 1);
  const world = new World(shape, { ...options, sample }, tally);
  world.run(endMs);
  return {
    shape,
    tally,
    sample,
    seconds: (endMs * (1 - warmUpShare)) / 1000,
    scale: shape.replicas / sample,
    memory: world.replicas.map(({ memory: { fill }, evicted }) => {
      return { entries: fill.entries, bytes: fill.bytes, evicted };
    }),
  };
}

/** The simulated replicas and all that they share. */
export class World {
  readonly replicas: readonly Replica[];
  readonly #shape: Shape;
  readonly #tally: Tally;
  readonly #source: TrafficSource;
  readonly #ledger: SimulatedLedger;
  readonly #cdn: Cdn | undefined;
  readonly #luck: Random;
  readonly #seed: number;

  constructor(shape: Shape, { seed, sample }: RunOptions, tally: Tally) {
    this.#shape = shape;
    this.#tally = tally;
    this.#seed = seed;
    this.#ledger = new SimulatedLedger(shape.ledger);
    this.#source = new TrafficSource(shape, this.#ledger);
    this.#luck = randomOf(seed, 1);
    const fleetOf = (stream: number) => new SimulatedFleet(shape, this.#ledger, randomOf(seed, stream));
    const heard = this.#newsOf(fleetOf(2), sample);
    const redis = this.#redisOf(sample, heard.shownMs);
    const { replicas, cdn } = shape;
    const share = 1 - sample / replicas;
    const beforeCdn = new Others(shape, this.#source, {
      share: cdn === undefined ? 0 : share / cdn.places,
      salt: inCdn,
      historyMs: cdn?.historyMs ?? 0,
    });
    this.#cdn = cdn && new Cdn(cdn.places, beforeCdn);
    this.replicas = Array.from({ length: sample }, (_, index) => {
      const fleet = fleetOf(1_000 + index);
      const snapshots = new Snapshots({
        fleet,
        maxStalenessMs: shape.maxStalenessMs,
        heard: heard.at,
        onLook: (atMs, calls) => tally.call(atMs, 'look', calls),
        onShown: (atMs, block) => heard.tell(atMs, block),
      });
      return new Replica({ shape, ledger: this.#ledger, fleet, snapshots, tally, shared: redis });
    });
  }

  run(endMs: number): void {
    const streams = this.replicas.map((replica, index) => {
      const stream = this.#source.stream(this.#shape.replicas, randomOf(this.#seed, 100 + index));
      return { replica, stream, next: stream.next().value };
    });
    for (;;) {
      const [first, ...others] = streams;
      if (first === undefined) return;
      const soonest = others.reduce((found, other) => (other.next.atMs < found.next.atMs ? other : found), first);
      if (soonest.next.atMs > endMs) break;
      this.#serve(soonest.replica, soonest.next);
      soonest.next = soonest.stream.next().value;
    }
    for (const { replica } of streams) replica.finish();
  }

  #serve(replica: Replica, arrival: Arrival): void {
    if (this.#cdn !== undefined && mayCdnKeep(arrival) && arrival.subject !== undefined) {
      const { subject, block, atMs, kind } = arrival;
      const name = `${subject.wire} ${block}`;
      const read = { kind: kind === 'deep' ? 'deep' : 'state', subject, block, name } as const;
      if (this.#cdn.find(read, atMs, this.#luck())) {
        this.#tally.serve(atMs, kind, 'cdn');
        return;
      }
    }
    replica.serve(arrival);
  }

  /** What replicas hear of each other: from those that are simulated when they are all, else from the group's course. */
  #newsOf(fleet: SimulatedFleet, sample: number): News {
    const { redis } = this.#shape;
    const tell = (atMs: number): void => {
      if (this.#tally.counts(atMs)) this.#tally.told += 1;
    };
    const { news } = this.#shape;
    if (redis === undefined || news === 'none') {
      const alone = (block: number, atMs: number): number => shownAloneMs(this.#shape, atMs - fleet.visibleMs(block));
      return { at: () => -1, tell: () => undefined, shownMs: redis === undefined ? () => 0 : alone };
    }
    if (sample < groupSize(this.#shape)) {
      const group = new GroupNews(this.#shape, this.#ledger, fleet, randomOf(this.#seed, 3));
      return { at: (atMs) => group.heard(atMs), tell, shownMs: (block, atMs) => group.shownMs(block, atMs) };
    }
    let newest = -1;
    return {
      at: () => newest,
      tell: (atMs, block) => {
        tell(atMs);
        newest = Math.max(newest, block);
      },
      shownMs: () => 0,
    };
  }

  #redisOf(sample: number, latestMs: News['shownMs']) {
    const { redis: shape, regions, nodes } = this.#shape;
    if (shape === undefined) return undefined;
    const share = (groupSize(this.#shape) - sample) / this.#shape.replicas;
    const others = new Others(this.#shape, this.#source, {
      share,
      salt: inRedis,
      historyMs: shape.historyMs,
      latestMs,
    });
    const isFar = shape.scope === 'global' && regions > 1;
    const redis = new SharedRedis({ shape, others, tally: this.#tally, loadMs: nodes.readMs + 2 * shape.nearMs });
    return { redis, rttMs: isFar ? shape.farMs : shape.nearMs };
  }
}

interface News {
  /** The newest block that was heard of by then. */
  readonly at: (atMs: number) => number;
  readonly tell: (atMs: number, block: number) => void;
  readonly shownMs: (block: number, atMs: number) => number;
}
