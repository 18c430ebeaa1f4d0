import { setTimeout } from 'node:timers/promises';
import { settlesWithin } from '../../ledger/index.ts';
import type { CachedResponse } from '../entry.ts';
import type { CacheKey } from '../key.ts';
import { bodyOffsetOf, writeHead } from '../record.ts';
import type { StoreLink } from './link.ts';
import type { Renewal, StoredWrite } from './protocol.ts';
import { nameBytes } from './writer.ts';

/** The outcome of one answer for the store. `dropped`: too many wait, it is too large, or a purge covers it. */
export type StoredOutcome = 'written' | 'failed' | 'dropped';

/** An answer to write. */
export interface QueuedWrite extends Omit<StoredWrite, 'at' | 'length'> {
  readonly key: CacheKey;
  /** The row's name, of `nameBytes`. */
  readonly name: Buffer;
  readonly answer: CachedResponse;
  /** Called once: when the answer is readable, or will not be. */
  readonly onDone: (isReadable: boolean) => void;
}

interface Waiting extends QueuedWrite {
  /** Bytes of the record. */
  readonly length: number;
}

/** Answers that wait at most. */
const mostWaiting = 4_096;
const mostWaitingBytes = 16 * 1024 * 1024;
/** Bytes of one batch: its copy takes less than a millisecond. A larger answer is a batch of its own. */
const batchBytes = 1024 * 1024;
const mostInBatch = 256;
const mostRenewals = 1_024;
/** Ms for which answers are gathered; while a batch is on its way, the next one gathers. A killed process loses these. */
const gatherMs = 2;
/** Ms at the end for which answers are still written: the next start reads the others again. */
const closeMs = 1_000;
/** Part of the store's bytes that one answer may take, and its most bytes. */
const largestShare = 1 / 64;
const mostAnswerBytes = 8 * 1024 * 1024;

/** Answers on their way to the store, bounded: where the disk is slow answers are dropped, and memory does not grow. */
export class StoreQueue {
  readonly #link: StoreLink;
  readonly #largest: number;
  readonly #onOutcome: (outcome: StoredOutcome, answers: number) => void;
  #waiting: Waiting[] = [];
  #bytes = 0;
  readonly #renewals = new Map<number, Renewal>();
  #isGathering = false;
  #isClosed = false;

  constructor(link: StoreLink, maxBytes: number, onOutcome: (outcome: StoredOutcome, answers: number) => void) {
    this.#link = link;
    this.#largest = Math.min(mostAnswerBytes, Math.floor(maxBytes * largestShare));
    this.#onOutcome = onOutcome;
  }

  add(write: QueuedWrite): void {
    const length = (bodyOffsetOf(write.answer) ?? Infinity) + write.answer.body.length;
    const isFull = this.#waiting.length >= mostWaiting || this.#bytes + length > mostWaitingBytes;
    if (this.#isClosed || isFull || length > this.#largest) {
      this.#end([write], 'dropped');
      return;
    }
    this.#waiting.push({ ...write, length });
    this.#bytes += length;
    this.#begin();
  }

  /** Moves a row that was used behind newer ones. */
  renew(renewal: Renewal): void {
    if (this.#renewals.size < mostRenewals) this.#renewals.set(renewal.id, renewal);
    this.#begin();
  }

  /** Cancels the writes whose key `covers`. A batch on its way is written ahead of every later work. */
  drop(covers: (key: CacheKey) => boolean): void {
    const dropped = this.#waiting.filter(({ key }) => covers(key));
    this.#waiting = this.#waiting.filter(({ key }) => !covers(key));
    for (const { length } of dropped) this.#bytes -= length;
    this.#end(dropped, 'dropped');
  }

  /** Resolves when everything that waits is written, has failed, or `closeMs` have passed. Later answers are dropped. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const endMs = performance.now() + closeMs;
    while (this.#waiting.length > 0 && performance.now() < endMs) {
      if (!(await settlesWithin(this.#writeNext(), endMs - performance.now()))) break;
    }
    this.drop(() => true);
  }

  #begin(): void {
    if (!this.#isGathering && !this.#isClosed) void this.#gather();
  }

  async #gather(): Promise<void> {
    this.#isGathering = true;
    await setTimeout(gatherMs, undefined, { ref: false });
    while (!this.#isClosed && (this.#waiting.length > 0 || this.#renewals.size > 0)) await this.#writeNext();
    this.#isGathering = false;
  }

  async #writeNext(): Promise<void> {
    const batch = this.#take();
    const renewals = [...this.#renewals.values()];
    this.#renewals.clear();
    const bytes = Buffer.allocUnsafeSlow(batch.reduce((sum, { length }) => sum + nameBytes + length, 0));
    let end = 0;
    const writes = batch.map(({ name, answer, length, digest, term, rest, read, account, overwrite }): StoredWrite => {
      const at = end;
      name.copy(bytes, at);
      writeHead(bytes, at + nameBytes, answer);
      end += nameBytes + length;
      answer.body.copy(bytes, end - answer.body.length);
      return { at, length, digest, term, rest, read, account, overwrite };
    });
    const isDone = await this.#link.do({ kind: 'write', batch: { bytes, writes, renewals } }, [bytes.buffer]);
    this.#end(batch, isDone ? 'written' : 'failed');
  }

  #take(): readonly Waiting[] {
    let [count, bytes] = [0, 0];
    for (const { length } of this.#waiting) {
      if (count === mostInBatch || (count > 0 && bytes + length > batchBytes)) break;
      count += 1;
      bytes += length;
    }
    this.#bytes -= bytes;
    return this.#waiting.splice(0, count);
  }

  #end(writes: readonly QueuedWrite[], outcome: StoredOutcome): void {
    if (writes.length > 0) this.#onOutcome(outcome, writes.length);
    for (const { onDone } of writes) onDone(outcome === 'written');
  }
}
