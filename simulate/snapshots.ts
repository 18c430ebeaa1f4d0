/**
 * The version that reads of "latest" are pinned to, in simulated time. A model of `src/upstream/latest.ts` and
 * `monotonic-floor.ts`, which read the clock: a snapshot serves while it is younger than the bound and not below the
 * floor. The next look is taken at 98 % of the bound while reads come. A read that needs a newer one shares a look.
 */
import { idleBounds, renewAt } from '../src/upstream/latest.ts';
import type { SimulatedFleet } from './fleet.ts';

export interface SnapshotParts {
  readonly fleet: SimulatedFleet;
  readonly maxStalenessMs: number;
  /** The newest block that other replicas have told of. */
  readonly heard: (atMs: number) => number;
  /** A node was asked so many times. */
  readonly onLook: (atMs: number, calls: number) => void;
  /** Clients are about to be shown a block that this replica has not shown before. */
  readonly onShown: (atMs: number, block: number) => void;
}

/** What a read of "latest" is given. */
export interface Reached {
  readonly block: number;
  /** The state was current at this moment or later. */
  readonly asOfMs: number;
  /** When the read can go on. */
  readonly readyMs: number;
}

interface Snapshot {
  readonly block: number;
  readonly asOfMs: number;
  readonly fromMs: number;
}

export class Snapshots {
  readonly #parts: SnapshotParts;
  #now: Snapshot | undefined;
  /** A look that is under way. */
  #next: Snapshot | undefined;
  #shown = -1;
  #timerMs = Infinity;
  #askedMs = -Infinity;

  constructor(parts: SnapshotParts) {
    this.#parts = parts;
  }

  /** `least`: a block that the client has seen. */
  reach(atMs: number, least = -1): Reached {
    const { maxStalenessMs, heard } = this.#parts;
    this.#runTimer(atMs);
    this.#askedMs = atMs;
    const floor = Math.max(least, this.#shown, heard(atMs));
    this.#settle(atMs);
    const isGood = ({ block, asOfMs }: Snapshot): boolean => block >= floor && atMs - asOfMs <= maxStalenessMs;
    const [now, next] = [this.#now, this.#next];
    if (now !== undefined && isGood(now)) return { ...now, readyMs: atMs };
    const awaited = next !== undefined && isGood(next) ? next : this.#look(next?.fromMs ?? atMs, floor);
    return { ...awaited, readyMs: awaited.fromMs };
  }

  #runTimer(untilMs: number): void {
    while (this.#timerMs <= untilMs) {
      const dueMs = this.#timerMs;
      this.#timerMs = Infinity;
      this.#settle(dueMs);
      if (dueMs - this.#askedMs > this.#parts.maxStalenessMs * idleBounds) return;
      if (this.#next === undefined) this.#look(dueMs, this.#shown);
    }
  }

  #settle(atMs: number): void {
    if (this.#next === undefined || this.#next.fromMs > atMs) return;
    this.#now = this.#next;
    this.#next = undefined;
  }

  #look(atMs: number, floor: number): Snapshot {
    const { fleet, maxStalenessMs, onLook, onShown } = this.#parts;
    const { block, endMs, calls } = fleet.look(atMs, floor);
    onLook(atMs, calls);
    // A look begun while another is under way follows it, and what that found has been shown by then.
    if (this.#next !== undefined) this.#settle(this.#next.fromMs);
    const next = { block, asOfMs: atMs, fromMs: endMs };
    this.#next = next;
    this.#timerMs = endMs + maxStalenessMs * renewAt;
    if (block > this.#shown) {
      this.#shown = block;
      onShown(endMs, block);
    }
    return next;
  }
}
