/**
 * Gives requests their place at a node: at the best that has one free, or, when all that are as good are full, in turn
 * when one has. What other requests are waiting for is never overtaken.
 */
import type { StopSignal } from '../ledger/stop.ts';
import { FairQueue, type Refusal } from './fair-queue.ts';
import type { Known } from './useful.ts';
import type { Upstream } from './upstream.ts';

/** A place at a node, to be given back once. */
export interface Place {
  readonly upstream: Upstream;
  readonly leave: () => void;
}

export interface Waiting {
  /** Whose turn it is: requests of one client wait for one another first. */
  readonly client: string;
  readonly signal: StopSignal;
  readonly withinMs: number;
  /** The answer is handed on as it comes, which has places of its own. */
  readonly isStreamed: boolean;
}

/** No more wait than can be served within this time, as places have become free lately. */
const usualWaitMs = 500;
/** Longer than this nobody waits, whatever was expected: a client is better told to come again. */
const longestWaitMs = 2_000;
/** So many may always wait, and never more. */
const bounds = { fewest: 64, most: 1_000 };

export class Admission {
  readonly #queue = new FairQueue<Upstream>({ usualWaitMs, ...bounds });
  readonly #onWaited: (seconds: number) => void;

  /** `onWaited`: a request has waited so long for a place, in vain or not. */
  constructor(onWaited: (seconds: number) => void = () => undefined) {
    this.#onWaited = onWaited;
  }

  /** Requests that wait for a place now. */
  get waiting(): number {
    return this.#queue.waiting;
  }

  /** A place at one of `nodes`, best first and all as good for the request; or why there is none. */
  async enter(nodes: readonly Known[], waiting: Waiting): Promise<Place | Refusal> {
    const free = this.enterFree(nodes, waiting.isStreamed);
    if (free !== undefined) return free;
    const upstreams = new Set(nodes.map(({ upstream }) => upstream));
    const { client, signal, isStreamed } = waiting;
    // What accepts a place is given it: it is taken at once, so that the next who waits finds it gone.
    const accepts = (upstream: Upstream): boolean => {
      if (!upstreams.has(upstream) || !hasPlace(upstream, nodes[0], isStreamed)) return false;
      if (isStreamed && !upstream.streams.keepFree()) return false;
      upstream.places.enter();
      return true;
    };
    const withinMs = Math.max(0, Math.min(waiting.withinMs, longestWaitMs));
    const nowMs = performance.now();
    const waited = await this.#queue.wait(client, accepts, { signal, withinMs, nowMs });
    // Those that may not even wait are told so at once.
    if (!('refused' in waited) || waited.refused === 'late') this.#onWaited((performance.now() - nowMs) / 1000);
    return 'place' in waited ? this.#placeAt(waited.place) : waited.refused;
  }

  /** A place at one of `nodes` that is free now. */
  enterFree(nodes: readonly Known[], isStreamed: boolean): Place | undefined {
    const node = nodes.find(({ upstream }) => hasPlace(upstream, nodes[0], isStreamed));
    return node === undefined ? undefined : this.enterAnyway(node.upstream);
  }

  /** A place at `upstream`, even where none is free: for what no client waits for, of which there is little. */
  enterAnyway(upstream: Upstream): Place {
    upstream.places.enter();
    return this.#placeAt(upstream);
  }

  #placeAt(upstream: Upstream): Place {
    let isHeld = true;
    return {
      upstream,
      leave: () => {
        if (!isHeld) return;
        isHeld = false;
        upstream.places.leave();
        this.#queue.noteFreed(performance.now());
        this.offer(upstream);
      },
    };
  }

  /** To be called when something at a node has become free. */
  offer(upstream: Upstream): void {
    while (this.#queue.waiting > 0 && !upstream.places.isFull && this.#queue.offer(upstream));
  }
}

/** A node of another tier than the best keeps half of its places for what only it can answer. */
function hasPlace(upstream: Upstream, best: Known | undefined, isStreamed: boolean): boolean {
  if (isStreamed && (upstream.streams.isFull || !upstream.mayBeHeld)) return false;
  return upstream.tier === best?.upstream.tier ? !upstream.places.isFull : upstream.places.isHalfFree;
}
