/**
 * Answers on their way to Redis, written in the background. Bounded in number and in bytes: when Redis is slower than
 * the nodes, answers are not shared, and memory does not grow.
 */
import { answerBytes, type CachedResponse } from '../entry.ts';
import type { CacheKey } from '../key.ts';
import { encodeRecord, encodeReference, type Reference } from '../record.ts';
import type { RedisLink } from './redis-link.ts';

export interface PendingWrite {
  readonly key: CacheKey;
  readonly answer: CachedResponse;
  readonly reference: Reference;
  /** Names in Redis of the page and of the answer. */
  readonly names: { readonly page: string; readonly answer: string };
  readonly ttlMs: number;
  /** What stands there is not to be trusted. */
  readonly overwrite: boolean;
  /** Called once: when it is readable by others, or will not be. */
  readonly onDone: (isReadable: boolean) => void;
}

/** `dropped`: too many wait, or it is too large to be shared. */
export type WriteOutcome = 'written' | 'failed' | 'dropped';

/** Answers waiting or being written at most. */
const maxWrites = 1_024;
const maxBytes = 32 * 1024 * 1024;
/** Written at a time: enough to fill a pipeline. */
const maxConcurrent = 32;
/** Smaller answers are written again rather than asked after: that takes one command instead of one or two. */
export const smallBytes = 1_024;

export class WriteQueue {
  readonly #link: RedisLink;
  readonly #onOutcome: (outcome: WriteOutcome) => void;
  readonly #waiting: { readonly write: PendingWrite; readonly bytes: number }[] = [];
  readonly #writing = new Map<PendingWrite, Promise<void>>();
  /** Writes that have begun and are not to be ended. */
  readonly #unwanted = new WeakSet<PendingWrite>();
  #bytes = 0;

  constructor(link: RedisLink, onOutcome: (outcome: WriteOutcome) => void) {
    this.#link = link;
    this.#onOutcome = onOutcome;
  }

  /** What waits or is being written. */
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

  /** Gives up writes whose key `covers`; resolves when none of them is under way any more. */
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
      // What cannot be encoded, for want of memory for example, has failed like what cannot be sent.
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

  /** First the answer, then what refers to it, so that no reader finds a reference that leads nowhere. */
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
    // Both at once: only a connection, or a primary, that is lost between the two leaves a page without an end, and the
    // page's next reference gives it one.
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
