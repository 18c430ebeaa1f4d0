/**
 * Places at nodes. A request is given one at the best node that has one free, or waits. Clients take turns, so one that
 * sends many requests at once waits for itself, and no more requests wait than can be served soon.
 */
import type { CancelSignal } from '../../ledger/stop.ts';
import { GatewayError } from '../../ledger/errors.ts';
import type { NodeCandidate } from '../select/candidates.ts';
import type { Upstream } from '../node/upstream.ts';

/** No place at a node was to be had for a request of `client`. */
export class QueueFullError extends GatewayError {
  readonly client: string;

  constructor(client: string) {
    super('unavailable', 'the nodes have more to do than they can now; try again');
    this.client = client;
  }
}

/** Whether a coalesced follower, `client`, retries: its leader failed because the leader's client exceeded the queue. */
export function retryOwnFlight(error: unknown, client: string): boolean {
  return error instanceof QueueFullError && error.client !== client;
}

/**
 * Kinds of permits, by the resources that they hold. `read`: one of its places. `stream`: a place, and a connection until its body ends.
 * `poll`: a connection that it holds idle. `look`: nothing, since looks have connections of their own.
 */
export type PermitKind = 'read' | 'stream' | 'poll' | 'look';

/** The resources of `upstream` that one attempt holds, from before it is sent until `close`. */
export class Permit {
  readonly upstream: Upstream;
  readonly kind: PermitKind;
  readonly #queue: PlaceQueue;
  #hasPlace: boolean;
  #isOpen = true;

  constructor(queue: PlaceQueue, upstream: Upstream, kind: PermitKind) {
    this.#queue = queue;
    this.upstream = upstream;
    this.kind = kind;
    this.#hasPlace = kind === 'read' || kind === 'stream';
    if (this.#hasPlace) upstream.places.enter();
    if (kind === 'stream') upstream.streams.acquireUnbounded();
    if (kind !== 'look') upstream.inFlight += 1;
  }

  /** The node has done its part: gives the place back. May be called more than once. */
  answered(): void {
    if (!this.#hasPlace) return;
    this.#hasPlace = false;
    this.upstream.places.leave();
    this.#queue.noteFreed(performance.now());
    this.#queue.offer(this.upstream);
  }

  /** The attempt is over, and so is the body of its answer. May be called more than once. */
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

/** `full`: too many wait already. `late`: nothing became free in time. */
export type QueueRefusal = 'full' | 'late';

/** How a request waits for a place. */
export interface PlaceWait {
  /** Requests of one client wait for one another first. */
  readonly client: string;
  readonly signal: CancelSignal;
  readonly withinMs: number;
  readonly kind: 'read' | 'stream';
}

interface QueuedRequest extends Pick<PlaceWait, 'client' | 'kind'> {
  readonly nodes: readonly NodeCandidate<Upstream>[];
  end(outcome: Permit | QueueRefusal): void;
}

/** The queue holds as many requests as places become free within this time. */
const usualWaitMs = 500;
/** Longest wait, whatever was expected: the client had better come again. */
const longestWaitMs = 2_000;
/** The pace at which places become free is measured over this span. */
const spanMs = 1_000;

/** Options of a `PlaceQueue`. */
export interface PlaceQueueOptions {
  /** Requests that may always wait. Default 64. */
  readonly fewest?: number;
  /** Requests that may wait at most. Default 1,000. */
  readonly most?: number;
  /** Called with each wait, in seconds, whether it ended with a place or not. */
  readonly onWaited?: (seconds: number) => void;
}

/** Gives out the places of all nodes. */
export class PlaceQueue {
  readonly #options: Required<PlaceQueueOptions>;
  /** In the order in which clients have their turn; each one's requests in the order they came. */
  readonly #clients = new Map<string, Set<QueuedRequest>>();
  #waiting = 0;
  #beganAtMs = 0;
  #freed = 0;
  #freedBefore = 0;

  constructor({ fewest = 64, most = 1_000, onWaited = () => undefined }: PlaceQueueOptions = {}) {
    this.#options = { fewest, most, onWaited };
  }

  /** Requests that wait for a place now. */
  get waiting(): number {
    return this.#waiting;
  }

  /** How many requests may wait: half a second of recent throughput, within the bounds. */
  bound(nowMs: number): number {
    this.#turn(nowMs);
    const { fewest, most } = this.#options;
    const perMs = Math.max(this.#freedBefore, this.#freed) / spanMs;
    return Math.min(most, Math.max(fewest, Math.floor(perMs * usualWaitMs)));
  }

  /** A permit at one of `nodes`, best first and all as good for the request, where one has a place free now. */
  tryAcquire(nodes: readonly NodeCandidate<Upstream>[], kind: 'read' | 'stream'): Permit | undefined {
    const node = nodes.find(({ upstream }) => hasPlace(upstream, nodes[0], kind));
    return node === undefined ? undefined : new Permit(this, node.upstream, kind);
  }

  /** A permit at `upstream`, even where no place is free: for looks, polls, and the few requests in the background. */
  acquireUnbounded(upstream: Upstream, kind: PermitKind): Permit {
    return new Permit(this, upstream, kind);
  }

  /** Waits for a permit at one of `nodes`, as `tryAcquire` gives it; resolves with the reason where none is to be had. */
  async acquire(nodes: readonly NodeCandidate<Upstream>[], wait: PlaceWait): Promise<Permit | QueueRefusal> {
    const free = this.tryAcquire(nodes, wait.kind);
    if (free !== undefined) return free;
    const startedMs = performance.now();
    if (wait.signal.aborted) return 'late';
    if (this.#waiting >= this.bound(startedMs) && !this.#makeRoom(wait.client)) return 'full';
    const outcome = await this.#wait(nodes, wait);
    if (outcome !== 'full') this.#options.onWaited((performance.now() - startedMs) / 1000);
    return outcome;
  }

  /** Gives what has become free at `upstream` to the requests whose turn it is. */
  offer(upstream: Upstream): void {
    while (this.#waiting > 0 && !upstream.places.isFull && this.#giveTo(upstream));
  }

  /** Records that a place has become free. */
  noteFreed(nowMs: number): void {
    this.#turn(nowMs);
    this.#freed += 1;
  }

  /** Returns whether a waiting request was given a place. */
  #giveTo(upstream: Upstream): boolean {
    for (const waiters of this.#clients.values()) {
      for (const waiter of waiters) {
        const { nodes, kind } = waiter;
        if (!nodes.some((node) => node.upstream === upstream) || !hasPlace(upstream, nodes[0], kind)) continue;
        // Taken at once, so that the next waiter finds it gone.
        waiter.end(new Permit(this, upstream, kind));
        this.#moveBack(waiter.client);
        return true;
      }
    }
    return false;
  }

  #wait(nodes: readonly NodeCandidate<Upstream>[], { client, signal, withinMs, kind }: PlaceWait) {
    return new Promise<Permit | QueueRefusal>((resolve) => {
      const quit = (): void => waiter.end('late');
      const timer = setTimeout(quit, Math.max(0, Math.min(withinMs, longestWaitMs)));
      signal.addEventListener('abort', quit, { once: true });
      const waiter: QueuedRequest = {
        client,
        kind,
        nodes,
        end: (outcome) => {
          clearTimeout(timer);
          signal.removeEventListener('abort', quit);
          this.#remove(waiter);
          resolve(outcome);
        },
      };
      const waiters = this.#clients.get(client) ?? new Set();
      this.#clients.set(client, waiters.add(waiter));
      this.#waiting += 1;
    });
  }

  /** The newest request of the client with the most gives way to a client that has clearly fewer. */
  #makeRoom(client: string): boolean {
    let longest = new Set<QueuedRequest>();
    for (const waiters of this.#clients.values()) if (waiters.size > longest.size) longest = waiters;
    if (longest.size <= (this.#clients.get(client)?.size ?? 0) + 1) return false;
    [...longest].at(-1)?.end('full');
    return true;
  }

  #remove(waiter: QueuedRequest): void {
    const waiters = this.#clients.get(waiter.client);
    if (waiters?.delete(waiter) !== true) return;
    this.#waiting -= 1;
    if (waiters.size === 0) this.#clients.delete(waiter.client);
  }

  #moveBack(client: string): void {
    const waiters = this.#clients.get(client);
    if (waiters === undefined) return;
    this.#clients.delete(client);
    this.#clients.set(client, waiters);
  }

  #turn(nowMs: number): void {
    const sinceMs = nowMs - this.#beganAtMs;
    if (sinceMs < spanMs) return;
    this.#freedBefore = sinceMs < 2 * spanMs ? this.#freed : 0;
    this.#freed = 0;
    this.#beganAtMs = nowMs;
  }
}

/** Nodes of another tier than the best keep half of their places for the requests that only they can answer. */
function hasPlace(upstream: Upstream, best: NodeCandidate<Upstream> | undefined, kind: 'read' | 'stream'): boolean {
  if (kind === 'stream' && (upstream.streams.isFull || !upstream.mayBeHeld)) return false;
  return upstream.tier === best?.upstream.tier ? !upstream.places.isFull : upstream.places.isHalfFree;
}
