/**
 * The second tier: answers in Redis, shared by all replicas. It is only speed: nothing here rejects, every wait is
 * bounded, and what cannot be read, or cannot be trusted, is a miss.
 */
import type { Redis } from 'ioredis';
import type { Span } from '../../trace/span.ts';
import { mutableTtlMs, type CachedResponse } from '../entry.ts';
import type { CacheKey } from '../key.ts';
import { decodeRecord, decodeReference, type Reference } from '../record.ts';
import type { AnswerNames } from './redis-keys.ts';
import type { RedisClient } from './redis-client.ts';
import type { CommandOptions, RedisOutcome, RedisLink } from './redis-link.ts';
import type { WriteQueue } from './write-queue.ts';

/** Why a look-up had no answer. `damaged`: something was there that is not ours or not whole, and is to be replaced. */
export type Miss = 'absent' | 'damaged' | 'unavailable';

/** `ttlMs`: for how long the answer still holds, where it does not hold for ever. */
export type Lookup = { readonly answer: CachedResponse; readonly ttlMs?: number | undefined } | { readonly miss: Miss };

export interface SharedTierParts {
  readonly link: RedisLink;
  readonly writes: WriteQueue;
  /** Answers this process holds already need not cross the wire again. */
  readonly findAnswer: (digest: string) => CachedResponse | undefined;
}

export interface SharedTierOptions {
  /** Bound of a whole look-up, in milliseconds. */
  readonly timeoutMs: number;
  /** How long answers are kept. */
  readonly ttlMs: number;
  /** Names of the ledger that is read now; `undefined` while that is not known: then nothing is looked up or kept. */
  readonly keys: () => AnswerNames | undefined;
}

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

  /** What Redis holds for the read. Waits at most until `untilMs`, of `performance.now()`. `span`: the look-up's. */
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

  /**
   * Keeps an answer, in the background. `overwrite`: what stands there is not to be trusted. `onDone` is called when
   * it is readable by others, or will not be.
   */
  store(key: CacheKey, answer: CachedResponse, { head, overwrite = false, onDone = () => {} }: StoreOptions): void {
    const keys = this.#options.keys();
    if (keys?.admits(head) !== true) {
      onDone(false);
      return;
    }
    const ttlMs = answer.isImmutable ? this.#options.ttlMs : Math.min(mutableTtlMs, this.#options.ttlMs);
    const reference: Reference = {
      digest: answer.digest,
      expiresAt: answer.isImmutable ? undefined : Math.ceil((Date.now() + ttlMs) / 1000),
    };
    const names = { page: keys.page(key), answer: keys.answer(answer.digest) };
    this.#parts.writes.add({ key, answer, reference, names, ttlMs, overwrite, onDone });
  }

  /** The name of the read's page in Redis; `undefined` while the ledger has no name. */
  nameOf(key: CacheKey): string | undefined {
    return this.#options.keys()?.page(key);
  }

  /** What Redis holds for the read, looked at apart: for an operator, and never for an answer. */
  async inspect(key: CacheKey): Promise<RedisInspection> {
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

  /** Gives up writes under way whose key `covers`; resolves when none is left. */
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
    // References outlive answers: Redis evicts what it likes, and a page lives as long as its youngest reference.
    if (found.value === null) return { miss: 'absent' };
    const answer = await decodeRecord(found.value, digest);
    return answer === undefined ? { miss: 'damaged' } : { answer };
  }
}

/** What is found of a read in Redis. */
export interface RedisInspection {
  readonly reference: 'found' | Miss;
  readonly digest?: string | undefined;
  /** Of answers that have to be asked for anew: seconds since the epoch. */
  readonly expiresAt?: number | undefined;
  /** How long the page with the reference is kept yet. */
  readonly ttlMs?: number | undefined;
  readonly answer?: 'found' | Miss;
  /** Of the answer's body, as clients get it. */
  readonly bytes?: number | undefined;
}

export interface StoreOptions {
  /** The head of the node's own ledger when it answered. */
  readonly head: bigint | undefined;
  readonly overwrite?: boolean;
  readonly onDone?: (isReadable: boolean) => void;
}

function missOf(outcome: Extract<RedisOutcome<unknown>, { failure: unknown }>): { readonly miss: Miss } {
  return { miss: outcome.failure === 'wrong type' ? 'damaged' : 'unavailable' };
}
