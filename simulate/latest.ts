/**
 * The block that reads of "latest" are answered from, in simulated time. A group of replicas that share a Redis moves to
 * a newer block together: at the first timer (98 % of `latest.maxStaleness`), or when a client reads after a commit of
 * its own. A model of `src/upstream/latest.ts` and the news between replicas, which read the clock.
 */
import { exponential, type Random } from './random.ts';
import type { SimulatedLedger } from './ledger.ts';
import { groupSize, type Shape } from './shape.ts';
import { submitShare } from './shapes.ts';

/** The share of `latest.maxStaleness` after which a snapshot is renewed (`src/upstream/latest.ts`). */
const renewAt = 0.98;

interface Opening {
  readonly atMs: number;
  readonly block: number;
}

export class LatestBlock {
  readonly #shape: Shape;
  readonly #ledger: SimulatedLedger;
  readonly #random: Random;
  /** Reads a millisecond that need the newest state there is. */
  readonly #reveals: number;
  readonly #openings: Opening[];

  constructor(shape: Shape, ledger: SimulatedLedger, random: Random) {
    this.#shape = shape;
    this.#ledger = ledger;
    this.#random = random;
    const { rate, requests } = shape.traffic;
    this.#reveals = (rate * submitShare(requests) * groupSize(shape)) / shape.replicas / 1000;
    this.#openings = [{ atMs: -1, block: ledger.blockAt(-1 - shape.nodes.lagMs) }];
  }

  /** The block that the group answers from. */
  at(atMs: number): number {
    return this.#last(atMs).block;
  }

  /** How long the group has answered from a block until `atMs`, or did, in milliseconds. */
  shownMs(block: number, atMs: number): number {
    this.#last(atMs);
    const index = this.#openings.findIndex((opening) => opening.block === block);
    const found = this.#openings[index];
    if (found === undefined || found.atMs > atMs) return 0;
    return Math.min(atMs, this.#openings[index + 1]?.atMs ?? atMs) - found.atMs;
  }

  #last(atMs: number): Opening {
    let last = this.#openings.at(-1) as Opening;
    for (; last.atMs <= atMs; last = this.#openings.at(-1) as Opening) this.#openings.push(this.#after(last));
    while (this.#openings.length > 64) this.#openings.shift();
    return this.#openings.findLast((opening) => opening.atMs <= atMs) ?? (this.#openings[0] as Opening);
  }

  #after({ atMs, block }: Opening): Opening {
    const { maxStalenessMs, nodes } = this.#shape;
    const periodMs = maxStalenessMs * renewAt + nodes.lookMs;
    const visibleMs = Math.max(atMs, this.#ledger.committedMs(block + 1) + nodes.lagMs) + nodes.lookMs;
    // A timer that finds no newer block opens none.
    const timers = Math.max(1, Math.ceil((visibleMs - atMs) / periodMs));
    const nextMs = this.#revealedMs(visibleMs, atMs + timers * periodMs);
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
}
