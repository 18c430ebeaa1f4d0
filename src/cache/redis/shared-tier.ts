import type { Redis } from 'ioredis';
import type { Span } from '../../metrics/index.ts';
import { answerBytes, type CachedResponse } from '../entry.ts';
import type { CacheKey } from '../key.ts';
import { decodeRecord, decodeReference, type Reference } from '../record.ts';
import type { AnswerNames } from './redis-keys.ts';
import type { RedisClient } from './redis-client.ts';
import type { CommandOptions, RedisOutcome, RedisLink } from './redis-link.ts';
import type { RedisWrites } from './redis-writes.ts';

/** The reason of a miss. `damaged`: the entry is foreign or truncated, and is to be overwritten. */
export type Miss = 'absent' | 'damaged' | 'unavailable';

/** The result of a look-up. `ttlMs`: remaining lifetime of a mutable answer. */
export type Lookup = { readonly answer: CachedResponse; readonly ttlMs?: number | undefined } | { readonly miss: Miss };

interface SharedTierParts {
  readonly link: RedisLink;
  readonly writes: RedisWrites;
  /** Looks in memory by digest, to save the transfer. */
  readonly findAnswer: (digest: string) => CachedResponse | undefined;
}

interface SharedTierOptions {
  /** Bound of a whole look-up, in milliseconds. */
  readonly timeoutMs: number;
  /** TTL of answers in Redis, in ms. */
  readonly ttlMs: number;
  /** Names of the current ledger and term; without them nothing is looked up or stored. */
  readonly keys: () => AnswerNames | undefined;
}

/** The second tier: answers in Redis, for all replicas. It is only speed: every wait is bounded, no method rejects. */
export class SharedTier {
  readonly #parts: SharedTierParts;
  readonly #options: SharedTierOptions;

  constructor(parts: SharedTierParts, options: SharedTierOptions) {
    this.#parts = parts;
    this.#options = options;
  }

  get timeoutMs(): number {
    return this.#options.timeoutMs;
  }

  /** Looks the read up. Waits at most until `untilMs`, of `performance.now()`. `span`: the look-up's. */
  async find(key: CacheKey, untilMs: number, span?: Span): Promise<Lookup> {
    const keys = this.#options.keys();
    if (keys === undefined) return { miss: 'unavailable' };
    const page = keys.page(key);
    const reference = await this.#reference(page, key, { untilMs, span });
    if ('miss' in reference) return reference;
    const ttlMs = reference.expiresAt === undefined ? undefined : reference.expiresAt * 1000 - Date.now();
    if (ttlMs !== undefined && ttlMs <= 0) return { miss: 'absent' };
    const held = this.#parts.findAnswer(reference.digest);
    const lookup =
      held === undefined
        ? await this.#fetch(keys.answer(reference.digest), reference, { untilMs, span })
        : { answer: held };
    return 'answer' in lookup ? { ...lookup, ttlMs } : lookup;
  }

  /** Stores an answer in the background. `onDone` is called once it is readable by other replicas, or will not be. */
  store(key: CacheKey, answer: CachedResponse, { head, overwrite = false, onDone = () => {} }: StoreOptions): void {
    const keys = this.#options.keys();
    if (keys?.admits(head) !== true) {
      onDone(false);
      return;
    }
    const ttlMs = Math.min(answer.lifetimeMs, this.#options.ttlMs);
    const reference: Reference = {
      digest: answer.digest,
      expiresAt: answer.lifetimeMs === Infinity ? undefined : Math.ceil((Date.now() + ttlMs) / 1000),
    };
    const names = { page: keys.page(key), answer: keys.answer(answer.digest) };
    const bytes = answerBytes(answer);
    this.#parts.writes.add({ key, bytes, answer, reference, names, ttlMs, overwrite, onDone });
  }

  /** The name of the read's page in Redis; `undefined` without names. */
  nameOf(key: CacheKey): string | undefined {
    return this.#options.keys()?.page(key);
  }

  /** Inspects the read's entry for an operator. */
  async inspect(key: CacheKey): Promise<EntryInspection> {
    const keys = this.#options.keys();
    if (keys === undefined) return { reference: 'unavailable' };
    const page = keys.page(key);
    const reference = await this.#reference(page, key, {});
    if ('miss' in reference) return { reference: reference.miss };
    const left = await this.#parts.link.read(page, (client) => client.pttl(page));
    const answer = await this.#fetch(keys.answer(reference.digest), reference, {});
    return {
      reference: 'found',
      digest: reference.digest,
      expiresAt: reference.expiresAt,
      ttlMs: 'value' in left ? left.value : undefined,
      answer: 'answer' in answer ? 'found' : answer.miss,
      bytes: 'answer' in answer ? answer.answer.body.length : undefined,
    };
  }

  /** Cancels pending writes whose key `covers`; resolves when none is left. */
  drop(covers: (key: CacheKey) => boolean): Promise<void> {
    return this.#parts.writes.drop(covers);
  }

  async #reference(page: string, key: CacheKey, options: CommandOptions): Promise<Reference | { readonly miss: Miss }> {
    const get = (client: RedisClient) => client.hget(page, String(key.slot));
    const found = await this.#parts.link.read(page, get, { ...options, name: 'HGET' });
    if (!('value' in found)) return missOf(found);
    if (found.value === null) return { miss: 'absent' };
    return decodeReference(key, found.value) ?? { miss: 'damaged' };
  }

  async #fetch(name: string, { digest }: Reference, options: CommandOptions): Promise<Lookup> {
    const get = (client: RedisClient) => (client as Redis).getBuffer(name);
    const found = await this.#parts.link.read(name, get, { ...options, name: 'GET' });
    if (!('value' in found)) return missOf(found);
    // References outlive answers: Redis evicts keys, and a page's TTL is that of its youngest reference.
    if (found.value === null) return { miss: 'absent' };
    const answer = await decodeRecord(found.value, digest);
    return answer === undefined ? { miss: 'damaged' } : { answer };
  }
}

/** A read's entry in Redis, for an operator. */
export interface EntryInspection {
  readonly reference: 'found' | Miss;
  readonly digest?: string | undefined;
  /** End of a mutable answer, in seconds since the epoch. */
  readonly expiresAt?: number | undefined;
  /** Remaining TTL of the page. */
  readonly ttlMs?: number | undefined;
  readonly answer?: 'found' | Miss;
  /** Length of the uncompressed body. */
  readonly bytes?: number | undefined;
}

interface StoreOptions {
  /** The head of the node's own ledger when it answered. */
  readonly head: bigint | undefined;
  readonly overwrite?: boolean;
  readonly onDone?: (isReadable: boolean) => void;
}

function missOf(outcome: Extract<RedisOutcome<unknown>, { failure: unknown }>): { readonly miss: Miss } {
  return { miss: outcome.failure === 'wrong type' ? 'damaged' : 'unavailable' };
}
