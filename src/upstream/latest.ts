/**
 * The version of reads of "latest". One look at the freshest node (`GET {url}`) gives a coherent state of the ledger.
 * While it is younger than the caller's bound, every read of "latest" is a read at its version, so that clients share
 * upstream reads and see one state. The version never goes backward within a generation of the fleet.
 */
import { GatewayError } from '../ledger/errors.ts';
import type { AnswerContent } from '../ledger/answer-body.ts';
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { CancelSignal } from '../ledger/stop.ts';
import type { Fleet } from './fleet.ts';
import { MonotonicFloor } from './monotonic-floor.ts';
import type { Sender } from './dispatch/sender.ts';
import type { Upstream } from './node/upstream.ts';

/** A ledger state that reads of "latest" share: the ledger info of a node, from one answer. */
export interface PublishedState {
  readonly info: LedgerInfo;
  /** The node's answer to the look, undecoded JSON. */
  readonly body: Buffer;
  /** When the look was sent, in ms of `performance.now()`: the state was current then or later. */
  readonly asOfMs: number;
  /** Name of the node. */
  readonly upstream: string;
}

/** Changes that are reported to other gateways and to operators. */
export interface LatestEvents {
  /** Called before a client gets a newer version than any before, or reads share `state`. */
  onServed(version: LedgerVersion, state?: PublishedState): void;
  /** No node here reached the version that a client of a peer has got: clients here get an older one. */
  onUnreached(version: LedgerVersion): void;
}

/** Parts of a `Latest`. */
export interface LatestParts {
  readonly fleet: Fleet;
  readonly sender: Pick<Sender, 'whole'>;
  readonly events: LatestEvents;
}

/** Options of a `Latest`, read at each use, so they may change. */
export interface LatestOptions {
  /** Largest age of a state by default. */
  readonly maxStalenessMs: number;
  /** Longest wait for a version that a client has seen already. */
  readonly waitForVersionMs: number;
}

/** The state that a caller demands: at most `maxStalenessMs` old at its call, and at or past version `min`. */
export interface Demand {
  /** 0: the state at the moment of the call, from a node. */
  readonly maxStalenessMs: number;
  readonly min: LedgerVersion | undefined;
}

/** Share of the bound after which the next look begins: late, as it costs a request, but before a read waits for it. */
const renewAt = 0.98;
/** Without reads of "latest" for this many bounds, the looks end. */
const idleBounds = 5;
/** The cheapest request there is: a node that takes longer must not hold up every read of "latest". */
const lookTimeoutMs = 500;
/** Most looks of one caller: a look misses at a node that is behind, or when it began too early. */
const maxLooks = 3;

/** Finds, renews and shares the state of reads of "latest". */
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
  /** Time of the last call of `find`; `performance.now()`. */
  askedAtMs = -Infinity;

  constructor(parts: LatestParts, options: LatestOptions) {
    this.#parts = parts;
    this.#options = options;
    this.#floor = new MonotonicFloor(parts.fleet);
  }

  /** The shared state, when it satisfies the demand now. Sends no look and makes no promise. */
  find({ maxStalenessMs, min }: Demand): PublishedState | undefined {
    const nowMs = performance.now();
    this.askedAtMs = nowMs;
    const state = this.#current;
    if (state === undefined || nowMs - state.asOfMs > maxStalenessMs) return undefined;
    return isAtLeast(state, this.#floor.above(min)) ? state : undefined;
  }

  /** The shared state, for a report. `isUsable`: a read now would be pinned to it, without a look first. */
  peek(): { readonly version: LedgerVersion; readonly ageMs: number; readonly isUsable: boolean } | undefined {
    const state = this.#current;
    if (state === undefined) return undefined;
    const ageMs = performance.now() - state.asOfMs;
    const isUsable = ageMs <= this.#options.maxStalenessMs && isAtLeast(state, this.#floor.above(undefined));
    return { version: state.info.version, ageMs, isUsable };
  }

  /**
   * A state that satisfies the demand as of this call: the shared one, or that of a look, which callers share too.
   * Throws `GatewayError` 503 when the fleet does not reach `min` within `waitForVersionMs`, or no node answers.
   */
  async reach(demand: Demand, signal: CancelSignal): Promise<PublishedState> {
    const { maxStalenessMs, min } = demand;
    return (
      this.find(demand) ??
      this.aboveFloor(min, signal, (floor) => this.#lookFor({ maxStalenessMs, min: floor }, signal))
    );
  }

  /**
   * Runs `ask` with the floor for a client that has seen `min`, and once more without the versions of peers when no node
   * here reaches one. The floor never falls below `min` or a version that this gateway has served. `signal`: the client's.
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
      // Another reason: the client left, or the nodes have reached the version and are overloaded.
      if (signal.aborted || (this.#head ?? -1n) >= floor) throw error;
      this.#floor.ignorePeers();
      this.#parts.events.onUnreached(floor);
      return ask(own);
    }
  }

  /** Records that a client is about to get a state of this version: later answers are never older. */
  recordServed(version: LedgerVersion): void {
    // A version above the head comes from before a rollback, or from a node that is not believed.
    if (this.#head !== undefined && version > this.#head) return;
    if (this.#floor.raise(version)) this.#parts.events.onServed(version);
  }

  /** Records that a client of a peer (another worker or replica) has got this version. */
  onPeerVersion(version: LedgerVersion): void {
    this.#floor.onPeerVersion(version);
  }

  /**
   * Takes over the state that another worker published, `asOfMs` on this process's clock. That worker renews it; this
   * one does only when a read finds it too old, so that one look serves all workers.
   */
  onPeerState(state: PublishedState): void {
    if (this.#publish(state)) clearTimeout(this.#timer);
  }

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

  async #lookFor({ maxStalenessMs, min }: Demand, signal: CancelSignal): Promise<PublishedState> {
    const { waiters } = this.#parts.fleet;
    const askedMs = performance.now();
    // A look in flight may have begun before the bound; one that begins after it always satisfies the bound.
    for (let looks = 0; looks < maxLooks && !signal.aborted; looks += 1) {
      await this.#renew(min);
      const state = this.#current;
      if (state !== undefined && state.asOfMs >= askedMs - maxStalenessMs && isAtLeast(state, min)) return state;
      if (this.#isAboveHead(min) && !(await waiters.wait(min, this.#options.waitForVersionMs, signal))) break;
    }
    const isBehind = this.#isAboveHead(min);
    throw new GatewayError(
      'unavailable',
      isBehind
        ? `the ledger is at version ${this.#head} here, and version ${min} was asked for; try again`
        : 'no node reports the latest ledger version now; try again',
    );
  }

  /** Whether no believed node has reported the version yet. */
  #isAboveHead(version: LedgerVersion | undefined): version is LedgerVersion {
    return version !== undefined && this.#head !== undefined && version > this.#head;
  }

  /** Single flight: one look at a time, shared by all callers; a look that finds no better state does not reject. */
  #renew(min: LedgerVersion | undefined): Promise<void> {
    this.#look ??= this.#lookNow(min).finally(() => {
      this.#look = undefined;
    });
    return this.#look;
  }

  async #lookNow(min: LedgerVersion | undefined): Promise<void> {
    const asOfMs = performance.now();
    const current = this.#current?.info.version;
    // No node has reached a version above the head: the look reads the head of the freshest node instead.
    const wanted = this.#isAboveHead(min) ? undefined : min;
    const floor = current !== undefined && (wanted === undefined || current > wanted) ? current : wanted;
    const wire = { method: 'GET', path: '', headers: { accept: 'application/json' } } as const;
    const need = { kind: 'head', min: floor } as const;
    const bounds = { isIdempotent: true, timeoutMs: lookTimeoutMs, isLook: true } as const;
    const look = { wire, need, promised: 'json', isContent: isInfoOf, ...bounds } as const;
    const answer = await this.#parts.sender.whole(look, this.#closing.signal);
    this.#schedule();
    const { status, info, body, upstream } = answer;
    if (status !== 200 || info === undefined || upstream.isSuspect || this.#isUnreadable(upstream)) return;
    const state = { info, body, asOfMs, upstream: upstream.name };
    if (this.#publish(state)) this.#parts.events.onServed(info.version, state);
  }

  /** Whether the node fails reads of its states, and others will answer them once they have come nearer. */
  #isUnreadable({ failsNewest }: Upstream): boolean {
    return failsNewest && this.#parts.fleet.upstreams.some((other) => other.isTrusted && !other.failsNewest);
  }

  /** Returns whether reads share the state from now on; an older one, or one above the believed head, is refused. */
  #publish(state: PublishedState): boolean {
    const { version } = state.info;
    const current = this.#current;
    const isOld =
      version === current?.info.version ? state.asOfMs <= current.asOfMs : version < (current?.info.version ?? 0n);
    if (isOld || version > (this.#head ?? -1n)) return false;
    this.#state = state;
    this.#generation = this.#parts.fleet.generation;
    this.#floor.raise(version);
    return true;
  }

  /** Schedules the next look before the bound is reached, while reads of "latest" come, so that none waits for it. */
  #schedule(): void {
    clearTimeout(this.#timer);
    const bound = this.#options.maxStalenessMs;
    if (bound === 0 || performance.now() - this.askedAtMs > bound * idleBounds) return;
    // After a failure the next read repeats the look, and its client gets the error.
    this.#timer = setTimeout(() => void this.#renew(undefined).catch(() => undefined), bound * renewAt).unref();
  }
}

function isAtLeast({ info }: PublishedState, min: LedgerVersion | undefined): boolean {
  return min === undefined || info.version >= min;
}

/** Whether a body is a ledger info, of the chain in its headers: clients sign for the chain that it names. */
function isInfoOf({ json }: AnswerContent, { chainId }: LedgerInfo): boolean {
  const { chain_id: named = chainId } = json.members;
  return json.isObject && !json.isError && named === chainId;
}
