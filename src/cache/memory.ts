/** The first tier: least recently used answers in memory, bounded by bytes. */
import { LRUCache } from 'lru-cache';
import { entryBytes, type CachedResponse } from './entry.ts';
import type { CacheKey } from './key.ts';

export interface MemoryOptions {
  readonly maxBytes: number;
  onEvict(): void;
}

/** No single answer may push out more than this share of everything else. */
const largestShare = 1 / 8;

/** A committed transaction may be rendered anew after a module upgrade (protocol 1.1), so it is asked for again. */
const mutableTtlMs = 10 * 60_000;

export class MemoryCache {
  readonly #entries: LRUCache<CacheKey, CachedResponse>;

  constructor(options: MemoryOptions) {
    this.#entries = new LRUCache<CacheKey, CachedResponse>({
      maxSize: options.maxBytes,
      maxEntrySize: Math.max(1, Math.floor(options.maxBytes * largestShare)),
      sizeCalculation: (entry, key) => entryBytes(key, entry),
      dispose: (_entry, _key, reason) => {
        if (reason === 'evict') options.onEvict();
      },
      // The clock is read once in this many ms, not at every look-up.
      ttlResolution: 1000,
    });
  }

  find(key: CacheKey): CachedResponse | undefined {
    return this.#entries.get(key);
  }

  store(key: CacheKey, entry: CachedResponse): void {
    this.#entries.set(key, entry, entry.isImmutable ? undefined : { ttl: mutableTtlMs });
  }

  get fill(): { readonly entries: number; readonly bytes: number } {
    return { entries: this.#entries.size, bytes: this.#entries.calculatedSize };
  }
}
