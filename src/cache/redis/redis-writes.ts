import type { CachedResponse } from '../entry.ts';
import { encodeRecord, encodeReference, type Reference } from '../record.ts';
import { WriteBehind, type QueuedWrite, type WriteOutcome } from '../write-behind.ts';
import type { RedisLink } from './redis-link.ts';

/** An answer to write, with its reference. */
interface RedisWrite extends QueuedWrite {
  readonly answer: CachedResponse;
  readonly reference: Reference;
  /** Names in Redis of the page and of the answer. */
  readonly names: { readonly page: string; readonly answer: string };
  readonly ttlMs: number;
  /** The present entry is damaged. */
  readonly overwrite: boolean;
}

/** Writes in flight: enough to fill a pipeline. */
const concurrent = 32;
/** Smaller answers are rewritten without a check for presence: one command instead of one or two. */
export const smallBytes = 1_024;

/** Answers on their way to Redis. */
export class RedisWrites extends WriteBehind<RedisWrite> {
  readonly #link: RedisLink;

  constructor(link: RedisLink, onOutcome: (outcome: WriteOutcome, answers: number) => void) {
    const batch = { writes: 1, bytes: Infinity };
    super({ writes: 1_024, bytes: 32 * 1024 * 1024, batch, concurrent, gatherMs: 0 }, onOutcome);
    this.#link = link;
  }

  /** The answer before its reference: no reader finds a reference without an answer. */
  protected override async send([write]: readonly [RedisWrite]): Promise<WriteOutcome> {
    const outcome = await this.#writeAnswer(write);
    if (outcome !== 'written') return outcome;
    return !this.isUnwanted(write) && (await this.#writeReference(write)) ? 'written' : 'failed';
  }

  async #writeAnswer({ answer, names, ttlMs, overwrite }: RedisWrite): Promise<WriteOutcome> {
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

  async #writeReference({ key, reference, names, ttlMs, overwrite }: RedisWrite): Promise<boolean> {
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
