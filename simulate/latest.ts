/**
 * The block that reads of "latest" are answered from, in simulated time: a model of `src/upstream/latest.ts` and of the
 * news between replicas, which read the clock.
 */
import type { Sender } from './clients.ts';
import { exponential, type Random } from './random.ts';
import type { SimulatedLedger } from './ledger.ts';
import { groupSize, type Shape } from './shape.ts';
import { latestShare, submitShare } from './shapes.ts';
import type { Tally } from './tally.ts';

/** The share of its bound after which a shared state is renewed (`src/upstream/latest.ts`). */
const renewAt = 0.98;
/** From a newer version to its publication (`src/cache/redis/news.ts`). */
const publishDelayMs = 2;

export interface Opening {
  readonly atMs: number;
  readonly block: number;
}

/**
 * The shared state of one bound. A group of replicas that share a Redis moves to a newer block together: at the first
 * timer, when everybody is bound by a client's floor, or when a replica looks because of another one's news.
 */
export class Lane {
  readonly boundMs: number;
  readonly #shape: Shape;
  readonly #ledger: SimulatedLedger;
  readonly #random: Random;
  /** Reads a millisecond of the replicas that are not simulated, after a commit of their client. */
  readonly #reveals: number;
  readonly #openings: Opening[];

  constructor(
    shape: Shape,
    ledger: SimulatedLedger,
    { boundMs, simulated, random }: { readonly boundMs: number; readonly simulated: number; readonly random: Random },
  ) {
    this.boundMs = boundMs;
    this.#shape = shape;
    this.#ledger = ledger;
    this.#random = random;
    const { rate, requests } = shape.traffic;
    const others = shape.floor === 'client' ? 0 : Math.max(0, groupSize(shape) - simulated);
    this.#reveals = (rate * submitShare(requests) * others) / shape.replicas / 1000;
    this.#openings = [{ atMs: -1, block: ledger.blockAt(-1 - shape.nodes.lagMs) }];
  }

  /** The state that the group answers from. */
  at(atMs: number): Opening {
    let last = this.#openings.at(-1) as Opening;
    for (; last.atMs <= atMs; last = this.#openings.at(-1) as Opening) this.#openings.push(this.#after(last));
    while (this.#openings.length > 64) this.#openings.shift();
    return this.#openings.findLast((opening) => opening.atMs <= atMs) ?? (this.#openings[0] as Opening);
  }

  /** Everybody moves to this block now, because a client has to. */
  open(atMs: number, block: number): void {
    this.at(atMs);
    while ((this.#openings.at(-1) as Opening).atMs > atMs) this.#openings.pop();
    this.#openings.push({ atMs, block });
  }

  /** How long the group has answered from a block until `atMs`, or did, in milliseconds. */
  shownMs(block: number, atMs: number): number {
    this.at(atMs);
    const index = this.#openings.findIndex((opening) => opening.block === block);
    const found = this.#openings[index];
    if (found === undefined || found.atMs > atMs) return 0;
    return Math.min(atMs, this.#openings[index + 1]?.atMs ?? atMs) - found.atMs;
  }

  #after({ atMs, block }: Opening): Opening {
    const { nodes } = this.#shape;
    const periodMs = this.boundMs * renewAt + nodes.lookMs;
    const visibleMs = Math.max(atMs, this.#ledger.committedMs(block + 1) + nodes.lagMs) + nodes.lookMs;
    // A timer that finds no newer block opens none.
    const timers = Math.max(1, Math.ceil((visibleMs - atMs) / periodMs));
    const nextMs = this.#revealedMs(visibleMs, this.#newsMs(atMs, visibleMs, atMs + timers * periodMs));
    return { atMs: nextMs, block: Math.max(block + 1, this.#ledger.blockAt(nextMs - nodes.lookMs / 2 - nodes.lagMs)) };
  }

  /** The first read after a commit in a block that the group does not answer from yet; at most `untilMs`. */
  #revealedMs(fromMs: number, untilMs: number): number {
    if (this.#reveals === 0) return untilMs;
    for (let atMs = fromMs; ;) {
      atMs += exponential(this.#random()) / this.#reveals;
      if (atMs >= untilMs) return untilMs;
      // Most have committed in an older block.
      if (this.#random() < 1 - Math.exp((fromMs - atMs) / this.#shape.traffic.commitSeenMs)) return atMs;
    }
  }

  /** The first look of a replica, because another one opened a block at `atMs`, that finds a newer one. */
  #newsMs(atMs: number, visibleMs: number, untilMs: number): number {
    const { redis, nodes, replicas, traffic } = this.#shape;
    if (redis === undefined || redis.news === 'state') return untilMs;
    const readsPerMs = (traffic.rate * latestShare(traffic.requests)) / replicas / 1000;
    let firstMs = untilMs;
    for (let other = 1; other < groupSize(this.#shape); other += 1) {
      const lookMs = atMs + publishDelayMs + redis.rttMs + exponential(this.#random()) / readsPerMs;
      if (lookMs + nodes.lookMs / 2 >= visibleMs - nodes.lookMs) firstMs = Math.min(firstMs, lookMs + nodes.lookMs);
    }
    return firstMs;
  }
}

/** A read of "latest": at most so old, and of this block at least. */
export interface Demand {
  readonly sender: Sender | undefined;
  readonly boundMs: number;
  readonly minBlock: number;
}

export interface LatestParts {
  readonly shape: Shape;
  readonly ledger: SimulatedLedger;
  readonly tally: Tally;
  readonly random: Random;
  /** The loosest bound first. */
  readonly lanes: readonly Lane[];
  /** The newest block that a client has shown or got; of all replicas where they share a Redis. */
  readonly floors: Map<number, number>;
}

/** One replica's choice of a state, for each client. */
export class Latest {
  readonly #parts: LatestParts;
  /** The newest block that a connection has got of those that every lane has passed: a newer one binds its client alone. */
  readonly #seen = new Map<number, number>();
  /** The newest shared block ahead of another lane that a client has got from this replica. */
  readonly #own = new Map<number, number>();
  /** The block of each lane that this replica answered from last. */
  readonly #shown = new Map<Lane, number>();
  /** The newest block that any client got. */
  #served = -1;
  /** The newest block that was looked up for a client's floor above the shared state. */
  #ahead = -1;

  constructor(parts: LatestParts) {
    this.#parts = parts;
  }

  /** The state that the read is answered from: a shared one, or one ahead of it. */
  choose(atMs: number, { sender, boundMs, minBlock }: Demand): Opening & { readonly isShared: boolean } {
    const { shape, floors, lanes } = this.#parts;
    this.recordShown(sender, minBlock);
    const all = shape.floor === 'gateway' ? this.#served : -1;
    const known = sender && [
      floors.get(sender.client),
      this.#own.get(sender.client),
      this.#seen.get(sender.connection),
    ];
    const floor = Math.max(minBlock, all, ...(known ?? []).map((block) => block ?? -1));
    const shared = this.#shared(atMs, boundMs, floor);
    const state = shared ?? this.#above(atMs, boundMs, floor);
    this.#served = Math.max(this.#served, state.block);
    if (sender !== undefined) {
      if (shared === undefined) raise(floors, sender.client, state.block);
      else if (lanes.some((lane) => lane.at(atMs).block < state.block)) raise(this.#own, sender.client, state.block);
      else raise(this.#seen, sender.connection, state.block);
    }
    return { ...state, isShared: shared !== undefined };
  }

  /** The client has shown a block, or got a transaction of it. */
  recordShown(sender: Sender | undefined, block: number): void {
    if (sender === undefined) return;
    raise(this.#parts.floors, sender.client, block);
  }

  /** The loosest lane within the bound that has reached the floor. */
  #shared(atMs: number, boundMs: number, floor: number): Opening | undefined {
    for (const lane of this.#parts.lanes) {
      if (lane.boundMs > boundMs) continue;
      const state = lane.at(atMs);
      if (state.block < floor) continue;
      this.#countLook(atMs, lane, state.block);
      return state;
    }
    return undefined;
  }

  #above(atMs: number, bound: number, floor: number): Opening {
    const { shape, ledger, tally, lanes } = this.#parts;
    const block = Math.max(floor, ledger.blockAt(atMs - shape.nodes.lagMs));
    const lane = lanes.find(({ boundMs }) => boundMs <= bound);
    if (shape.floor === 'gateway' && lane !== undefined) {
      lane.open(atMs, block);
      this.#countLook(atMs, lane, block);
      return { atMs, block };
    }
    if (this.#ahead < floor) {
      this.#ahead = block;
      tally.call(atMs, 'look');
    }
    return { atMs, block: this.#ahead };
  }

  /** A replica looks for each newer state, unless another one's news contain it. */
  #countLook(atMs: number, lane: Lane, block: number): void {
    const { shape, tally, random } = this.#parts;
    if (block <= (this.#shown.get(lane) ?? -1)) return;
    this.#shown.set(lane, block);
    const isAdopted = shape.redis?.news === 'state' && random() * groupSize(shape) >= 1;
    if (!isAdopted) tally.call(atMs, 'look');
  }
}

function raise(floors: Map<number, number>, of: number, block: number): void {
  if (block > (floors.get(of) ?? -1)) floors.set(of, block);
}
