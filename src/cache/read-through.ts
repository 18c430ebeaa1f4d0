/**
 * The tiers in order: memory, a single flight for each key, the store, Redis, a node. Memory takes every final answer, the
 * store and Redis take those of nodes, and an answer above the second newest head stays in memory until it is final.
 */
import type { CancelSignal, LedgerVersion } from '../ledger/index.ts';
import type { Span } from '../metrics/index.ts';
import { Coalescer, type FlightCaller } from './coalesce.ts';
import { keyText, type CacheKey } from './key.ts';
import type { MemoryCache } from './memory/memory.ts';
import { type ForgottenReads, keyMatcher, type PurgeScope } from './purge.ts';
import { type CachedResponse, type Miss, outcomeOf } from './record.ts';
import type { LeaseEnd, SharedTier } from './redis/shared-tier.ts';
import type { AnswerStore } from './store/store.ts';

/** The node that answered, and facts of its answer that are not the read's. */
interface Origin {
  readonly upstream: string;
  readonly tookMs: number;
  /** Version of its answer to an unpinned read. */
  readonly version: LedgerVersion | undefined;
  /** `Retry-After` of its error. */
  readonly retryAfter: string | undefined;
}

/** The result of a load. */
export interface Loaded {
  readonly answer: CachedResponse;
  /** A tier that had the answer: no node was asked. */
  readonly origin: Origin | 'store' | 'redis';
  /** The head of the node's own ledger when it answered; absent where no node reported one. */
  readonly head?: bigint | undefined;
  /** The answer is above the second newest head: memory alone keeps it, until another node is there. */
  readonly awaited?: Awaited | undefined;
}

/** A version that only one node has reached. */
export interface Awaited {
  readonly version: bigint;
  /** Whether other nodes are so close behind that nodes in step explain it. */
  readonly isNear: boolean;
  /** The head of the answer's node by now: the other tiers take answers of nodes that have reached their checkpoints. */
  head(): bigint;
  /** The answer is dropped when no other node has come so far after this long. */
  readonly withinMs: number;
}

/** Reads an answer from a node. `span`: the parent of the spans that the load begins. */
export type AnswerLoad = (signal: CancelSignal, span: Span | undefined) => Promise<Loaded>;

/** State of a load in flight, which a purge changes. */
class RunningLoad {
  readonly key: CacheKey;
  /** Its index in `RunningLoads`. */
  at = 0;
  /** Its answer must not be stored. */
  isPurged = false;
  /** Why the store gave no answer; a damaged row is overwritten. */
  storeMiss: Miss | undefined;
  /** Redis holds a damaged entry, which is overwritten. */
  isDamaged = false;

  constructor(key: CacheKey) {
    this.key = key;
  }
}

/** Loads in flight. An array, because the tables of a Set would retain them (see `FlightTable`). */
class RunningLoads {
  readonly #loads: RunningLoad[] = [];

  add(load: RunningLoad): void {
    load.at = this.#loads.push(load) - 1;
  }

  delete({ at }: RunningLoad): void {
    const last = this.#loads.pop();
    if (last === undefined || last.at === at) return;
    last.at = at;
    this.#loads[at] = last;
  }

  purge(covers: (key: CacheKey) => boolean): void {
    for (const load of this.#loads) load.isPurged ||= covers(load.key);
  }
}

/** The part of a load among those of other processes that share a tier. */
interface LoadTurn {
  /** Called once: when others may find the answer, or will not. */
  readonly end?: ((end: LeaseEnd) => void) | undefined;
  /** Redis, which does not have the answer yet. */
  readonly shared?: SharedTier | undefined;
}

/** A load without regard to other processes. */
const alone: LoadTurn = {};

/** Longest wait in ms of other workers for an answer to be written to the store. */
const longestWriteMs = 100;

/** The reads of one process. */
export class ReadThrough {
  readonly #memory: MemoryCache;
  readonly #store: AnswerStore | undefined;
  readonly #shared: SharedTier | undefined;
  readonly #onAwaited: () => void;
  readonly #loads = new Coalescer<Loaded>();
  readonly #running = new RunningLoads();
  readonly #provisional = new ProvisionalReads();
  #purges = 0;

  /** `onAwaited`: called when other processes wait for an answer to become final. */
  constructor(
    memory: MemoryCache,
    store: AnswerStore | undefined,
    shared: SharedTier | undefined,
    onAwaited: () => void = () => {},
  ) {
    this.#memory = memory;
    this.#store = store;
    this.#shared = shared;
    this.#onAwaited = onAwaited;
  }

  /**
   * Looks in the store, in Redis, and else loads, once for concurrent calls of one key and `flight`. `isLeased`: one
   * replica, or one worker, loads for all. Resolves to `resultOf`, and rejects, as `Coalescer.run` does.
   */
  load<R>(
    key: CacheKey,
    flight: string,
    caller: FlightCaller,
    load: AnswerLoad,
    isLeased: boolean,
    resultOf: (loaded: Loaded, isLeader: boolean) => R,
  ): Promise<R> {
    const name = `${nameOf(key)}${flight}#${this.#purges}`;
    const lead = (signal: CancelSignal, span: Span | undefined): Promise<Loaded> =>
      this.#store === undefined && this.#shared === undefined
        ? this.#loadAlone(key, load, signal, span)
        : this.#lead(key, load, isLeased, signal, span);
    return this.#loads.run(name, caller, lead, resultOf);
  }

  /** Keeps a final answer of a node that no load has asked for, in memory for `ttlMs`. */
  keep(key: CacheKey, loaded: Loaded, ttlMs: number): Loaded {
    return this.#kept(new RunningLoad(key), loaded, { shared: this.#shared }, ttlMs);
  }

  /** Purges so far, part of a flight's name: a later request does not join a load from before a purge. */
  get purges(): number {
    return this.#purges;
  }

  /** Whether memory's answer is above the second newest head, and may be dropped yet. */
  isProvisional(key: CacheKey): boolean {
    return this.#provisional.has(key);
  }

  /** Records that a second node has reached `head`: answers up to it become final. */
  settle(head: bigint): void {
    this.#provisional.settle(head);
  }

  /** The contents of the tiers for a key, and its names in them, without counting as a use. */
  async inspect(key: CacheKey) {
    const shared = this.#shared;
    const store = this.#store === undefined ? ('off' as const) : outcomeOf(await this.#store.inspect(key));
    const names = { text: keyText(key), redis: shared?.nameOf(key), field: String(key.slot) };
    return { names, memory: this.#memory.peek(key), store, redis: await shared?.inspect(key) };
  }

  /**
   * Drops the scope from memory and from writes that wait; loads in flight still answer their waiting clients, and are
   * not stored. Resolves to the number of reads dropped from memory, once none of them can reach Redis from here.
   */
  async forget(scope: PurgeScope): Promise<number> {
    const covers = keyMatcher(scope);
    this.#purges += 1;
    this.#running.purge(covers);
    this.#provisional.dropAll(covers);
    // A batch on its way is written ahead of every later work.
    void this.#store?.drop(covers);
    const dropped = this.#shared?.drop(covers);
    const reads = await forget(this.#memory, scope);
    await dropped;
    return reads;
  }

  /** Forgets the scope, and hides it in the store. `isStoreClear`: `undefined` without a store. */
  async purge(scope: PurgeScope): Promise<ForgottenReads> {
    const reads = await this.forget(scope);
    if (this.#store === undefined) return { reads, isStoreClear: undefined };
    // The store hides what was written until then; reads that it answered in between are forgotten once more.
    const isStoreClear = await this.#store.clear(scope);
    return { reads: reads + (await this.forget(scope)), isStoreClear };
  }

  /** Without tiers behind memory: a load without an async function, which would cost each miss 1.5 kB. */
  #loadAlone(key: CacheKey, load: AnswerLoad, signal: CancelSignal, span: Span | undefined): Promise<Loaded> {
    const loading = load(signal, span);
    const running = new RunningLoad(key);
    this.#running.add(running);
    return loading.then(
      (loaded) => {
        this.#running.delete(running);
        return this.#kept(running, loaded, alone);
      },
      (error: unknown) => {
        this.#running.delete(running);
        throw error;
      },
    );
  }

  async #lead(
    key: CacheKey,
    load: AnswerLoad,
    isLeased: boolean,
    signal: CancelSignal,
    span: Span | undefined,
  ): Promise<Loaded> {
    const [store, shared] = [this.#store, this.#shared];
    const running = new RunningLoad(key);
    this.#running.add(running);
    try {
      const found = store && (await this.#findStored(running, store));
      if (found !== undefined) return found;
      const turn = await (shared === undefined
        ? this.#turnOfWorkers(running, isLeased, store)
        : this.#turnOfReplicas(running, isLeased, signal, span, shared));
      if ('answer' in turn) return turn;
      try {
        return this.#kept(running, await load(signal, span), turn);
      } catch (error) {
        turn.end?.(signal.aborted ? 'abandoned' : 'nothing');
        throw error;
      }
    } finally {
      this.#running.delete(running);
    }
  }

  async #findStored(running: RunningLoad, store: AnswerStore): Promise<Loaded | undefined> {
    const found = await store.find(running.key);
    running.storeMiss = 'miss' in found ? found.miss : undefined;
    if (!('answer' in found)) return undefined;
    return this.#kept(running, { answer: found.answer, origin: 'store' }, alone, found.ttlMs);
  }

  /** One worker of the machine reads for all. */
  async #turnOfWorkers(
    running: RunningLoad,
    isLeased: boolean,
    store: AnswerStore | undefined,
  ): Promise<Loaded | LoadTurn> {
    // Without the store the other workers would wait for an answer that they cannot find.
    if (store === undefined || !isLeased || running.storeMiss === 'unavailable') return alone;
    const name = nameOf(running.key);
    const turn = await store.enter(name);
    if (turn === 'look') return (await this.#findStored(running, store)) ?? alone;
    return turn === 'lead' ? { end: () => store.leave(name) } : alone;
  }

  /** One replica reads for all: the one that takes the lease. */
  async #turnOfReplicas(
    running: RunningLoad,
    isLeased: boolean,
    signal: CancelSignal,
    span: Span | undefined,
    shared: SharedTier,
  ): Promise<Loaded | LoadTurn> {
    const { key } = running;
    // One bound for all steps in Redis together.
    const untilMs = performance.now() + shared.timeoutMs;
    const lookup = await shared.lookUp(key, untilMs, span);
    if ('answer' in lookup) return this.#kept(running, { answer: lookup.answer, origin: 'redis' }, alone, lookup.ttlMs);
    if (lookup.miss === 'unavailable') return alone;
    running.isDamaged = lookup.miss === 'damaged';
    if (!isLeased) return { shared };
    const turn = await shared.takeTurn(key, untilMs, signal, span);
    if ('answer' in turn) return this.#kept(running, { answer: turn.answer, origin: 'redis' }, alone, turn.ttlMs);
    running.isDamaged ||= turn.isDamaged;
    return { shared, end: turn.release };
  }

  /**
   * Keeps a final answer in memory, and a node's in the other tiers, a provisional one once it is final. `ttlMs`: see
   * `MemoryCache.store`.
   */
  #kept(
    { key, isPurged, storeMiss, isDamaged }: RunningLoad,
    loaded: Loaded,
    { end, shared }: LoadTurn,
    ttlMs?: number,
  ): Loaded {
    const memory = this.#memory;
    const { origin, answer, awaited } = loaded;
    // Redis has bounds of its own; a slow disk, or a second node, delays other processes no longer than this.
    const isBounded = shared === undefined || awaited !== undefined;
    const done = end === undefined ? () => {} : soon(end, isBounded ? longestWriteMs : undefined);
    if (answer.lifetimeMs === 0 || isPurged) {
      done(false);
      return loaded;
    }
    // An answer of Redis may prove to be of another history: the store takes no copy.
    const store = typeof origin === 'string' ? undefined : this.#store;
    const isShared = store !== undefined || shared !== undefined;
    const share = (final: CachedResponse, head: bigint | undefined): void => {
      const onStored = shared === undefined ? done : () => {};
      store?.store(key, final, { head, overwrite: storeMiss === 'damaged', onDone: onStored });
      shared?.store(key, final, { head, overwrite: isDamaged, onDone: done });
    };
    this.#provisional.drop(key);
    const kept = memory.store(key, answer, ttlMs);
    if (!isShared || awaited?.isNear === false) done(false);
    if (awaited !== undefined) {
      this.#provisional.add(key, awaited, (outcome) => {
        const final = isShared && outcome === 'final' ? memory.peek(key) : undefined;
        if (final === undefined) done(false);
        else share(final, awaited.head());
        if (outcome === 'unproven') memory.forget(key);
      });
      if (isShared && awaited.isNear) this.#onAwaited();
    } else if (isShared) share(kept, loaded.head);
    return kept === answer ? loaded : { ...loaded, answer: kept };
  }
}

/** Calls `end` once: with the first outcome, or after `withinMs` without one. */
function soon(end: (end: LeaseEnd) => void, withinMs: number | undefined): (isReadable: boolean) => void {
  let isDone = false;
  const done = (isReadable: boolean): void => {
    if (isDone) return;
    isDone = true;
    clearTimeout(timer);
    end(isReadable ? 'readable' : 'nothing');
  };
  const timer = withinMs === undefined ? undefined : setTimeout(done, withinMs, false).unref();
  return done;
}

function forget(memory: MemoryCache, scope: PurgeScope): number | Promise<number> {
  if (scope.kind === 'read') return memory.forget(scope.key);
  return scope.kind === 'everything' ? memory.clear() : memory.purge(scope);
}

/** `final`: a second head has passed the answer in time. `unproven`: none has. `dropped`: memory no longer has it. */
type ProvisionalEnd = 'final' | 'unproven' | 'dropped';

interface ProvisionalRead {
  readonly key: CacheKey;
  readonly awaited: Awaited;
  /** In ms of `performance.now()`. */
  readonly untilMs: number;
  readonly onEnd: (end: ProvisionalEnd) => void;
}

/** Some seconds of misses at the head. Beyond it, the oldest end unproven. */
const mostReads = 10_000;
/** Reads that end at once, and the pause in ms after them: store and Redis take so many writes, and drop what exceeds them. */
const readsAtOnce = 256;
const pauseMs = 5;

/** Reads in memory whose version only one node has reached. Each ends once; heads move far more rarely than reads come. */
export class ProvisionalReads {
  readonly #reads = new Map<string, ProvisionalRead>();
  /** No read awaits an earlier version. */
  #lowest: bigint | undefined;
  /** The second newest head. */
  #head = -1n;
  #isSettling = false;
  #isTimed = false;

  has(key: CacheKey): boolean {
    return this.#reads.size > 0 && this.#reads.has(nameOf(key));
  }

  /** `onEnd` is called once, when the read ends. */
  add(key: CacheKey, awaited: Awaited, onEnd: ProvisionalRead['onEnd']): void {
    this.drop(key);
    const [oldest] = this.#reads.size < mostReads ? [] : this.#reads.values();
    if (oldest !== undefined) this.#end(oldest, 'unproven');
    this.#reads.set(nameOf(key), { key, awaited, untilMs: performance.now() + awaited.withinMs, onEnd });
    if (this.#lowest === undefined || awaited.version < this.#lowest) this.#lowest = awaited.version;
    if (!this.#isTimed) this.#expireIn(awaited.withinMs);
  }

  /** Ends the read, if it is provisional, because another answer or none takes its place. */
  drop(key: CacheKey): void {
    const read = this.#reads.size === 0 ? undefined : this.#reads.get(nameOf(key));
    if (read !== undefined) this.#end(read, 'dropped');
  }

  /** Ends the reads of these keys as `drop` does. */
  dropAll(covers: (key: CacheKey) => boolean): void {
    // The ledger may have gone back: the next head counts.
    this.#head = -1n;
    for (const read of this.#reads.values()) if (covers(read.key)) this.#end(read, 'dropped');
  }

  /** Ends the reads that the second newest head has passed. One that was far above it proves no more than a late claim. */
  settle(head: bigint): void {
    this.#head = head;
    if (!this.#isSettling) this.#settleSome();
  }

  #settleSome(): void {
    if (this.#lowest === undefined || this.#head < this.#lowest) return;
    let lowest: bigint | undefined;
    let ended = 0;
    for (const read of this.#reads.values()) {
      const { version, isNear } = read.awaited;
      if (version > this.#head) {
        if (lowest === undefined || version < lowest) lowest = version;
      } else if (ended === readsAtOnce) return this.#settleMore();
      else {
        ended += 1;
        this.#end(read, isNear ? 'final' : 'unproven');
      }
    }
    this.#lowest = lowest;
  }

  #settleMore(): void {
    this.#isSettling = true;
    const goOn = (): void => {
      this.#isSettling = false;
      this.#settleSome();
    };
    setTimeout(goOn, pauseMs).unref();
  }

  /** Ends the reads whose time is over: they are in the order of their ends. */
  #expire(): void {
    this.#isTimed = false;
    const nowMs = performance.now();
    for (const read of this.#reads.values()) {
      if (read.untilMs > nowMs) return this.#expireIn(read.untilMs - nowMs);
      this.#end(read, 'unproven');
    }
  }

  #expireIn(ms: number): void {
    this.#isTimed = true;
    setTimeout(() => this.#expire(), ms).unref();
  }

  #end(read: ProvisionalRead, end: ProvisionalEnd): void {
    this.#reads.delete(nameOf(read.key));
    read.onEnd(end);
  }
}

function nameOf({ id, slot }: CacheKey): string {
  return `${id}${slot}`;
}
