/**
 * Places at nodes. A request gets a place at the best node with a free one, or waits. Clients take turns, so a burst of
 * one client delays its own requests alone, and no more requests wait than nodes can serve soon.
 */
import { type CancelSignal, Spans } from '../../ledger/index.ts';
import { waitWithin } from '../deadline.ts';
import type { PlaceKind } from '../node/limits.ts';
import type { Upstream } from '../node/upstream.ts';
import type { Choice } from '../select/pick.ts';

/** The resources of `upstream` that one attempt holds, from before its request until `close`. */
export class Permit {
  readonly upstream: Upstream;
  readonly kind: PlaceKind;
  readonly #queue: PlaceQueue;
  #isTrial: boolean;
  #hasPlace: boolean;
  #isOpen = true;

  constructor(queue: PlaceQueue, upstream: Upstream, kind: PlaceKind) {
    this.#queue = queue;
    this.upstream = upstream;
    this.kind = kind;
    this.#hasPlace = kind === 'read' || kind === 'stream';
    const nowMs = performance.now();
    upstream.allowance.spend(nowMs);
    this.#isTrial = kind !== 'look' && upstream.deferral.beginTrial(nowMs);
    if (this.#hasPlace) upstream.places.enter();
    if (kind === 'stream') upstream.streams.acquireUnbounded();
    if (kind !== 'look') upstream.inFlight += 1;
  }

  /** The node has answered. May be called more than once. */
  answered(): void {
    if (this.#isTrial) this.upstream.deferral.endTrial();
    this.#isTrial = false;
    if (!this.#hasPlace) return;
    this.#hasPlace = false;
    this.upstream.places.leave();
    this.#queue.noteFreed(performance.now());
    this.#queue.offer(this.upstream);
  }

  /** Whether the request may be sent once more; looks always. Takes a token of the node's allowance. */
  mayRepeat(): boolean {
    const { allowance } = this.upstream;
    if (this.kind !== 'look') return allowance.withdraw(performance.now());
    allowance.spend(performance.now());
    return true;
  }

  /** No byte of the request was sent. */
  cancel(): void {
    if (this.#isOpen) this.upstream.allowance.deposit(1);
    this.close();
  }

  /** The attempt and its answer's body have ended. May be called more than once. */
  close(): void {
    this.answered();
    if (!this.#isOpen) return;
    this.#isOpen = false;
    if (this.kind !== 'look') this.upstream.inFlight -= 1;
    if (this.kind !== 'stream') return;
    this.upstream.streams.release();
    this.#queue.offer(this.upstream);
  }
}

/** Why a request got no permit: too many wait, no place became free in time, or no node may be asked now. */
export type QueueRefusal = 'full' | 'late' | 'withheld';

/** The wait of one request for a place. */
interface PlaceWait {
  /** Fair-queueing key: clients take turns. */
  readonly client: string;
  readonly signal: CancelSignal;
  readonly withinMs: number;
  readonly kind: PlaceKind;
}

interface PlaceRequest extends Pick<PlaceWait, 'client' | 'kind'> {
  readonly choice: Choice<Upstream>;
  end(outcome: Permit | QueueRefusal): void;
}

/** The queue holds as many requests as places become free within this time. */
const usualWaitMs = 500;
/** Longest wait: after it a retry of the client is better. */
const longestWaitMs = 2_000;
/** Throughput is measured over this span. */
const spanMs = 1_000;

/** Grants the places of all nodes. */
export class PlaceQueue {
  readonly #onWaited: (seconds: number) => void;
  readonly #fewest: number;
  readonly #most: number;
  /** Clients in the order of their turns; each one's requests in the order of arrival. */
  readonly #clients = new Map<string, Set<PlaceRequest>>();
  #waiting = 0;
  readonly #freed = new Spans(spanMs);

  /** `onWaited`: called with each wait, in seconds. `fewest`: requests that may always wait. */
  constructor(onWaited: (seconds: number) => void, fewest = 64, most = 1_000) {
    this.#onWaited = onWaited;
    this.#fewest = fewest;
    this.#most = most;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Most requests that may wait: half a second of recent throughput, within the bounds. */
  bound(nowMs: number): number {
    const perMs = this.#freed.at(nowMs).most() / spanMs;
    return Math.min(this.#most, Math.max(this.#fewest, Math.floor(perMs * usualWaitMs)));
  }

  /** Whether or not a place is free, as for the few requests in the background. */
  take(upstream: Upstream, kind: PlaceKind): Permit {
    return new Permit(this, upstream, kind);
  }

  /** Waits for a permit at one of the nodes that are as good as the chosen one. */
  async acquire(choice: Choice<Upstream>, wait: PlaceWait): Promise<Permit | QueueRefusal> {
    const startedMs = performance.now();
    if (wait.signal.aborted) return 'late';
    if (areWithheld(choice, startedMs)) return 'withheld';
    if (this.#waiting >= this.bound(startedMs) && !this.#makeRoom(wait.client)) return 'full';
    const outcome = await this.#wait(choice, wait);
    if (outcome !== 'full') this.#onWaited((performance.now() - startedMs) / 1000);
    return outcome;
  }

  /** Grants places that became free at `upstream` to waiting requests, in turn. */
  offer(upstream: Upstream): void {
    while (this.#waiting > 0 && !upstream.places.isFull && this.#giveTo(upstream));
  }

  noteFreed(nowMs: number): void {
    this.#freed.at(nowMs).add();
  }

  #giveTo(upstream: Upstream): boolean {
    const nowMs = performance.now();
    for (const [client, waiters] of this.#clients) {
      for (const waiter of waiters) {
        const { choice, kind } = waiter;
        const isFit = choice.alike.some((node) => node.upstream === upstream);
        // No place that becomes free later would help it.
        if (areWithheld(choice, nowMs)) waiter.end('withheld');
        if (!isFit || !upstream.hasPlace(kind, upstream.tier !== choice.tier, nowMs)) continue;
        // The permit takes the place at once, so the next waiter does not get it.
        waiter.end(new Permit(this, upstream, kind));
        // The client's further requests wait for its next turn.
        if (this.#clients.delete(client)) this.#clients.set(client, waiters);
        return true;
      }
    }
    return false;
  }

  #wait(choice: Choice<Upstream>, { client, signal, withinMs, kind }: PlaceWait) {
    const ms = Math.max(0, Math.min(withinMs, longestWaitMs));
    return waitWithin<Permit | QueueRefusal>({ ms, signal, late: 'late' }, (end) => {
      const waiter: PlaceRequest = { client, kind, choice, end };
      const waiters = this.#clients.get(client) ?? new Set();
      this.#clients.set(client, waiters.add(waiter));
      this.#waiting += 1;
      return () => this.#remove(waiter);
    });
  }

  /** Ends the newest request of the client with the most, when `client` has clearly fewer. */
  #makeRoom(client: string): boolean {
    let longest = new Set<PlaceRequest>();
    for (const waiters of this.#clients.values()) if (waiters.size > longest.size) longest = waiters;
    if (longest.size <= (this.#clients.get(client)?.size ?? 0) + 1) return false;
    [...longest].at(-1)?.end('full');
    return true;
  }

  #remove(waiter: PlaceRequest): void {
    const waiters = this.#clients.get(waiter.client);
    if (waiters?.delete(waiter) !== true) return;
    this.#waiting -= 1;
    if (waiters.size === 0) this.#clients.delete(waiter.client);
  }
}

function areWithheld({ alike }: Choice<Upstream>, nowMs: number): boolean {
  return alike.every(({ upstream }) => !upstream.mayBeAsked(nowMs));
}
