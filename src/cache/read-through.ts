/**
 * The tiers in order: memory, then one read at a time per key, then Redis, then whoever is asked to load. What was
 * found below is kept above.
 */
import { within, type Span } from '../trace/span.ts';
import type { StopSignal } from '../ledger/stop.ts';
import { Coalescer } from './coalesce.ts';
import type { CachedResponse } from './entry.ts';
import type { CacheKey } from './key.ts';
import type { Leases, Turn } from './redis/leases.ts';
import type { MemoryCache } from './memory/memory.ts';
import { keyMatcher, type PurgeScope } from './purge/purge-scope.ts';
import type { Inspected, Lookup, Miss, SharedTier } from './redis/shared-tier.ts';

/** What a load gave. `isFinal`: it is the answer for ever (or for as long as it says), and may be kept. */
export interface Loaded<Origin> {
  readonly answer: CachedResponse;
  readonly isFinal: boolean;
  readonly origin: Origin;
  /** The head of the node's own ledger when it answered; absent where no node told one. */
  readonly head?: bigint | undefined;
}

/** `span`: what it does is part of. */
export type Load<Origin> = (signal: StopSignal, span: Span | undefined) => Promise<Loaded<Origin>>;

/** The second tier and who reads for all replicas. */
export interface Shared {
  readonly tier: SharedTier;
  readonly leases: Leases;
  /** Counts look-ups in Redis by their outcome, and what they took. */
  readonly onLookup: (outcome: 'hit' | Miss, seconds: number) => void;
  /** Counts reads by whose turn it was. */
  readonly onTurn: (turn: 'lead' | 'alone' | 'followed') => void;
}

export interface ReadThroughParts {
  readonly memory: MemoryCache;
  readonly shared: Shared | undefined;
}

/** A load that is under way; `isPurged`: what it brings is not to be kept. `span`: what is done is part of. */
interface Running {
  readonly key: CacheKey;
  readonly span: Span | undefined;
  isPurged: boolean;
}

/** Who asks. */
interface Asking {
  readonly signal: StopSignal;
  readonly span?: Span | undefined;
}

/** Holders of a lease that one read waits for, one after another. */
const maxRounds = 3;

/** An answer found in Redis has this origin. */
export const fromRedis = 'redis';

export class ReadThrough<Origin> {
  readonly #parts: ReadThroughParts;
  readonly #loads = new Coalescer<Loaded<Origin | typeof fromRedis>>();
  readonly #running = new Set<Running>();
  /** Purges so far: who asks after one does not join a load that began before it. */
  #purges = 0;

  constructor(parts: ReadThroughParts) {
    this.#parts = parts;
  }

  /**
   * Looks in Redis and else loads, together with everyone who asks for the same `flight` now: one key, asked for in
   * one way. Rejects as `load` does. `span`: of who asks.
   */
  load(key: CacheKey, flight: string, { signal, span }: Asking, load: Load<Origin>) {
    const { shared } = this.#parts;
    const name = `${key.id}${key.slot}${flight}#${this.#purges}`;
    const lead = async (whole: StopSignal, part: Span | undefined) => {
      const running: Running = { key, span: part, isPurged: false };
      this.#running.add(running);
      try {
        return shared === undefined
          ? await this.#loadAlone(running, whole, load)
          : await this.#loadShared(running, whole, load, shared);
      } finally {
        this.#running.delete(running);
      }
    };
    return this.#loads.run(name, signal, lead, span);
  }

  /** What both tiers hold of a key; changes nothing. */
  async inspect(key: CacheKey): Promise<{
    readonly memory: CachedResponse | undefined;
    readonly redis: (Inspected & { readonly name: string | undefined }) | undefined;
  }> {
    const { memory, shared } = this.#parts;
    const redis = shared && { name: shared.tier.nameOf(key), ...(await shared.tier.inspect(key)) };
    return { memory: memory.peek(key), redis };
  }

  /**
   * Forgets what is within the scope, here: what memory holds, what is on its way to Redis, and what loads that are
   * under way will bring, which only those who wait for it already are given. Resolves to the number of reads that
   * memory held, when nothing of them can reach Redis from here any more.
   */
  async purge(scope: PurgeScope): Promise<number> {
    const { memory, shared } = this.#parts;
    const covers = keyMatcher(scope);
    this.#purges += 1;
    for (const running of this.#running) running.isPurged ||= covers(running.key);
    const dropped = shared?.tier.drop(covers);
    const reads = await forget(memory, scope);
    await dropped;
    return reads;
  }

  async #loadAlone(running: Running, signal: StopSignal, load: Load<Origin>): Promise<Loaded<Origin>> {
    return this.#kept(running, await load(signal, running.span));
  }

  async #loadShared(running: Running, signal: StopSignal, load: Load<Origin>, shared: Shared) {
    // Redis may add this much to a read, once, however many steps it takes.
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
    const turn = await within(span, 'lease', async (part) => {
      const taken = await this.#turn(key, signal, shared, untilMs, part);
      part?.note({ 'ledgergate.lease.turn': 'answer' in taken ? 'followed' : taken.kind });
      return taken;
    });
    if ('answer' in turn) return this.#found(running, turn);
    shared.onTurn(turn.kind);
    const overwrite = lookup.miss === 'damaged' || turn.sawDamage;
    return this.#lead(running, signal, load, { shared, turn, overwrite });
  }

  /** Whose turn it is, after as much waiting for other replicas as makes sense: or the answer one of them has read. */
  async #turn(
    key: CacheKey,
    signal: StopSignal,
    { leases, tier, onTurn }: Shared,
    untilMs: number,
    span: Span | undefined,
  ): Promise<Ahead | Found> {
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
      // The holder died or gave up: whoever is next reads for the rest.
      turn = await leases.take(key, performance.now() + tier.timeoutMs, span);
    }
    return { ...(turn.kind === 'follow' ? { kind: 'alone' } : turn), sawDamage };
  }

  async #lead(
    running: Running,
    signal: StopSignal,
    load: Load<Origin>,
    { shared, turn, overwrite }: { readonly shared: Shared; readonly turn: Turn; readonly overwrite: boolean },
  ): Promise<Loaded<Origin>> {
    const lease = turn.kind === 'lead' ? turn.lease : undefined;
    try {
      const loaded = this.#kept(running, await load(signal, running.span));
      if (loaded.isFinal && !running.isPurged)
        shared.tier.store(running.key, loaded.answer, {
          overwrite,
          head: loaded.head,
          onDone: (isReadable) => lease?.release(isReadable ? 'readable' : 'nothing'),
        });
      else lease?.release('nothing');
      return loaded;
    } catch (error) {
      lease?.release(signal.aborted ? 'abandoned' : 'nothing');
      throw error;
    }
  }

  #found(running: Running, { answer, ttlMs }: Found) {
    return this.#kept(running, { answer, isFinal: true, origin: fromRedis } as const, ttlMs);
  }

  #kept<Of>({ key, isPurged }: Running, loaded: Loaded<Of>, ttlMs?: number): Loaded<Of> {
    if (!loaded.isFinal || isPurged) return loaded;
    return { ...loaded, answer: this.#parts.memory.store(key, loaded.answer, ttlMs) };
  }
}

/** `sawDamage`: what another replica left is to be replaced. */
type Ahead = Exclude<Turn, { kind: 'follow' }> & { readonly sawDamage: boolean };

type Found = Extract<Lookup, { answer: unknown }>;

function forget(memory: MemoryCache, scope: PurgeScope): number | Promise<number> {
  if (scope.kind === 'read') return memory.forget(scope.key);
  return scope.kind === 'everything' ? memory.clear() : memory.purge(scope);
}

function outcomeOf(lookup: Lookup): 'hit' | Miss {
  return 'answer' in lookup ? 'hit' : lookup.miss;
}
