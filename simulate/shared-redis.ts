/**
 * One Redis of a group of replicas in simulated time: from when an answer can be read, which replica leads a read, and
 * the commands and bytes of each step. A model of `src/cache/redis/shared-tier.ts`.
 */
import type { CachedResponse } from '../src/cache/record.ts';
import { storedBytes } from './measured.ts';
import type { Others, SharedRead } from './others.ts';
import { uniformOf } from './random.ts';
import type { Tally } from './tally.ts';
import type { RedisShape } from './shape.ts';

/** Bytes of a command with its name and answer on the wire, without the value. */
const wireBytes = 140;
const referenceBytes = 30;
/** Polls of a follower: the first pause, its growth, and the longest one (`src/cache/redis/shared-tier.ts`). */
const poll = { firstMs: 4, growth: 1.5, longestMs: 40 } as const;
/** Answers above this size are written only where Redis does not hold them (`src/cache/redis/shared-tier.ts`). */
const smallBytes = 1_024;

/** `found` and `followed`: the answer is here at `readyMs`. `lead`: to be read from a node, and written. */
export interface Turn {
  readonly kind: 'found' | 'followed' | 'lead';
  readonly readyMs: number;
}

export interface SharedRedisParts {
  readonly others: Others;
  readonly tally: Tally;
  /** Time of a read of a node by another replica. */
  readonly readMs: number;
}

export class SharedRedis {
  readonly #shape: RedisShape;
  readonly #parts: SharedRedisParts;
  /** From when on the answer to a read can be read. */
  readonly #readable = new Map<string, number>();
  readonly #answers = new Set<string>();

  constructor(shape: RedisShape, parts: SharedRedisParts) {
    this.#shape = shape;
    this.#parts = parts;
  }

  /** Looks the read up, and takes its lease or follows its leader. `isHeld`: the replica holds an equal answer. */
  take(read: SharedRead, atMs: number, isHeld: boolean): Turn {
    const { rttMs } = this.#shape;
    const { others, readMs } = this.#parts;
    const loadMs = readMs + 2 * rttMs;
    this.#command(atMs, read, referenceBytes);
    const askedMs = atMs + rttMs;
    const readableMs = this.#readable.get(read.name) ?? (others.hasRead(read, atMs - loadMs) ? atMs : undefined);
    if (readableMs !== undefined && readableMs <= askedMs) {
      this.#readable.set(read.name, readableMs);
      return { kind: 'found', readyMs: this.#fetch(read, askedMs, isHeld) };
    }
    this.#command(askedMs, read, 40);
    // A read of another replica that is in flight began less than a load ago.
    const endMs = readableMs ?? (others.hasRead(read, atMs) ? atMs + loadMs / 2 : undefined);
    if (endMs === undefined) return { kind: 'lead', readyMs: askedMs + rttMs };
    this.#readable.set(read.name, endMs);
    let nowMs = askedMs + rttMs;
    for (let pauseMs: number = poll.firstMs; nowMs < endMs; pauseMs = Math.min(pauseMs * poll.growth, poll.longestMs)) {
      nowMs += pauseMs + 2 * rttMs;
      this.#command(nowMs, read, 36);
      this.#command(nowMs, read, referenceBytes);
    }
    return { kind: 'followed', readyMs: this.#fetch(read, nowMs, isHeld) };
  }

  /** The leader writes its answer. */
  store(read: SharedRead, answer: CachedResponse, atMs: number): void {
    const { tally } = this.#parts;
    const bytes = storedBytes(answer.body.length);
    const isNew = !this.#answers.has(answer.digest);
    const isLarge = answer.body.length > smallBytes;
    if (isLarge) this.#command(atMs, read, 0);
    if (!isLarge || isNew) this.#command(atMs, read, bytes);
    if (tally.counts(atMs)) tally.storedBytes += referenceBytes + (isNew ? bytes : 0);
    this.#answers.add(answer.digest);
    // The reference, its expiry, and the end of the lease.
    for (const sent of [referenceBytes, 0, 0]) this.#command(atMs, read, sent);
    this.#readable.set(read.name, atMs + 2 * this.#shape.rttMs);
  }

  #fetch(read: SharedRead, atMs: number, isHeld: boolean): number {
    if (isHeld) return atMs;
    this.#command(atMs, read, storedBytes(read.subject.bytes));
    return atMs + this.#shape.rttMs;
  }

  /** Versions of a subject lie in one slot. */
  #command(atMs: number, { subject }: SharedRead, bytes: number): void {
    const shard = Math.floor(uniformOf(subject.text, 5) * this.#shape.shards);
    this.#parts.tally.command(atMs, shard, wireBytes + bytes);
  }
}
