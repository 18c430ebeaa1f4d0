import { type Span, within } from '../metrics/index.ts';
import type { CancelSignal } from '../ledger/index.ts';
import { Coalescer, type FlightCaller } from './coalesce.ts';
import type { CachedResponse, Lookup, Miss } from './record.ts';
import { keyText, type CacheKey } from './key.ts';
import type { LeaseTurn } from './redis/leases.ts';
import type { MemoryCache } from './memory/memory.ts';
import { ProvisionalReads } from './provisional.ts';
import { keyMatcher, type PurgeScope } from './purge/purge-scope.ts';
import type { EntryInspection } from './redis/shared-tier.ts';
import type { AnswerLoad, ForgottenReads, Loaded, ReadFlights, SecondTier, StoreTier } from './tiers.ts';

interface ReadThroughParts {
  readonly memory: MemoryCache;
  readonly stored?: StoreTier | undefined;
  readonly shared: SecondTier | undefined;
  /** Called when other processes wait for an answer to become final. */
  readonly onAwaited?: () => void;
}

/** How a load asks a node. */
interface NodeLoad {
  readonly load: AnswerLoad;
  readonly isLeased: boolean;
  readonly signal: CancelSignal;
  readonly span: Span | undefined;
}

/** State of a load in flight, which a purge changes. A class, as `Flight` is. */
class RunningLoad {
  readonly key: CacheKey;
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

/** Longest wait in ms of other workers for an answer to be written to the store. */
const longestWriteMs = 100;
/** Lease holders that one read waits for, one after another. */
const maxRounds = 3;

/**
 * The tiers in order: memory, single flight per key, the store, Redis, a node. Memory takes every final answer, the store
 * and Redis take those of nodes.
 */
export class ReadThrough {
  readonly #parts: ReadThroughParts;
  readonly #loads = new Coalescer<Loaded>();
  readonly #running = new Set<RunningLoad>();
  readonly #provisional = new ProvisionalReads();
  #purges = 0;

  constructor(parts: ReadThroughParts) {
    this.#parts = parts;
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
    const name = `${key.id}${key.slot}${flight}#${this.#purges}`;
    return this.#loads.run(name, caller, (signal, span) => this.#lead(key, load, isLeased, signal, span), resultOf);
  }

  /** Keeps a final answer of a node that no load has asked for, in memory for `ttlMs`. */
  keep(key: CacheKey, loaded: Loaded, ttlMs: number): Loaded {
    return this.#kept(new RunningLoad(key), loaded, { ttlMs, shared: this.#parts.shared });
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
  async inspect(key: CacheKey): Promise<{
    readonly names: { readonly text: string; readonly redis: string | undefined; readonly field: string };
    readonly memory: CachedResponse | undefined;
    readonly store: 'hit' | Miss | 'off';
    readonly redis: EntryInspection | undefined;
  }> {
    const { memory, stored, shared } = this.#parts;
    const store = stored === undefined ? 'off' : outcomeOf(await stored.store.find(key, { isUse: false }));
    const names = { text: keyText(key), redis: shared?.tier.nameOf(key), field: String(key.slot) };
    return { names, memory: memory.peek(key), store, redis: await shared?.tier.inspect(key) };
  }

  /**
   * Drops the scope from memory and from writes that wait; loads in flight still answer their waiting clients, and are
   * not stored. Resolves to the number of reads dropped from memory, once none of them can reach Redis from here.
   */
  async forget(scope: PurgeScope): Promise<number> {
    const { memory, stored, shared } = this.#parts;
    const covers = keyMatcher(scope);
    this.#purges += 1;
    for (const running of this.#running) running.isPurged ||= covers(running.key);
    this.#provisional.dropAll(covers);
    stored?.store.drop(covers);
    const dropped = shared?.tier.drop(covers);
    const reads = await forget(memory, scope);
    await dropped;
    return reads;
  }

  /** Forgets the scope, and hides it in the store. `isStoreClear`: `undefined` without a store. */
  async purge(scope: PurgeScope): Promise<ForgottenReads> {
    const reads = await this.forget(scope);
    const { stored } = this.#parts;
    if (stored === undefined) return { reads, isStoreClear: undefined };
    // The store hides what was written until then; reads that it answered in between are forgotten once more.
    const isStoreClear = await stored.store.clear(scope);
    return { reads: reads + (await this.forget(scope)), isStoreClear };
  }

  async #findStored(running: RunningLoad, { store, onLookup }: StoreTier): Promise<Loaded | undefined> {
    const found = await store.find(running.key);
    onLookup(outcomeOf(found));
    running.storeMiss = 'miss' in found ? found.miss : undefined;
    if (!('answer' in found)) return undefined;
    return this.#kept(running, { answer: found.answer, origin: 'store' }, found);
  }

  async #lead(
    key: CacheKey,
    load: AnswerLoad,
    isLeased: boolean,
    signal: CancelSignal,
    span: Span | undefined,
  ): Promise<Loaded> {
    const { stored, shared } = this.#parts;
    const running = new RunningLoad(key);
    this.#running.add(running);
    try {
      const held = stored && (await this.#findStored(running, stored));
      if (held !== undefined) return held;
      if (shared !== undefined) return await this.#loadForReplicas(running, { load, isLeased, signal, span }, shared);
      // Without the store the other workers would wait for an answer that they cannot find.
      const flights = isLeased && running.storeMiss !== 'unavailable' ? stored?.flights : undefined;
      if (stored && flights)
        return await this.#loadForWorkers(running, { load, isLeased, signal, span }, stored, flights);
      return this.#kept(running, await load(signal, span));
    } finally {
      this.#running.delete(running);
    }
  }

  /** One worker of the machine reads for all. */
  async #loadForWorkers(
    running: RunningLoad,
    { load, signal, span }: NodeLoad,
    stored: StoreTier,
    flights: ReadFlights,
  ): Promise<Loaded> {
    const { key } = running;
    const name = `${key.id}${key.slot}`;
    if ((await flights.enter(name, stored.followMs())) === 'look') {
      return (await this.#findStored(running, stored)) ?? this.#kept(running, await load(signal, span));
    }
    try {
      return this.#kept(running, await load(signal, span), { onShared: () => flights.leave(name) });
    } catch (error) {
      flights.leave(name);
      throw error;
    }
  }

  /** One replica reads for all: the one that takes the lease. */
  async #loadForReplicas(
    running: RunningLoad,
    { load, isLeased, signal, span }: NodeLoad,
    shared: SecondTier,
  ): Promise<Loaded> {
    const { key } = running;
    // One bound for all steps in Redis together.
    const startedMs = performance.now();
    const untilMs = startedMs + shared.tier.timeoutMs;
    const lookup = await within(span, 'lookup', async (part) => {
      const found = await shared.tier.find(key, untilMs, part);
      part?.note({ 'ledgergate.redis.outcome': outcomeOf(found) });
      return found;
    });
    shared.onLookup(outcomeOf(lookup), (performance.now() - startedMs) / 1000);
    if ('answer' in lookup) return this.#kept(running, { answer: lookup.answer, origin: 'redis' }, lookup);
    if (lookup.miss === 'unavailable') return this.#kept(running, await load(signal, span));
    running.isDamaged = lookup.miss === 'damaged';
    const turn = !isLeased
      ? undefined
      : await within(span, 'lease', async (part) => {
          const taken = await this.#turn(running, signal, shared, untilMs, part);
          part?.note({ 'ledgergate.lease.turn': 'answer' in taken ? 'followed' : taken.kind });
          return taken;
        });
    if (turn !== undefined && 'answer' in turn)
      return this.#kept(running, { answer: turn.answer, origin: 'redis' }, turn);
    if (turn !== undefined) shared.onTurn(turn.kind);
    const lease = turn?.kind === 'lead' ? turn.lease : undefined;
    try {
      const onShared = (isReadable: boolean) => lease?.release(isReadable ? 'readable' : 'nothing');
      return this.#kept(running, await load(signal, span), { onShared, shared });
    } catch (error) {
      lease?.release(signal.aborted ? 'abandoned' : 'nothing');
      throw error;
    }
  }

  /** The lease's decision after following at most `maxRounds` holders, or the answer that one of them stored. */
  async #turn(
    running: RunningLoad,
    signal: CancelSignal,
    { leases, tier, onTurn }: SecondTier,
    untilMs: number,
    span: Span | undefined,
  ): Promise<Exclude<LeaseTurn, { kind: 'follow' }> | Extract<Lookup, { answer: unknown }>> {
    const { key } = running;
    let turn = await leases.take(key, untilMs, span);
    for (let round = 0; round < maxRounds && turn.kind === 'follow'; round += 1) {
      const followed = await leases.follow(key, tier, signal);
      if (followed === undefined) break;
      if ('answer' in followed) {
        onTurn('followed');
        return followed;
      }
      running.isDamaged ||= followed.miss === 'damaged';
      // The holder died or gave up: the next one to take the lease reads for the rest.
      turn = await leases.take(key, performance.now() + tier.timeoutMs, span);
    }
    return turn.kind === 'follow' ? { kind: 'alone' } : turn;
  }

  /** Keeps a final answer in memory, and a node's in the other tiers, a provisional one once it is final. */
  #kept(
    { key, isPurged, storeMiss, isDamaged }: RunningLoad,
    loaded: Loaded,
    { ttlMs, onShared, shared }: KeepOptions = {},
  ): Loaded {
    const { memory, stored, onAwaited } = this.#parts;
    const { origin, answer, awaited } = loaded;
    // Redis has bounds of its own; a slow disk, or a second node, delays other processes no longer than this.
    const isBounded = onShared !== undefined && (shared === undefined || awaited !== undefined);
    const done = isBounded ? soon(onShared) : (onShared ?? (() => {}));
    if (answer.lifetimeMs === 0 || isPurged) {
      done(false);
      return loaded;
    }
    // An answer of Redis may prove to be of another history: the store takes no copy.
    const store = typeof origin === 'string' ? undefined : stored?.store;
    const isShared = store !== undefined || shared !== undefined;
    const share = (final: CachedResponse, head: bigint | undefined): void => {
      const onStored = shared === undefined ? done : () => {};
      store?.store(key, final, { head, overwrite: storeMiss === 'damaged', onDone: onStored });
      shared?.tier.store(key, final, { head, overwrite: isDamaged, onDone: done });
    };
    this.#provisional.drop(key);
    const kept = memory.store(key, answer, ttlMs);
    if (!isShared || awaited?.isNear === false) done(false);
    if (awaited !== undefined) {
      this.#provisional.add(key, awaited, (end) => {
        const final = isShared && end === 'final' ? memory.peek(key) : undefined;
        if (final === undefined) done(false);
        else share(final, awaited.head());
        if (end === 'unproven') memory.forget(key);
      });
      if (isShared && awaited.isNear) onAwaited?.();
    } else if (isShared) share(kept, loaded.head);
    return kept === answer ? loaded : { ...loaded, answer: kept };
  }
}

interface KeepOptions {
  readonly ttlMs?: number | undefined;
  /** Called once, when other processes may find the answer, or will not. */
  readonly onShared?: (isReadable: boolean) => void;
  /** Redis, for an answer that it does not have yet. */
  readonly shared?: SecondTier | undefined;
}

/** Calls `done` once: with the first outcome, or after `longestWriteMs` without one. */
function soon(done: (isReadable: boolean) => void): (isReadable: boolean) => void {
  const end = (isReadable: boolean): void => {
    if (timer === undefined) return;
    clearTimeout(timer);
    timer = undefined;
    done(isReadable);
  };
  let timer: NodeJS.Timeout | undefined = setTimeout(end, longestWriteMs, false).unref();
  return end;
}

function forget(memory: MemoryCache, scope: PurgeScope): number | Promise<number> {
  if (scope.kind === 'read') return memory.forget(scope.key);
  return scope.kind === 'everything' ? memory.clear() : memory.purge(scope);
}

function outcomeOf(lookup: Lookup): 'hit' | Miss {
  return 'answer' in lookup ? 'hit' : lookup.miss;
}
