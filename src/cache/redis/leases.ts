/**
 * One reader per key among all replicas: who gets the lease asks a node, the others look for what it writes. A lease
 * is short and renewed while its holder works, so a holder that dies holds nobody up for long; and it only saves work:
 * when in doubt, a replica reads on its own.
 */
import type { Span } from '../../trace/span.ts';
import type { CancelSignal } from '../../ledger/stop.ts';
import type { CacheKey } from '../key.ts';
import type { RedisLink } from './redis-link.ts';
import type { Lookup, SharedTier } from './shared-tier.ts';

/** The right to read for all. */
export interface Lease {
  /** To be called once, with what became of it. */
  release(outcome: LeaseEnd): void;
}

/** `readable`: others find the answer now. `nothing`: there is none to be shared. `abandoned`: nobody read it. */
export type LeaseEnd = 'readable' | 'nothing' | 'abandoned';

/** `lead`: read, and tell the others. `follow`: another replica reads. `alone`: read without regard to others. */
export type Turn =
  { readonly kind: 'lead'; readonly lease: Lease } | { readonly kind: 'follow' } | { readonly kind: 'alone' };

export interface LeaseOptions {
  /** Name of a key's lease in Redis; `undefined` while it has none. */
  readonly nameOf: (key: CacheKey) => string | undefined;
  /** A holder that is silent for this long has died. Default 1000. */
  readonly leaseMs?: number;
  /** Longest wait for another replica's read. */
  readonly followMs: number;
}

/** Whose it is makes no difference: who loses a lease to another, and ends that one, costs a read more. */
const held = 'held';
/** Stands in the lease's place for a moment when a read gave nothing to share: nobody need queue up for the same. */
const nothing = 'nothing';
const nothingMs = 500;
/** Pauses between two looks for another replica's answer, in milliseconds: the first, how they grow, and the longest. */
export const firstPollMs = 4;
export const pollGrowth = 1.5;
export const longestPollMs = 40;

export class Leases {
  readonly #link: RedisLink;
  readonly #options: LeaseOptions;
  readonly #leaseMs: number;

  constructor(link: RedisLink, options: LeaseOptions) {
    this.#link = link;
    this.#options = options;
    this.#leaseMs = options.leaseMs ?? 1_000;
  }

  /** Whose turn it is to read `key`. Waits at most until `untilMs`, of `performance.now()`. */
  async take(key: CacheKey, untilMs: number, span?: Span): Promise<Turn> {
    const name = this.#options.nameOf(key);
    if (name === undefined) return { kind: 'alone' };
    const options = { untilMs, span, name: 'SET' };
    const taken = await this.#link.write(name, (client) => client.set(name, held, 'PX', this.#leaseMs, 'NX'), options);
    if (!('value' in taken)) return { kind: 'alone' };
    return taken.value === null ? { kind: 'follow' } : { kind: 'lead', lease: this.#hold(name) };
  }

  /**
   * Waits for what another replica reads: its answer, or `undefined` when there will be none to be found. Polls, with
   * growing pauses: a message could be lost, and one poll per key and replica costs next to nothing.
   */
  async follow(key: CacheKey, tier: SharedTier, signal: CancelSignal): Promise<Lookup | undefined> {
    const name = this.#options.nameOf(key);
    if (name === undefined) return undefined;
    const untilMs = performance.now() + this.#options.followMs;
    let pauseMs = firstPollMs;
    while (performance.now() < untilMs && !signal.aborted) {
      await pause(pauseMs, signal);
      // The lease is looked at first: what its holder wrote was written before it let go.
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
      void this.#link.write(name, (client) => client.set(name, held, 'PX', this.#leaseMs, 'XX'));
    };
    const timer = setInterval(renew, this.#leaseMs / 3);
    timer.unref();
    return {
      release: (outcome) => {
        clearInterval(timer);
        if (outcome === 'nothing') void this.#link.write(name, (client) => client.set(name, nothing, 'PX', nothingMs));
        // Removing is allowed where writing is not, for want of memory for example.
        else void this.#link.read(name, (client) => client.unlink(name));
      },
    };
  }
}

/** Resolves after `ms`, or as soon as nobody wants to wait any more. */
function pause(ms: number, signal: CancelSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
  });
}
