import { type Span, within } from '../metrics/index.ts';
import type { CancelSignal } from '../ledger/index.ts';
import { Coalescer } from './coalesce.ts';
import type { CachedResponse } from './entry.ts';
import { keyText, type CacheKey } from './key.ts';
import type { LeaseTurn } from './redis/leases.ts';
import type { MemoryCache } from './memory/memory.ts';
import { ProvisionalReads } from './provisional.ts';
import { keyMatcher, type PurgeScope } from './purge/purge-scope.ts';
import type { Lookup, Miss } from './record.ts';
import type { EntryInspection } from './redis/shared-tier.ts';
import type { AnswerLoad, ForgottenReads, Loaded, SecondTier, StoreTier } from './tiers.ts';

interface ReadThroughParts {
  readonly memory: MemoryCache;
  readonly stored?: StoreTier | undefined;
  readonly shared: SecondTier | undefined;
  /** Called when other processes wait for an answer to become final. */
  readonly onAwaited?: () => void;
}

/** A load in flight; `isPurged`: its answer must not be stored. */
interface RunningLoad {
  readonly key: CacheKey;
  readonly span: Span | undefined;
  isPurged: boolean;
  /** Why the store gave no answer; a damaged row is overwritten. */
  storeMiss: Miss | undefined;
}

interface LoadCaller {
  readonly signal: CancelSignal;
  readonly span?: Span | undefined;
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
   * replica, or one worker, loads for all. Rejects as `load` does.
   */
  load(key: CacheKey, flight: string, { signal, span }: LoadCaller, load: AnswerLoad, isLeased = true) {
    const { stored, shared } = this.#parts;
    const name = `${key.id}${key.slot}${flight}#${this.#purges}`;
    const lead = async (whole: CancelSignal, part: Span | undefined) => {
      const running: RunningLoad = { key, span: part, isPurged: false, storeMiss: undefined };
      this.#running.add(running);
      try {
        const held = stored && (await this.#findStored(running, stored));
        if (held !== undefined) return held;
        return shared === undefined
          ? await this.#loadHere(running, whole, load, isLeased)
          : await this.#loadShared(running, whole, load, shared, isLeased);
      } finally {
        this.#running.delete(running);
      }
    };
    return this.#loads.run(name, signal, lead, span);
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

  /** Without Redis: one worker of the machine reads for all. */
  async #loadHere(running: RunningLoad, signal: CancelSignal, load: AnswerLoad, isLeased: boolean) {
    const { stored } = this.#parts;
    const { flights } = stored ?? {};
    // Without the store the others would wait for an answer that they cannot find.
    const isAway = running.storeMiss === 'unavailable';
    if (stored === undefined || flights === undefined || isAway || !isLeased)
      return this.#loadAlone(running, signal, load);
    const name = `${running.key.id}${running.key.slot}`;
    if ((await flights.enter(name, stored.followMs())) === 'look') {
      return (await this.#findStored(running, stored)) ?? this.#loadAlone(running, signal, load);
    }
    const loaded = await load(signal, running.span).catch((error: unknown) => {
      flights.leave(name);
      throw error;
    });
    return this.#kept(running, loaded, { onShared: () => flights.leave(name) });
  }

  async #loadAlone(running: RunningLoad, signal: CancelSignal, load: AnswerLoad): Promise<Loaded> {
    return this.#kept(running, await load(signal, running.span));
  }

  async #loadShared(
    running: RunningLoad,
    signal: CancelSignal,
    load: AnswerLoad,
    shared: SecondTier,
    isLeased: boolean,
  ) {
    // One bound for all steps in Redis together.
    const startedMs = performance.now();
    const untilMs = startedMs + shared.tier.timeoutMs;
    const { key, span } = running;
    const lookup = await within(span, 'lookup', async (part) => {
      const found = await shared.tier.find(key, untilMs, part);
      part?.note({ 'ledgergate.redis.outcome': outcomeOf(found) });
      return found;
    });
    shared.onLookup(outcomeOf(lookup), (performance.now() - startedMs) / 1000);
    if ('answer' in lookup) return this.#found(running, lookup);
    if (lookup.miss === 'unavailable') return this.#loadAlone(running, signal, load);
    const isDamaged = lookup.miss === 'damaged';
    if (!isLeased) return this.#lead(running, signal, load, { shared, turn: { kind: 'alone' }, overwrite: isDamaged });
    const turn = await within(span, 'lease', async (part) => {
      const taken = await this.#turn(key, signal, shared, untilMs, part);
      part?.note({ 'ledgergate.lease.turn': 'answer' in taken ? 'followed' : taken.kind });
      return taken;
    });
    if ('answer' in turn) return this.#found(running, turn);
    shared.onTurn(turn.kind);
    return this.#lead(running, signal, load, { shared, turn, overwrite: isDamaged || turn.sawDamage });
  }

  /** The lease's decision after following at most `maxRounds` holders, or the answer that one of them stored. */
  async #turn(
    key: CacheKey,
    signal: CancelSignal,
    { leases, tier, onTurn }: SecondTier,
    untilMs: number,
    span: Span | undefined,
  ): Promise<LoadTurn | LookupHit> {
    let turn = await leases.take(key, untilMs, span);
    let sawDamage = false;
    for (let round = 0; round < maxRounds && turn.kind === 'follow'; round += 1) {
      const followed = await leases.follow(key, tier, signal);
      if (followed === undefined) break;
      if ('answer' in followed) {
        onTurn('followed');
        return followed;
      }
      sawDamage ||= followed.miss === 'damaged';
      // The holder died or gave up: the next one to take the lease reads for the rest.
      turn = await leases.take(key, performance.now() + tier.timeoutMs, span);
    }
    return { ...(turn.kind === 'follow' ? { kind: 'alone' } : turn), sawDamage };
  }

  async #lead(
    running: RunningLoad,
    signal: CancelSignal,
    load: AnswerLoad,
    { shared, turn, overwrite }: { readonly shared: SecondTier; readonly turn: LeaseTurn; readonly overwrite: boolean },
  ): Promise<Loaded> {
    const lease = turn.kind === 'lead' ? turn.lease : undefined;
    try {
      const loaded = await load(signal, running.span);
      const onShared = (isReadable: boolean) => lease?.release(isReadable ? 'readable' : 'nothing');
      return this.#kept(running, loaded, { onShared, shared, overwrite });
    } catch (error) {
      lease?.release(signal.aborted ? 'abandoned' : 'nothing');
      throw error;
    }
  }

  #found(running: RunningLoad, { answer, ttlMs }: LookupHit) {
    return this.#kept(running, { answer, origin: 'redis' }, { ttlMs });
  }

  /** Keeps a final answer in memory, and a node's in the other tiers, a provisional one once it is final. */
  #kept(
    { key, isPurged, storeMiss }: RunningLoad,
    loaded: Loaded,
    { ttlMs, onShared, shared, overwrite = false }: KeepOptions = {},
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
      shared?.tier.store(key, final, { head, overwrite, onDone: done });
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
    return { ...loaded, answer: kept };
  }
}

interface KeepOptions {
  readonly ttlMs?: number | undefined;
  /** Called once, when other processes may find the answer, or will not. */
  readonly onShared?: (isReadable: boolean) => void;
  /** Redis, for an answer that it does not have yet. */
  readonly shared?: SecondTier;
  /** Redis holds a damaged entry. */
  readonly overwrite?: boolean;
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

/** `sawDamage`: Redis holds a damaged entry, which the load overwrites. */
type LoadTurn = Exclude<LeaseTurn, { kind: 'follow' }> & { readonly sawDamage: boolean };

type LookupHit = Extract<Lookup, { answer: unknown }>;

function forget(memory: MemoryCache, scope: PurgeScope): number | Promise<number> {
  if (scope.kind === 'read') return memory.forget(scope.key);
  return scope.kind === 'everything' ? memory.clear() : memory.purge(scope);
}

function outcomeOf(lookup: Lookup): 'hit' | Miss {
  return 'answer' in lookup ? 'hit' : lookup.miss;
}
