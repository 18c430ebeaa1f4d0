import { answerBytes, type CachedResponse } from '../entry.ts';
import type { CacheKey } from '../key.ts';
import { encodeRecord, encodeReference, type Reference } from '../record.ts';
import type { RedisLink } from './redis-link.ts';

/** An answer to write, with its reference. */
interface PendingWrite {
  readonly key: CacheKey;
  readonly answer: CachedResponse;
  readonly reference: Reference;
  /** Names in Redis of the page and of the answer. */
  readonly names: { readonly page: string; readonly answer: string };
  readonly ttlMs: number;
  /** The present entry is damaged. */
  readonly overwrite: boolean;
  /** Called once: when the answer is readable by other replicas, or will not be. */
  readonly onDone: (isReadable: boolean) => void;
}

/** `dropped`: the queue is full, the answer too large, or a purge covers it. */
export type WriteOutcome = 'written' | 'failed' | 'dropped';

/** Answers in the queue at most, those in flight included. */
const maxWrites = 1_024;
const maxBytes = 32 * 1024 * 1024;
/** Writes in flight at most: enough to fill a pipeline. */
const maxConcurrent = 32;
/** Smaller answers are rewritten without a check for presence: one command instead of one or two. */
export const smallBytes = 1_024;

/** Answers waiting to be written to Redis, bounded: with a slow Redis answers are dropped, and memory does not grow. */
export class WriteQueue {
  readonly #link: RedisLink;
  readonly #onOutcome: (outcome: WriteOutcome) => void;
  readonly #waiting: { readonly write: PendingWrite; readonly bytes: number }[] = [];
  readonly #writing = new Map<PendingWrite, Promise<void>>();
  /** Writes in flight that a purge covers: their reference must not be written. */
  readonly #unwanted = new WeakSet<PendingWrite>();
  #bytes = 0;

  constructor(link: RedisLink, onOutcome: (outcome: WriteOutcome) => void) {
    this.#link = link;
    this.#onOutcome = onOutcome;
  }

  /** Writes in the queue, those in flight included. */
  get size(): { readonly writes: number; readonly bytes: number } {
    return { writes: this.#waiting.length + this.#writing.size, bytes: this.#bytes };
  }

  add(write: PendingWrite): void {
    const bytes = answerBytes(write.answer);
    if (this.size.writes >= maxWrites || this.#bytes + bytes > maxBytes) {
      this.#end(write, 'dropped');
      return;
    }
    this.#bytes += bytes;
    this.#waiting.push({ write, bytes });
    this.#next();
  }

  /** Cancels writes whose key `covers`; resolves when none of them is in flight. */
  async drop(covers: (key: CacheKey) => boolean): Promise<void> {
    for (const waiting of this.#waiting.splice(0)) {
      if (!covers(waiting.write.key)) {
        this.#waiting.push(waiting);
        continue;
      }
      this.#bytes -= waiting.bytes;
      this.#end(waiting.write, 'dropped');
    }
    const begun = [...this.#writing].filter(([{ key }]) => covers(key));
    for (const [write] of begun) this.#unwanted.add(write);
    await Promise.all(begun.map(([, ended]) => ended));
  }

  #next(): void {
    while (this.#writing.size < maxConcurrent) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      const { write, bytes } = next;
      // An encoding may throw, such as out of memory.
      const written = this.#write(write).catch((): WriteOutcome => 'failed');
      const ended = written.then((outcome) => {
        this.#writing.delete(write);
        this.#bytes -= bytes;
        this.#end(write, outcome);
        this.#next();
      });
      this.#writing.set(write, ended);
    }
  }

  #end(write: PendingWrite, outcome: WriteOutcome): void {
    this.#onOutcome(outcome);
    write.onDone(outcome === 'written');
  }

  /** The answer before its reference: no reader finds a reference without an answer. */
  async #write(write: PendingWrite): Promise<WriteOutcome> {
    const outcome = await this.#writeAnswer(write);
    if (outcome !== 'written') return outcome;
    return !this.#unwanted.has(write) && (await this.#writeReference(write)) ? 'written' : 'failed';
  }

  async #writeAnswer({ answer, names, ttlMs, overwrite }: PendingWrite): Promise<WriteOutcome> {
    if (!overwrite && answer.body.length > smallBytes) {
      const renewed = await this.#link.write(names.answer, (client) => client.pexpire(names.answer, ttlMs));
      if (!('value' in renewed)) return 'failed';
      if (renewed.value === 1) return 'written';
    }
    if (this.#link.isClosed(names.answer)) return 'failed';
    const record = await encodeRecord(answer);
    if (record === undefined || record.length > this.#link.longestValue) return 'dropped';
    const set = await this.#link.write(names.answer, (client) => client.set(names.answer, record, 'PX', ttlMs));
    return 'value' in set ? 'written' : 'failed';
  }

  async #writeReference({ key, reference, names, ttlMs, overwrite }: PendingWrite): Promise<boolean> {
    const { page } = names;
    const text = encodeReference(key, reference);
    // Both at once: only a connection or primary lost between the two leaves a page without a TTL, until its next
    // reference.
    const set = () =>
      this.#link.write(page, async (client) => {
        const [added] = await Promise.all([client.hset(page, String(key.slot), text), client.pexpire(page, ttlMs)]);
        return added;
      });
    let outcome = await set();
    if ('failure' in outcome && outcome.failure === 'wrong type' && overwrite) {
      await this.#link.write(page, (client) => client.unlink(page));
      outcome = await set();
    }
    return 'value' in outcome;
  }
}
