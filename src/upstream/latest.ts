/**
 * The version that reads of "latest" are pinned to. One look at the freshest node (`GET {url}`) gives a coherent state
 * of the ledger. While it is younger than the caller's bound, every read of "latest" is a read at its version, so that
 * clients share upstream reads and see one state. The version never goes backward within a generation of the fleet.
 */
import { performance } from 'node:perf_hooks';
import { GatewayError } from '../ledger/errors.ts';
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { CancelSignal } from '../ledger/stop.ts';
import type { Fleet } from './fleet.ts';
import { MonotonicFloor } from './monotonic-floor.ts';
import type { Sender } from './dispatch/sender.ts';

/** A ledger state that reads of "latest" share: the ledger info of a node, from one answer. */
export interface PublishedState {
  readonly info: LedgerInfo;
  /** The node's ledger info answer, JSON as it came. */
  readonly body: Buffer;
  /** The state was current at this moment or later: when the look was sent. In ms of `performance.now()`. */
  readonly asOfMs: number;
  /** Name of the node. */
  readonly upstream: string;
}

/** Changes that other gateways and operators learn of. */
export interface LatestEvents {
  /** A client is about to be given a newer version than any before, or reads are about to share `state`. */
  onServed(version: LedgerVersion, state?: PublishedState): void;
  /** No node here reached the version that a client of a peer was given: clients get an older one. */
  onUnreached(version: LedgerVersion): void;
}

export interface LatestParts {
  readonly fleet: Fleet;
  readonly sender: Pick<Sender, 'whole'>;
  readonly events: LatestEvents;
}

/** Read at each use, so they may change. */
export interface LatestOptions {
  /** How old a state may be by default, in milliseconds. */
  readonly maxStalenessMs: number;
  /** Longest wait for a version that a client has seen already. */
  readonly waitForVersionMs: number;
}

/** The demand of a caller: a state at most so old when it asks, and at or past the last version it saw. */
export interface Demand {
  /** 0: the state at the moment of asking, from a node. */
  readonly maxStalenessMs: number;
  readonly min: LedgerVersion | undefined;
}

/**
 * Share of the bound after which the next look is taken while reads of "latest" come: late, for every look costs a node
 * a request, but before the bound, so that the look is in flight when a read would have to ask for it.
 */
export const renewAt = 0.98;
/** Without reads of "latest" for this many bounds, no node is asked any more. */
export const idleBounds = 5;
/** The cheapest request there is: a node that takes longer must not hold up every read of "latest". */
const lookTimeoutMs = 500;
/** A look that misses (at a node that is behind, or begun too early) is repeated so often. */
const maxLooks = 3;

export class Latest {
  readonly #parts: LatestParts;
  readonly #options: LatestOptions;
  readonly #floor: MonotonicFloor;
  readonly #closing = new AbortController();
  #state: PublishedState | undefined;
  /** The fleet's generation that the state is of. */
  #generation = 0;
  #look: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #askedAtMs = -Infinity;

  constructor(parts: LatestParts, options: LatestOptions) {
    this.#parts = parts;
    this.#options = options;
    this.#floor = new MonotonicFloor(parts.fleet);
  }

  /** The shared state, when it satisfies the demand now. Costs no look and no promise. */
  find({ maxStalenessMs, min }: Demand): PublishedState | undefined {
    const nowMs = performance.now();
    this.#askedAtMs = nowMs;
    const state = this.#current;
    if (state === undefined || nowMs - state.asOfMs > maxStalenessMs) return undefined;
    return isAtLeast(state, this.#floor.above(min)) ? state : undefined;
  }

  /** Time of the last call of `find`; `performance.now()`. */
  get askedAtMs(): number {
    return this.#askedAtMs;
  }

  /**
   * The shared state, for a report: nothing changes. `isUsable`: a read that came now would be pinned to it; else a node
   * is asked for its ledger first.
   */
  peek(): { readonly version: LedgerVersion; readonly ageMs: number; readonly isUsable: boolean } | undefined {
    const state = this.#current;
    if (state === undefined) return undefined;
    const ageMs = performance.now() - state.asOfMs;
    const isUsable = ageMs <= this.#options.maxStalenessMs && isAtLeast(state, this.#floor.above(undefined));
    return { version: state.info.version, ageMs, isUsable };
  }

  /**
   * A state that satisfies the demand as of this call: found, or looked for together with every caller that waits.
   * Throws `GatewayError` 503 when the fleet does not reach `min` within `waitForVersion`, or no node answers.
   */
  async reach(demand: Demand, signal: CancelSignal): Promise<PublishedState> {
    const { maxStalenessMs, min } = demand;
    return this.find(demand) ?? this.aboveFloor(min, signal, (floor) => this.#lookFor(maxStalenessMs, floor, signal));
  }

  /**
   * Runs `ask` with the floor for a client that has seen `min` and waits until `signal` stops. Runs it again without the
   * versions of peers when no node here reaches one. The client's own version and this gateway's are never given up.
   */
  async aboveFloor<T>(
    min: LedgerVersion | undefined,
    signal: CancelSignal,
    ask: (floor: LedgerVersion | undefined) => Promise<T>,
  ): Promise<T> {
    const own = this.#floor.ownAbove(min);
    const floor = this.#floor.above(min);
    if (floor === undefined || floor === own) return ask(own);
    try {
      return await ask(floor);
    } catch (error) {
      if (!(error instanceof GatewayError) || error.fault !== 'unavailable') throw error;
      // Another reason: the client has gone, or the nodes have reached the version and have no time.
      if (signal.aborted || (this.#head ?? -1n) >= floor) throw error;
      this.#floor.ignorePeers();
      this.#parts.events.onUnreached(floor);
      return ask(own);
    }
  }

  /** A client is about to be given a state of this version: no client is given an older one afterwards. */
  recordServed(version: LedgerVersion): void {
    // A version above the head is of an answer from before a rollback, or of a node that is not believed.
    if (this.#head !== undefined && version > this.#head) return;
    if (this.#floor.raise(version)) this.#parts.events.onServed(version);
  }

  /** A client of a peer (another worker or replica) was given this version. */
  onPeerVersion(version: LedgerVersion): void {
    this.#floor.onPeerVersion(version);
  }

  /**
   * Another worker of this gateway published the state; `asOfMs` is of this process's clock. That worker renews it, and
   * this one only where a read finds it too old, so that one look serves all workers.
   */
  onPeerState(state: PublishedState): void {
    if (this.#publish(state)) clearTimeout(this.#timer);
  }

  /** Ends the renewal. */
  close(): void {
    clearTimeout(this.#timer);
    this.#closing.abort(new Error('closing'));
  }

  get #head(): LedgerVersion | undefined {
    return this.#parts.fleet.head?.version;
  }

  get #current(): PublishedState | undefined {
    return this.#generation === this.#parts.fleet.generation ? this.#state : undefined;
  }

  async #lookFor(maxStalenessMs: number, min: LedgerVersion | undefined, signal: CancelSignal): Promise<PublishedState> {
    const askedMs = performance.now();
    // A look in flight may be of a moment before the bound; one sent after it never is.
    for (let looks = 0; looks < maxLooks && !signal.aborted; looks += 1) {
      await this.#renew(min);
      const state = this.#current;
      if (state !== undefined && state.asOfMs >= askedMs - maxStalenessMs && isAtLeast(state, min)) return state;
      if (this.#isAboveHead(min) && !(await this.#awaitVersion(min, signal))) break;
    }
    const isBehind = this.#isAboveHead(min);
    throw new GatewayError(
      'unavailable',
      isBehind
        ? `the ledger is at version ${this.#head} here, and version ${min} was asked for; try again`
        : 'no node tells the latest ledger version now; try again',
    );
  }

  /** Whether no believed node has reported the version yet. */
  #isAboveHead(version: LedgerVersion | undefined): version is LedgerVersion {
    return version !== undefined && this.#head !== undefined && version > this.#head;
  }

  #awaitVersion(min: LedgerVersion, signal: CancelSignal): Promise<boolean> {
    return this.#parts.fleet.waitForVersion(min, this.#options.waitForVersionMs, signal);
  }

  /** One look at a time, shared by all that wait; never rejects for want of a better state. */
  #renew(min: LedgerVersion | undefined): Promise<void> {
    this.#look ??= this.#lookNow(min).finally(() => {
      this.#look = undefined;
    });
    return this.#look;
  }

  async #lookNow(min: LedgerVersion | undefined): Promise<void> {
    const asOfMs = performance.now();
    const known = this.#current?.info.version;
    // No node has reached a version above the head: a look for it asks the freshest node how far it is.
    const wanted = this.#isAboveHead(min) ? undefined : min;
    const floor = known !== undefined && (wanted === undefined || known > wanted) ? known : wanted;
    const wire = { method: 'GET', path: '', headers: { accept: 'application/json' } } as const;
    const need = { kind: 'head', min: floor } as const;
    const bounds = { isIdempotent: true, timeoutMs: lookTimeoutMs, isLook: true } as const;
    const answer = await this.#parts.sender.whole({ wire, need, promised: 'json', ...bounds }, this.#closing.signal);
    this.#schedule();
    const { status, info, body, upstream } = answer;
    if (status !== 200 || info === undefined || upstream.isSuspect) return;
    const state = { info, body, asOfMs, upstream: upstream.name };
    if (this.#publish(state)) this.#parts.events.onServed(info.version, state);
  }

  /** Returns whether reads share the state from now on: not one that is older, or that the fleet does not believe. */
  #publish(state: PublishedState): boolean {
    const { version } = state.info;
    const known = this.#current;
    const isOld =
      version === known?.info.version ? state.asOfMs <= known.asOfMs : version < (known?.info.version ?? 0n);
    if (isOld || version > (this.#head ?? -1n)) return false;
    this.#state = state;
    this.#generation = this.#parts.fleet.generation;
    this.#floor.raise(version);
    return true;
  }

  /** While reads of "latest" come, the next look is taken before the bound is reached, so that none waits for it. */
  #schedule(): void {
    clearTimeout(this.#timer);
    const bound = this.#options.maxStalenessMs;
    if (bound === 0 || performance.now() - this.#askedAtMs > bound * idleBounds) return;
    // The next read asks again, and reports the failure to its client.
    this.#timer = setTimeout(() => void this.#renew(undefined).catch(() => undefined), bound * renewAt);
    this.#timer.unref();
  }
}

function isAtLeast({ info }: PublishedState, min: LedgerVersion | undefined): boolean {
  return min === undefined || info.version >= min;
}
