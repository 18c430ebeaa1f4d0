/**
 * The tiers in order: memory, then one read at a time per key, then Redis, then whoever is asked to load. What was
 * found below is kept above.
 */
import { Coalescer } from './coalesce.ts';
import type { CachedResponse } from './entry.ts';
import { keyText, type CacheKey } from './key.ts';
import type { Leases, Turn } from './leases.ts';
import type { MemoryCache } from './memory.ts';
import type { Lookup, Miss, SharedTier } from './shared-tier.ts';

/** What a load gave. `isFinal`: it is the answer for ever (or for as long as it says), and may be kept. */
export interface Loaded<Origin> {
  readonly answer: CachedResponse;
  readonly isFinal: boolean;
  readonly origin: Origin;
}

export type Load<Origin> = (signal: AbortSignal) => Promise<Loaded<Origin>>;

/** The second tier and who reads for all replicas. */
export interface Shared {
  readonly tier: SharedTier;
  readonly leases: Leases;
  /** Counts look-ups in Redis by their outcome. */
  readonly onLookup: (outcome: 'hit' | Miss) => void;
  /** Counts reads by whose turn it was. */
  readonly onTurn: (turn: Turn['kind'] | 'followed') => void;
}

export interface ReadThroughParts {
  readonly memory: MemoryCache;
  readonly shared: Shared | undefined;
}

/** Holders of a lease that one read waits for, one after another. */
const maxRounds = 3;

/** An answer found in Redis has this origin. */
export const fromRedis = 'redis';

export class ReadThrough<Origin> {
  readonly #parts: ReadThroughParts;
  readonly #loads = new Coalescer<Loaded<Origin | typeof fromRedis>>();

  constructor(parts: ReadThroughParts) {
    this.#parts = parts;
  }

  /** What memory holds. Costs no promise. */
  find(key: CacheKey): CachedResponse | undefined {
    return this.#parts.memory.find(key);
  }

  /**
   * Looks in Redis and else loads, together with everyone who asks for the same `flight` now: one key, asked for in
   * one way. Rejects as `load` does.
   */
  load(key: CacheKey, flight: string, signal: AbortSignal, load: Load<Origin>) {
    const { shared } = this.#parts;
    return this.#loads.run(`${keyText(key)}${flight}`, signal, (whole) =>
      shared === undefined ? this.#loadAlone(key, whole, load) : this.#loadShared(key, whole, load, shared),
    );
  }

  async #loadAlone(key: CacheKey, signal: AbortSignal, load: Load<Origin>): Promise<Loaded<Origin>> {
    return this.#kept(key, await load(signal));
  }

  async #loadShared(key: CacheKey, signal: AbortSignal, load: Load<Origin>, shared: Shared) {
    // Redis may add this much to a read, once, however many steps it takes.
    const untilMs = performance.now() + shared.tier.timeoutMs;
    const lookup = await shared.tier.find(key, untilMs);
    shared.onLookup(outcomeOf(lookup));
    if ('answer' in lookup) return this.#found(key, lookup);
    if (lookup.miss === 'unavailable') return this.#loadAlone(key, signal, load);
    const turn = await this.#turn(key, signal, shared, untilMs);
    if ('answer' in turn) return this.#found(key, turn);
    shared.onTurn(turn.kind);
    return this.#lead(key, signal, load, { shared, turn, overwrite: lookup.miss === 'damaged' });
  }

  /** Whose turn it is, after as much waiting for other replicas as makes sense: or the answer one of them has read. */
  async #turn(
    key: CacheKey,
    signal: AbortSignal,
    { leases, tier, onTurn }: Shared,
    untilMs: number,
  ): Promise<Exclude<Turn, { kind: 'follow' }> | Found> {
    let turn = await leases.take(key, untilMs);
    for (let round = 0; round < maxRounds && turn.kind === 'follow'; round += 1) {
      const followed = await leases.follow(key, tier, signal);
      if (followed === undefined) break;
      if ('answer' in followed) {
        onTurn('followed');
        return followed;
      }
      // The holder died or gave up: whoever is next reads for the rest.
      turn = await leases.take(key, performance.now() + tier.timeoutMs);
    }
    return turn.kind === 'follow' ? { kind: 'alone' } : turn;
  }

  async #lead(
    key: CacheKey,
    signal: AbortSignal,
    load: Load<Origin>,
    { shared, turn, overwrite }: { readonly shared: Shared; readonly turn: Turn; readonly overwrite: boolean },
  ): Promise<Loaded<Origin>> {
    const lease = turn.kind === 'lead' ? turn.lease : undefined;
    try {
      const loaded = this.#kept(key, await load(signal));
      if (loaded.isFinal)
        shared.tier.store(key, loaded.answer, { overwrite, onDone: () => lease?.release('readable') });
      else lease?.release('nothing');
      return loaded;
    } catch (error) {
      lease?.release(signal.aborted ? 'abandoned' : 'nothing');
      throw error;
    }
  }

  #found(key: CacheKey, { answer, ttlMs }: Found): Loaded<typeof fromRedis> {
    return { answer: this.#parts.memory.store(key, answer, ttlMs), isFinal: true, origin: fromRedis };
  }

  #kept(key: CacheKey, loaded: Loaded<Origin>): Loaded<Origin> {
    return loaded.isFinal ? { ...loaded, answer: this.#parts.memory.store(key, loaded.answer) } : loaded;
  }
}

type Found = Extract<Lookup, { answer: unknown }>;

function outcomeOf(lookup: Lookup): 'hit' | Miss {
  return 'answer' in lookup ? 'hit' : lookup.miss;
}
