import { setTimeout } from 'node:timers/promises';
import type { Span } from '../../metrics/index.ts';
import { type CancelSignal, doneOrStopped } from '../../ledger/index.ts';
import type { CacheKey } from '../key.ts';
import type { Lookup } from '../record.ts';
import type { RedisLink } from './redis-link.ts';
import type { SharedTier } from './shared-tier.ts';

/** The right to read a key for all replicas. */
export interface Lease {
  /** To be called once. */
  release(outcome: LeaseEnd): void;
}

/** `readable`: Redis has the answer. `nothing`: there is none to share. `abandoned`: the load was aborted. */
type LeaseEnd = 'readable' | 'nothing' | 'abandoned';

/** `lead`: read for all. `follow`: another replica reads. `alone`: read without coordination. */
export type LeaseTurn =
  { readonly kind: 'lead'; readonly lease: Lease } | { readonly kind: 'follow' } | { readonly kind: 'alone' };

/** Lifetime of a lease in ms without a renewal. */
const leaseMs = 1_000;
/** Without the holder's name: a replica that ends another's lease by mistake costs one more read. */
const held = 'held';
/** Replaces the lease briefly after a read with nothing to share: followers read at once, without the lease. */
const nothing = 'nothing';
const nothingMs = 500;
/** Pauses in ms between polls for another replica's answer: the first, their growth, the longest. */
const firstPollMs = 4;
const pollGrowth = 1.5;
const longestPollMs = 40;

/**
 * One reader per key among all replicas: the lease's holder asks a node, the others poll for its answer. A lease is
 * short and renewed during the load, so that a dead holder delays others only briefly. It only saves work: in doubt, a
 * replica reads on its own.
 */
export class Leases {
  readonly #link: RedisLink;
  readonly #nameOf: (key: CacheKey) => string | undefined;
  readonly #settings: { readonly followMs: number };

  /**
   * `nameOf`: a key's lease in Redis; `undefined` while the ledger has no epoch. `settings`, which are live: `followMs`,
   * the longest wait for another replica's read.
   */
  constructor(link: RedisLink, nameOf: (key: CacheKey) => string | undefined, settings: { readonly followMs: number }) {
    this.#link = link;
    this.#nameOf = nameOf;
    this.#settings = settings;
  }

  /** Tries to take the lease on `key`. Waits at most until `untilMs`, of `performance.now()`. */
  async take(key: CacheKey, untilMs: number, span?: Span): Promise<LeaseTurn> {
    const name = this.#nameOf(key);
    if (name === undefined) return { kind: 'alone' };
    const options = { untilMs, span, name: 'SET' };
    const taken = await this.#link.write(name, (client) => client.set(name, held, 'PX', leaseMs, 'NX'), options);
    if (!('value' in taken)) return { kind: 'alone' };
    return taken.value === null ? { kind: 'follow' } : { kind: 'lead', lease: this.#hold(name) };
  }

  /**
   * Waits for another replica's answer; `undefined` when none will come; a miss when its lease ended without one. Polls
   * with growing pauses: messages could be lost, and one poll per key and replica costs next to nothing.
   */
  async follow(key: CacheKey, tier: SharedTier, signal: CancelSignal): Promise<Lookup | undefined> {
    const name = this.#nameOf(key);
    if (name === undefined) return undefined;
    const untilMs = performance.now() + this.#settings.followMs;
    let pauseMs = firstPollMs;
    while (performance.now() < untilMs && !signal.aborted) {
      await doneOrStopped(setTimeout(pauseMs, undefined, { ref: false }), signal);
      // The lease first: its holder writes the answer before it releases the lease.
      const lease = await this.#link.read(name, (client) => client.get(name));
      const lookup = await tier.find(key, performance.now() + tier.timeoutMs);
      if ('answer' in lookup) return lookup;
      if (!('value' in lease) || lookup.miss === 'unavailable' || lease.value === nothing) return undefined;
      if (lease.value === null) return lookup;
      pauseMs = Math.min(pauseMs * pollGrowth, longestPollMs);
    }
    return undefined;
  }

  #hold(name: string): Lease {
    const renew = (): void => {
      void this.#link.write(name, (client) => client.set(name, held, 'PX', leaseMs, 'XX'));
    };
    const timer = setInterval(renew, leaseMs / 3).unref();
    return {
      release: (outcome) => {
        clearInterval(timer);
        if (outcome === 'nothing') void this.#link.write(name, (client) => client.set(name, nothing, 'PX', nothingMs));
        // A `read`: Redis allows UNLINK where it refuses writes, such as out of memory.
        else void this.#link.read(name, (client) => client.unlink(name));
      },
    };
  }
}
