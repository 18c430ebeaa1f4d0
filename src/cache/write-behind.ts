import { settlesWithin } from '../ledger/index.ts';
import type { CacheKey } from './key.ts';

/** How a tier writes an answer. */
export interface WriteOptions {
  /** The head of the node's own ledger when it answered; without one, the answer is not written. */
  readonly head: bigint | undefined;
  /** The tier's present entry is damaged. */
  readonly overwrite?: boolean;
  readonly onDone?: QueuedWrite['onDone'];
}

/** An answer on its way to a tier. */
export interface QueuedWrite {
  readonly key: CacheKey;
  /** Bytes that it holds in memory. */
  readonly bytes: number;
  /** Called once: when other processes can read the answer, or will not be able to. */
  readonly onDone: (isReadable: boolean) => void;
}

/** The outcome of one answer. `dropped`: too many wait, it is too large, or a purge covers it. */
export type WriteOutcome = 'written' | 'failed' | 'dropped';

/** Bounds of one queue; bytes are the sum of `QueuedWrite.bytes`. */
interface QueueBounds {
  /** Answers and their bytes, those in flight included. */
  readonly writes: number;
  readonly bytes: number;
  /** Bytes of one answer. Default: any. */
  readonly largest?: number;
  /** Bytes of one batch; an answer of more is a batch of its own. */
  readonly batch: { readonly writes: number; readonly bytes: number };
  /** Batches in flight. */
  readonly concurrent: number;
  /** Ms for which the first answers are gathered. */
  readonly gatherMs: number;
}

/** Ms at the end for which answers are still written: other processes read the rest again. */
const closeMs = 1_000;

/** Answers on their way to a tier, bounded: where the tier is slow they are dropped, and memory does not grow. */
export abstract class WriteBehind<Write extends QueuedWrite> {
  readonly #bounds: QueueBounds;
  readonly #onOutcome: (outcome: WriteOutcome, answers: number) => void;
  #waiting: Write[] = [];
  readonly #inFlight = new Map<readonly Write[], Promise<void>>();
  /** Writes in flight that a purge covers. */
  readonly #unwanted = new WeakSet<Write>();
  /** Sums of all writes, those in flight included. */
  #writes = 0;
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(bounds: QueueBounds, onOutcome: (outcome: WriteOutcome, answers: number) => void) {
    this.#bounds = bounds;
    this.#onOutcome = onOutcome;
  }

  /** Writes a batch to the tier. A rejection counts as `failed`: an encoding may throw, such as out of memory. */
  protected abstract send(batch: readonly Write[]): Promise<WriteOutcome>;

  /** Whether a purge covers a write in flight: what is not sent yet must not be. */
  protected isUnwanted(write: Write): boolean {
    return this.#unwanted.has(write);
  }

  /** The answers in the queue, those in flight included. */
  get size(): { readonly writes: number; readonly bytes: number } {
    return { writes: this.#writes, bytes: this.#bytes };
  }

  add(write: Write): void {
    const { writes, bytes, largest = Infinity, gatherMs } = this.#bounds;
    const isFull = this.#writes >= writes || this.#bytes + write.bytes > bytes;
    if (this.#isClosed || isFull || write.bytes > largest) {
      this.#end([write], 'dropped');
      return;
    }
    this.#writes += 1;
    this.#bytes += write.bytes;
    this.#waiting.push(write);
    if (gatherMs === 0) this.#next();
    else if (this.#inFlight.size === 0) this.#timer ??= setTimeout(() => this.#next(), gatherMs).unref();
  }

  /** Cancels the writes whose key `covers`; resolves when none of them is in flight. */
  async drop(covers: (key: CacheKey) => boolean): Promise<void> {
    const dropped = this.#waiting.filter(({ key }) => covers(key));
    if (dropped.length > 0) this.#waiting = this.#waiting.filter(({ key }) => !covers(key));
    this.#leave(dropped, 'dropped');
    const begun: Promise<void>[] = [];
    for (const [batch, ended] of this.#inFlight) {
      const covered = batch.filter(({ key }) => covers(key));
      for (const write of covered) this.#unwanted.add(write);
      if (covered.length > 0) begun.push(ended);
    }
    await Promise.all(begun);
  }

  /** Resolves when everything is written or has failed, at the latest after `closeMs`. Later answers are dropped. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const untilMs = performance.now() + closeMs;
    this.#next();
    while (this.#inFlight.size > 0) {
      const ended = Promise.race(this.#inFlight.values());
      if (!(await settlesWithin(ended, Math.max(1, untilMs - performance.now())))) break;
    }
    void this.drop(() => true);
  }

  #next(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    while (this.#waiting.length > 0 && this.#inFlight.size < this.#bounds.concurrent) {
      const batch = this.#take();
      const sent = this.send(batch).catch((): WriteOutcome => 'failed');
      const ended = sent.then((outcome) => {
        this.#inFlight.delete(batch);
        this.#leave(batch, outcome);
        this.#next();
      });
      this.#inFlight.set(batch, ended);
    }
  }

  #take(): readonly Write[] {
    const most = this.#bounds.batch;
    let [count, sum] = [0, 0];
    for (const { bytes } of this.#waiting) {
      if (count === most.writes || (count > 0 && sum + bytes > most.bytes)) break;
      count += 1;
      sum += bytes;
    }
    return this.#waiting.splice(0, count);
  }

  #leave(writes: readonly Write[], outcome: WriteOutcome): void {
    this.#writes -= writes.length;
    for (const { bytes } of writes) this.#bytes -= bytes;
    this.#end(writes, outcome);
  }

  #end(writes: readonly Write[], outcome: WriteOutcome): void {
    if (writes.length > 0) this.#onOutcome(outcome, writes.length);
    for (const { onDone } of writes) onDone(outcome === 'written');
  }
}
