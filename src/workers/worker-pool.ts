import cluster from 'node:cluster';
import { fileURLToPath } from 'node:url';
import { Circuit } from '../ledger/index.ts';
import type { StartFailure, Setup } from './protocol.ts';
import { WorkerProcess, type Services } from './worker-process.ts';

/** Callbacks of the pool. */
export interface PoolEvents {
  /** The setup of a worker that listens on `port`. */
  setup(port: number): Setup;
  servicesFor(worker: WorkerProcess): Services;
  onServing(worker: WorkerProcess): void;
  /** A worker that does not answer is about to be killed. */
  onHung(): void;
  /** A worker ended by itself, or its fork failed (no `id`); the next fork follows after `againMs`. */
  onLost(id: number | undefined, how: string, againMs: number): void;
  /** Called for every worker that exits. */
  onGone(worker: WorkerProcess): void;
}

/** Restarts of one worker: crashes at the start must not exhaust the machine, and one that lived long did not crash there. */
const restarts = { firstMs: 100, longestMs: 10_000, calmMs: 30_000 };

/** A fixed number of workers on one port: forks, replaces, queries and drains them. */
export class WorkerPool {
  readonly #events: PoolEvents;
  readonly #workers = new Map<number, WorkerProcess>();
  readonly #askedPort: number;
  readonly #watch: HangWatch;
  /** The port of the first worker that listened. */
  #port: number | undefined;
  #isClosing = false;

  /** `port`: 0 picks a free one. */
  constructor(port: number, events: PoolEvents) {
    this.#askedPort = port;
    this.#events = events;
    // The primary hands connections to the workers in turn. SO_REUSEPORT hashes addresses, which may put most of a
    // balancer's few long connections on one worker. The primary also keeps the port open while a worker restarts.
    cluster.schedulingPolicy = cluster.SCHED_RR;
    // Source or built code, like this file. Arguments are public, so the config travels in a message.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
    const exec = fileURLToPath(new URL(`worker-main.${extension}`, import.meta.url));
    cluster.setupPrimary({ exec, args: [], serialization: 'advanced' });
    process.on('exit', this.#killAll);
    this.#watch = new HangWatch({
      workers: () => this.workers.filter(({ isLoaded }) => isLoaded),
      onHung: ({ id }, silentMs) => {
        events.onHung();
        this.#workers.get(id)?.end(`no answer for ${silentMs / 1_000} s`);
      },
    });
  }

  /** All workers, starting ones included. */
  get workers(): readonly WorkerProcess[] {
    return [...this.#workers.values()];
  }

  get serving(): readonly WorkerProcess[] {
    return this.workers.filter(({ isServing }) => isServing);
  }

  /**
   * Starts `count` workers. Resolves with the port once each serves or has failed. Rejects when none serves, or the port
   * is not available.
   */
  async start(count: number): Promise<number> {
    const failures: unknown[] = [];
    const first = Array.from({ length: count }, () => this.#launch(new Circuit(restarts)));
    const port = Promise.withResolvers<never>();
    for (const outcome of first) {
      outcome.catch((error: unknown) => {
        failures.push(error);
        if ((error as Partial<StartFailure>).syscall !== undefined) port.reject(error);
      });
    }
    await Promise.race([Promise.allSettled(first), port.promise]);
    if (this.#port === undefined || this.serving.length === 0) throw failures[0] ?? new Error('no worker serves');
    return this.#port;
  }

  /** Queries every serving worker; the answers in time, by worker id. */
  async askAll<T>(ask: (worker: WorkerProcess) => Promise<T>): Promise<ReadonlyMap<number, T>> {
    const answers = await Promise.allSettled(
      this.serving.map(async (worker): Promise<[number, T]> => [worker.id, await ask(worker)]),
    );
    const fulfilled = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    // `onGone` has handled workers that exited meanwhile.
    return new Map(fulfilled.filter(([id]) => this.#workers.has(id)));
  }

  /**
   * Drains every worker for at most `boundMs`, and ends it. The cluster module listens until the last worker closed its
   * listener, and then resets unacknowledged connections.
   */
  async close(boundMs: number): Promise<void> {
    this.#isClosing = true;
    this.#watch.close();
    await Promise.all(this.workers.map((worker) => worker.close(boundMs)));
    process.off('exit', this.#killAll);
  }

  kill(): void {
    this.#isClosing = true;
    this.#watch.close();
    this.#killAll();
  }

  readonly #killAll = (): void => {
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGKILL');
  };

  /** Forks a worker, and another one after its exit. Resolves when it serves; rejects when it exits before. */
  #launch(circuit: Circuit): Promise<void> {
    const startedAtMs = performance.now();
    // Its life is the trial.
    circuit.succeed(startedAtMs, startedAtMs);
    const outcome = Promise.withResolvers<void>();
    const onEnd = (how: string, id?: number): void => {
      outcome.reject(new Error(`a worker exited before it served: ${how}`));
      if (this.#isClosing) return;
      const nowMs = performance.now();
      // From start to start.
      const pauseMs = (circuit.fail(how, nowMs, nowMs) ?? 0) - (nowMs - startedAtMs);
      const againMs = Math.round(Math.max(0, pauseMs));
      this.#events.onLost(id, how, againMs);
      setTimeout(() => {
        if (!this.#isClosing) this.#launch(circuit).catch(() => undefined);
      }, againMs);
    };
    try {
      this.#fork(outcome, onEnd);
    } catch (error) {
      // No memory or descriptor for one more process: the others still serve.
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
        // A worker on another port gets no connection.
        if (port !== this.#port) return worker.kill();
        worker.isServing = true;
        resolve();
        this.#events.onServing(worker);
      },
      failed: ({ message, ...port }) =>
        // Only a failed `listen` has a port.
        reject(Object.assign(new Error(message), port.syscall === undefined ? {} : port)),
      gone: (how) => {
        this.#workers.delete(worker.id);
        this.#events.onGone(worker);
        onEnd(how, worker.id);
      },
    });
    this.#workers.set(worker.id, worker);
  }

  /**
   * The port of the other workers' setup; the cluster module maps 0 to the port of the first. With the last listener the
   * port closes; clients use it by then, so the next setup has its number.
   */
  #nextPort(): number {
    const set = this.workers.filter(({ setupPort }) => setupPort !== undefined);
    return (set.find(({ isServing }) => isServing) ?? set[0])?.setupPort ?? this.#port ?? this.#askedPort;
  }
}

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

/**
 * Queries every worker each second. A stopped process, or one in an endless loop, keeps its connections open, and their
 * clients waiting, until it is killed.
 */
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
