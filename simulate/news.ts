/**
 * When replicas that share a Redis come to show which block, all together. Who shows a newer version tells it, and
 * everybody else's snapshot is below the floor from then on (`src/upstream/monotonic-floor.ts`), so the group moves as one: at the
 * first replica's timer, or as soon as somebody asks for what they have just committed.
 */
import { tellMs } from '../src/cache/shared-state.ts';
import { renewAt } from '../src/upstream/latest.ts';
import { exponential, type Random } from './random.ts';
import type { SimulatedFleet } from './fleet.ts';
import type { SimulatedLedger } from './ledger.ts';
import { blockMs, groupSize, type Shape } from './shape.ts';

interface Opening {
  readonly atMs: number;
  readonly block: number;
}

export class GroupNews {
  readonly #shape: Shape;
  readonly #ledger: SimulatedLedger;
  readonly #fleet: SimulatedFleet;
  readonly #random: Random;
  readonly #delayMs: number;
  /** Reads a millisecond that need the newest state there is. */
  readonly #reveals: number;
  readonly #openings: Opening[] = [];

  constructor(shape: Shape, ledger: SimulatedLedger, fleet: SimulatedFleet, random: Random) {
    this.#shape = shape;
    this.#ledger = ledger;
    this.#fleet = fleet;
    this.#random = random;
    this.#delayMs = tellMs / 2 + (shape.redis?.nearMs ?? 0);
    const { rate, mix } = shape.traffic;
    this.#reveals = (rate * mix.submit * groupSize(shape)) / shape.replicas / 1000;
    this.#openings.push({ atMs: -1, block: ledger.blockAt(-1 - shape.nodes.lagMs) });
  }

  /** The newest block that a replica has heard of. */
  heard(atMs: number): number {
    return this.#last(atMs - this.#delayMs).block;
  }

  /** For how long the group has shown a block until `atMs`, or did, in milliseconds. */
  shownMs(block: number, atMs: number): number {
    const last = this.#last(atMs);
    if (last.block < block) return 0;
    const openings = this.#openings;
    const index = openings.findLastIndex((opening) => opening.block <= block);
    const found = openings[index];
    if (found?.block !== block) return 0;
    return Math.min(atMs, openings[index + 1]?.atMs ?? atMs) - found.atMs;
  }

  #last(atMs: number): Opening {
    let last = this.#openings.at(-1) as Opening;
    for (; last.atMs <= atMs; last = this.#openings.at(-1) as Opening) this.#openings.push(this.#after(last));
    while (this.#openings.length > 64) this.#openings.shift();
    return this.#openings.findLast((opening) => opening.atMs <= atMs) ?? (this.#openings[0] as Opening);
  }

  #after({ atMs, block }: Opening): Opening {
    const { maxStalenessMs, nodes } = this.#shape;
    let timerMs = atMs + maxStalenessMs * renewAt + nodes.lookMs;
    const visibleMs = Math.max(atMs, this.#fleet.visibleMs(block + 1)) + nodes.lookMs;
    // A timer that finds nothing new opens nothing.
    while (timerMs < visibleMs) timerMs += maxStalenessMs * renewAt + nodes.lookMs;
    const nextMs = this.#revealedMs(visibleMs, timerMs);
    const next = this.#ledger.blockAt(nextMs - nodes.lookMs / 2 - nodes.lagMs);
    return { atMs: nextMs, block: Math.max(block + 1, next) };
  }

  /** When somebody asks for what they have committed in a block that the group does not show; at most `untilMs`. */
  #revealedMs(fromMs: number, untilMs: number): number {
    if (this.#reveals === 0) return untilMs;
    for (let atMs = fromMs; ;) {
      atMs += exponential(this.#random()) / this.#reveals;
      if (atMs >= untilMs) return untilMs;
      // Most have committed in a block that is shown already.
      const isNewer = this.#random() < 1 - Math.exp((fromMs - atMs) / this.#shape.traffic.commitSeenMs);
      if (isNewer) return atMs;
    }
  }
}

/**
 * For how long a replica that looks by its own timer has shown a block on average, `sinceMs` after nodes had it: it
 * looks while the block is the newest with the chance of a block's time to the time between two looks.
 */
export function shownAloneMs({ ledger, maxStalenessMs, nodes }: Shape, sinceMs: number): number {
  const period = maxStalenessMs * renewAt + nodes.lookMs;
  const block = Math.min(blockMs(ledger), period);
  // Replicas come to show it in the first block's time, and leave it a period later in the same order.
  const arrived = (ms: number): number => (ms <= 0 ? 0 : ms < block ? ms ** 2 / 2 : block * (ms - block / 2)) / period;
  return arrived(sinceMs) - arrived(sinceMs - period);
}
