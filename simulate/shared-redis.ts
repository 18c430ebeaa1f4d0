/**
 * One Redis of a group of replicas in simulated time: which answers are readable from when, who holds a lease, and what
 * each step costs in commands and bytes. A model of `shared-tier.ts`, `leases.ts` and `write-queue.ts`, which wait for
 * sockets; names and the slots they fall into are the product's own.
 */
import calculateSlot from 'cluster-key-slot';
import type { CachedResponse } from '../src/cache/entry.ts';
import type { CacheKey } from '../src/cache/key.ts';
import { firstPollMs, longestPollMs, pollGrowth } from '../src/cache/leases.ts';
import { RedisKeys } from '../src/cache/redis-keys.ts';
import { smallBytes } from '../src/cache/write-queue.ts';
import { storedBytes } from './measured.ts';
import type { Others, SharedRead } from './others.ts';
import type { RedisShape } from './shape.ts';
import type { Tally } from './tally.ts';

const slots = 16_384;
/** What a command and its answer take on the wire beside names and values. */
const wireBytes = 60;
const referenceBytes = 30;

/** A read as the tier looks at it. */
export interface RedisRead extends SharedRead {
  readonly key: CacheKey;
  readonly bodyBytes: number;
  /** Of the answer that it has. */
  readonly digest: string;
}

/** `found`: here at `readyMs`. `lead`: to be read, and written. `alone`: to be read, without Redis. */
export type Turn =
  | { readonly kind: 'found' | 'followed'; readonly readyMs: number }
  | { readonly kind: 'lead' | 'alone'; readonly readyMs: number };

export interface SharedRedisParts {
  readonly shape: RedisShape;
  readonly others: Others;
  readonly tally: Tally;
  /** What a load by another replica takes. */
  readonly loadMs: number;
}

export class SharedRedis {
  readonly #parts: SharedRedisParts;
  readonly #keys = new RedisKeys('lg', '1a2b3c4d', {
    id: '00000000',
    before: [],
    checkpoint: { version: 0n, root: '' },
  });
  /** From when on a key's answer can be read. */
  readonly #readable = new Map<string, number>();
  readonly #answers = new Set<string>();

  constructor(parts: SharedRedisParts) {
    this.#parts = parts;
  }

  /** Looks the read up, and takes its lease or waits for who has it. `holds`: the asker has an answer already. */
  take(read: RedisRead, atMs: number, rttMs: number, holds: (digest: string) => boolean): Turn {
    const { shape, others, loadMs } = this.#parts;
    // Who waits for the time-out once leaves Redis alone from then on.
    if (rttMs >= shape.timeoutMs) return { kind: 'alone', readyMs: atMs };
    this.#count(atMs, 'HGET', this.#keys.page(read.key), referenceBytes);
    const askedMs = atMs + rttMs;
    const readableMs = this.#readable.get(read.name) ?? (others.hasRead(read, atMs - loadMs) ? atMs : undefined);
    if (readableMs !== undefined && readableMs <= askedMs) {
      this.#readable.set(read.name, readableMs);
      return { kind: 'found', readyMs: this.#fetch(read, askedMs, rttMs, holds) };
    }
    this.#count(askedMs, 'SET', this.#keys.lease(read.key), 40);
    // Of others' loads under way all that is known is that they began less than a load ago.
    const endMs = readableMs ?? (others.hasRead(read, atMs) ? atMs + loadMs / 2 : undefined);
    if (endMs === undefined) return { kind: 'lead', readyMs: askedMs + rttMs };
    this.#readable.set(read.name, endMs);
    return { kind: 'followed', readyMs: this.#follow(read, { askedMs, endMs, rttMs, holds }) };
  }

  /** The leader has an answer, and writes it. */
  store(read: RedisRead, answer: CachedResponse, atMs: number, rttMs: number): void {
    const { tally } = this.#parts;
    const page = this.#keys.page(read.key);
    const name = this.#keys.answer(answer.digest);
    const bytes = storedBytes(answer.body.length);
    const isKnown = this.#answers.has(answer.digest);
    const asks = answer.body.length > smallBytes;
    if (asks) this.#count(atMs, 'PEXPIRE', name, 0);
    if (!asks || !isKnown) this.#count(atMs, 'SET', name, bytes);
    if (!isKnown && tally.counts(atMs)) tally.storedBytes += bytes + name.length;
    if (tally.counts(atMs)) tally.storedBytes += referenceBytes;
    this.#answers.add(answer.digest);
    this.#count(atMs, 'HSET', page, referenceBytes);
    this.#count(atMs, 'PEXPIRE', page, 0);
    this.#count(atMs, 'UNLINK', this.#keys.lease(read.key), 0);
    this.#readable.set(read.name, atMs + 2 * rttMs);
  }

  /** The leader's answer may not be kept: others find a word of that, and read for themselves. */
  refuse(read: RedisRead): void {
    this.#readable.delete(read.name);
  }

  /** When the leader's answer will be readable, so that who follows knows. */
  expect(read: RedisRead, readableMs: number): void {
    this.#readable.set(read.name, readableMs);
  }

  #fetch({ digest, bodyBytes }: RedisRead, atMs: number, rttMs: number, holds: (digest: string) => boolean): number {
    if (holds(digest)) return atMs;
    this.#count(atMs, 'GET', this.#keys.answer(digest), storedBytes(bodyBytes));
    return atMs + rttMs;
  }

  #follow(read: RedisRead, { askedMs, endMs, rttMs, holds }: Following): number {
    let nowMs = askedMs + rttMs;
    let pauseMs = firstPollMs;
    do {
      nowMs += pauseMs + 2 * rttMs;
      this.#count(nowMs, 'GET', this.#keys.lease(read.key), 36);
      this.#count(nowMs, 'HGET', this.#keys.page(read.key), referenceBytes);
      pauseMs = Math.min(pauseMs * pollGrowth, longestPollMs);
    } while (nowMs < endMs);
    return this.#fetch(read, nowMs, rttMs, holds);
  }

  #count(atMs: number, command: string, name: string, bytes: number): void {
    const { tally, shape } = this.#parts;
    const shard = shape.shards === 1 ? 0 : Math.floor((calculateSlot(name) * shape.shards) / slots);
    tally.command(atMs, { command, shard, bytes: wireBytes + name.length + bytes });
  }
}

interface Following {
  readonly askedMs: number;
  readonly endMs: number;
  readonly rttMs: number;
  readonly holds: (digest: string) => boolean;
}
