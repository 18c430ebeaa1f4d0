/**
 * Finds workers that hang: a process that is stopped, or in an endless loop, keeps its connections, and the clients
 * behind them, until it is ended.
 */
import type { WorkerProcess } from './worker-process.ts';

/** A worker as the watch queries it. */
export type WatchedWorker = Pick<WorkerProcess, 'id' | 'channel'>;

export interface HangWatchParts {
  /** The workers that answer at once unless they hang. */
  readonly workers: () => readonly WatchedWorker[];
  /** Called once for a worker without an answer for `silentMs`. */
  readonly onHung: (worker: WatchedWorker, silentMs: number) => void;
  /** Default 10,000: longer than any garbage collection or listing of a large memory. */
  readonly silentMs?: number;
  /** Default 1,000. */
  readonly everyMs?: number;
}

export class HangWatch {
  readonly #timer: NodeJS.Timeout;
  /** Ticks since the open query, by worker. Ticks, because none comes while the primary itself stands still. */
  readonly #ticks = new WeakMap<WatchedWorker, number>();

  constructor({ workers, onHung, silentMs = 10_000, everyMs = 1_000 }: HangWatchParts) {
    const mostTicks = Math.ceil(silentMs / everyMs);
    this.#timer = setInterval(() => {
      for (const worker of workers()) {
        const ticks = this.#ticks.get(worker);
        // One query at a time: messages must not pile up before a worker that is stuck.
        if (ticks === undefined) {
          this.#query(worker, silentMs);
          continue;
        }
        this.#ticks.set(worker, ticks + 1);
        if (ticks + 1 === mostTicks) onHung(worker, silentMs);
      }
    }, everyMs);
    this.#timer.unref();
  }

  /** Ends the watch. */
  close(): void {
    clearInterval(this.#timer);
  }

  #query(worker: WatchedWorker, silentMs: number): void {
    this.#ticks.set(worker, 0);
    const onEnd = () => this.#ticks.delete(worker);
    worker.channel.call('alive', undefined, silentMs * 10).then(onEnd, onEnd);
  }
}
