/** The worker processes: forked, forked again after a crash, queried, and drained. */
import cluster from 'node:cluster';
import { fileURLToPath } from 'node:url';
import type { StartFailure, Setup } from './protocol.ts';
import { WorkerProcess, type Services } from './worker-process.ts';

export interface PoolEvents {
  /** The setup of the next worker, which listens on `port`. */
  setup(port: number): Setup;
  servicesFor(worker: WorkerProcess): Services;
  onServing(worker: WorkerProcess): void;
  /** A worker ended by itself, or its fork failed (no `id`); the next fork follows after `againMs`. */
  onLost(id: number | undefined, how: string, againMs: number): void;
  /** Called for every worker that exits. */
  onGone(worker: WorkerProcess): void;
}

export class WorkerPool {
  readonly #events: PoolEvents;
  readonly #workers = new Map<number, WorkerProcess>();
  readonly #askedPort: number;
  /** The port of the first worker that listened. */
  #port: number | undefined;
  #isClosing = false;

  /** `port`: to listen on; 0 picks a free one. */
  constructor(port: number, events: PoolEvents) {
    this.#askedPort = port;
    this.#events = events;
    // The primary accepts, and hands each connection to the next worker in turn. With SO_REUSEPORT a hash of the
    // addresses would decide, and most of a balancer's few long connections may fall on one worker. The primary also
    // keeps the port open while a worker restarts.
    cluster.schedulingPolicy = cluster.SCHED_RR;
    // Source where this file is source. Arguments are public, so the config travels in a message.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
    const exec = fileURLToPath(new URL(`worker-main.${extension}`, import.meta.url));
    cluster.setupPrimary({ exec, args: [], serialization: 'advanced' });
    process.on('exit', this.#killAll);
  }

  /** All workers, also those that start. */
  get workers(): readonly WorkerProcess[] {
    return [...this.#workers.values()];
  }

  get serving(): readonly WorkerProcess[] {
    return this.workers.filter(({ isServing }) => isServing);
  }

  /**
   * Starts `count` workers. Resolves with the port when each serves or failed, and one serves. Rejects when none does,
   * or the port cannot be had.
   */
  async start(count: number): Promise<number> {
    const failures: unknown[] = [];
    const first = Array.from({ length: count }, () => this.#launch(new BackOff()));
    const port = Promise.withResolvers<never>();
    for (const outcome of first) {
      outcome.catch((error: unknown) => {
        failures.push(error);
        if (error instanceof ListenFailure) port.reject(error);
      });
    }
    await Promise.race([Promise.allSettled(first), port.promise]);
    if (this.#port === undefined || this.serving.length === 0) throw failures[0] ?? new Error('no worker has started');
    return this.#port;
  }

  /** Queries every serving worker; the answers that came in time, by worker. */
  async askAll<T>(ask: (worker: WorkerProcess) => Promise<T>): Promise<ReadonlyMap<number, T>> {
    const answers = await Promise.allSettled(
      this.serving.map(async (worker): Promise<[number, T]> => [worker.id, await ask(worker)]),
    );
    const fulfilled = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    // `onGone` has dealt with a worker that exited meanwhile.
    return new Map(fulfilled.filter(([id]) => this.#workers.has(id)));
  }

  /**
   * Drains every worker for at most `boundMs`, and ends it. The cluster module listens until the last worker closed its
   * listener, and then resets connections that no worker has taken.
   */
  async close(boundMs: number): Promise<void> {
    this.#isClosing = true;
    await Promise.all(this.workers.map((worker) => worker.close(boundMs)));
    process.off('exit', this.#killAll);
  }

  /** Ends all at once. */
  kill(): void {
    this.#isClosing = true;
    this.#killAll();
  }

  /** Ends one worker at once; another one takes its place. */
  end(id: number, why: string): void {
    this.#workers.get(id)?.end(why);
  }

  readonly #killAll = (): void => {
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGKILL');
  };

  /** Forks a worker, and another one after its exit. Resolves when it serves; rejects when it ends before. */
  #launch(backOff: BackOff): Promise<void> {
    const startedAtMs = performance.now();
    const outcome = Promise.withResolvers<void>();
    const onEnd = (how: string, id?: number): void => {
      outcome.reject(new Error(`a worker ended while it started: ${how}`));
      if (this.#isClosing) return;
      const againMs = backOff.next(performance.now() - startedAtMs);
      this.#events.onLost(id, how, againMs);
      setTimeout(() => {
        if (!this.#isClosing) this.#launch(backOff).catch(() => undefined);
      }, againMs);
    };
    try {
      this.#fork(outcome, onEnd);
    } catch (error) {
      // No memory or descriptor for one more process: the others go on.
      onEnd(String(error));
    }
    return outcome.promise;
  }

  #fork({ resolve, reject }: PromiseWithResolvers<void>, onEnd: (how: string, id: number) => void): void {
    const worker: WorkerProcess = new WorkerProcess((own) => this.#events.servicesFor(own), {
      loaded: () => {
        worker.setupPort = this.#nextPort();
        worker.channel.notify('serve', this.#events.setup(worker.setupPort));
      },
      serving: ({ port }) => {
        this.#port ??= port;
        // Clients use one port: a worker on another one gets no connection.
        if (port !== this.#port) return worker.kill();
        worker.isServing = true;
        resolve();
        this.#events.onServing(worker);
      },
      failed: (failure) =>
        reject(failure.syscall === undefined ? new Error(failure.message) : new ListenFailure(failure)),
      gone: (how) => {
        this.#workers.delete(worker.id);
        this.#events.onGone(worker);
        onEnd(how, worker.id);
      },
    });
    this.#workers.set(worker.id, worker);
  }

  /**
   * The port of the other workers' setup: where that is 0 it stands for the port that the first one found. The port is
   * given up with its last listener; clients use it by then, so it is asked for by number.
   */
  #nextPort(): number {
    const set = this.workers.filter(({ setupPort }) => setupPort !== undefined);
    return (set.find(({ isServing }) => isServing) ?? set[0])?.setupPort ?? this.#port ?? this.#askedPort;
  }
}

const firstMs = 100;
const longestMs = 10_000;
/** A process that lived this long did not crash at its start. */
const settledMs = 30_000;

/** The time between the starts in one place: a worker that crashes at once must not take the machine along. */
export class BackOff {
  #apartMs = firstMs;

  /** The wait before the next start, after a process that lived for `livedMs`. */
  next(livedMs: number): number {
    if (livedMs >= settledMs) this.#apartMs = firstMs;
    const waitMs = Math.max(0, this.#apartMs - livedMs);
    this.#apartMs = Math.min(longestMs, this.#apartMs * 2);
    return Math.round(waitMs);
  }
}

/** A port cannot be listened on. */
class ListenFailure extends Error {
  override readonly name = 'ListenFailure';

  constructor({ message, ...details }: StartFailure) {
    super(message);
    Object.assign(this, details);
  }
}
