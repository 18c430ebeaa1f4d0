/**
 * Detects hung workers. A stopped process, or one in an endless loop, keeps its connections open, and their clients
 * waiting, until it is killed.
 */
import type { WorkerProcess } from './worker-process.ts';

/** A worker that the watch queries. */
export type WatchedWorker = Pick<WorkerProcess, 'id' | 'channel'>;

interface HangWatchParts {
  /** The loaded workers, which answer at once unless they hang. */
  readonly workers: () => readonly WatchedWorker[];
  /** Called once for a worker without an answer for `silentMs`. */
  readonly onHung: (worker: WatchedWorker, silentMs: number) => void;
  /** Default 10,000: longer than any garbage collection or listing of a large memory. */
  readonly silentMs?: number;
  /** Default 1,000. */
  readonly everyMs?: number;
}

/** Queries every worker each second. */
export class HangWatch {
  readonly #timer: NodeJS.Timeout;
  /** Ticks since the open query, by worker: unlike a clock, ticks stop while the primary itself is stopped. */
  readonly #ticks = new WeakMap<WatchedWorker, number>();

  constructor({ workers, onHung, silentMs = 10_000, everyMs = 1_000 }: HangWatchParts) {
    const mostTicks = Math.ceil(silentMs / everyMs);
    this.#timer = setInterval(() => {
      for (const worker of workers()) {
        const ticks = this.#ticks.get(worker);
        // One query at a time bounds the messages to a hung worker.
        if (ticks === undefined) {
          this.#query(worker, silentMs);
          continue;
        }
        this.#ticks.set(worker, ticks + 1);
        if (ticks + 1 === mostTicks) onHung(worker, silentMs);
      }
    }, everyMs).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #query(worker: WatchedWorker, silentMs: number): void {
    this.#ticks.set(worker, 0);
    const onEnd = () => this.#ticks.delete(worker);
    worker.channel.call('alive', undefined, silentMs * 10).then(onEnd, onEnd);
  }
}
