import { setTimeout } from 'node:timers/promises';
import { bodyOffsetOf, writeHead } from '../record.ts';
import type { CachedResponse } from '../entry.ts';
import { WriteBehind, type QueuedWrite, type WriteOutcome } from '../write-behind.ts';
import type { Renewal, StoredWrite, StoreLink } from './link.ts';
import { nameBytes } from './writer.ts';

/** An answer to write; `bytes`: those of its record. */
export interface StoreWrite extends QueuedWrite, Omit<StoredWrite, 'at' | 'length'> {
  /** The row's name, of `nameBytes`. */
  readonly name: Buffer;
  readonly answer: CachedResponse;
}

/** One batch: its copy takes less than a millisecond. */
const batch = { writes: 256, bytes: 1024 * 1024 };
const mostRenewals = 1_024;
/** While a batch is on its way, the next one gathers. A killed process loses these answers. */
const gatherMs = 2;
/** Part of the store's bytes that one answer may take, and its most bytes. */
const largestShare = 1 / 64;
const mostAnswerBytes = 8 * 1024 * 1024;

/** Bytes of the answer's record; it may have none. */
export function recordBytes(answer: CachedResponse): number {
  return (bodyOffsetOf(answer) ?? Infinity) + answer.body.length;
}

/** Answers on their way to the store, one batch at a time. */
export class StoreWrites extends WriteBehind<StoreWrite> {
  readonly #link: StoreLink;
  readonly #renewals = new Map<number, Renewal>();
  #isRenewing = false;

  constructor(link: StoreLink, maxBytes: number, onOutcome: (outcome: WriteOutcome, answers: number) => void) {
    const largest = Math.min(mostAnswerBytes, Math.floor(maxBytes * largestShare));
    super({ writes: 4_096, bytes: 16 * 1024 * 1024, largest, batch, concurrent: 1, gatherMs }, onOutcome);
    this.#link = link;
  }

  /** Moves a row that was used behind newer ones. */
  renew(renewal: Renewal): void {
    if (this.#renewals.size < mostRenewals) this.#renewals.set(renewal.id, renewal);
    if (!this.#isRenewing) void this.#sendRenewals();
  }

  protected override async send(batch: readonly StoreWrite[]): Promise<WriteOutcome> {
    const renewals = [...this.#renewals.values()];
    this.#renewals.clear();
    const bytes = Buffer.allocUnsafeSlow(batch.reduce((sum, { bytes: length }) => sum + nameBytes + length, 0));
    let end = 0;
    const writes = batch.map(
      ({ name, answer, bytes: length, digest, term, rest, read, account, overwrite }): StoredWrite => {
        const at = end;
        name.copy(bytes, at);
        writeHead(bytes, at + nameBytes, answer);
        end += nameBytes + length;
        answer.body.copy(bytes, end - answer.body.length);
        return { at, length, digest, term, rest, read, account, overwrite };
      },
    );
    const isDone = await this.#link.do({ kind: 'write', batch: { bytes, writes, renewals } }, [bytes.buffer]);
    return isDone ? 'written' : 'failed';
  }

  /** Writes that no batch has taken along meanwhile. */
  async #sendRenewals(): Promise<void> {
    this.#isRenewing = true;
    do {
      await setTimeout(gatherMs, undefined, { ref: false });
      if (this.#renewals.size > 0) await this.send([]);
    } while (this.#renewals.size > 0);
    this.#isRenewing = false;
  }
}
