/** The worker processes on one port: the primary forks, watches, replaces, drains and ends them. */
import type { ChildProcess } from 'node:child_process';
import cluster, { type Worker } from 'node:cluster';
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Circuit } from '../ledger/index.ts';
import { callMs, processCalls } from '../proxy/operations/index.ts';
import { Channel, type PrimaryHandlers, type Setup, type StartFailure, type WorkerHandlers } from './channel.ts';

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
  readonly #endWatch: () => void;
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
    const loaded = () => this.workers.filter(({ isLoaded }) => isLoaded);
    this.#endWatch = watchHangs(loaded, ({ id }, silentMs) => {
      events.onHung();
      this.#workers.get(id)?.end(`no answer for ${silentMs / 1_000} s`);
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

  /**
   * Drains every worker for at most `boundMs`, and ends it. The cluster module listens until the last worker closed its
   * listener, and then resets unacknowledged connections.
   */
  async close(boundMs: number): Promise<void> {
    this.#isClosing = true;
    this.#endWatch();
    await Promise.all(this.workers.map((worker) => worker.close(boundMs)));
    process.off('exit', this.#killAll);
  }

  kill(): void {
    this.#isClosing = true;
    this.#endWatch();
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

/**
 * Queries every worker each second. A stopped process, or one in an endless loop, keeps its connections open, and their
 * clients waiting, until it is killed. `workers`: the loaded ones, which answer at once unless they hang. `onHung` is
 * called once for a worker without an answer for `silentMs`, which is longer than any garbage collection or listing of a
 * large memory. Returns the function that ends the queries.
 */
export function watchHangs(
  workers: () => readonly WatchedWorker[],
  onHung: (worker: WatchedWorker, silentMs: number) => void,
  { silentMs = 10_000, everyMs = 1_000 } = {},
): () => void {
  const mostTicks = Math.ceil(silentMs / everyMs);
  /** Ticks since the open query, by worker: unlike a clock, ticks stop while the primary itself is stopped. */
  const open = new WeakMap<WatchedWorker, number>();
  const timer = setInterval(() => {
    for (const worker of workers()) {
      const ticks = open.get(worker);
      open.set(worker, ticks === undefined ? 0 : ticks + 1);
      // One query at a time bounds the messages to a hung worker.
      if (ticks === undefined) {
        const onEnd = () => open.delete(worker);
        worker.channel.call('alive', undefined, silentMs * 10).then(onEnd, onEnd);
      } else if (ticks + 1 === mostTicks) onHung(worker, silentMs);
    }
  }, everyMs).unref();
  return () => clearInterval(timer);
}

/** A process that neither loads nor serves within this time after its last step is hung. */
const startMs = 30_000;
/** A disconnected process has this long to exit. */
export const exitMs = 2_000;

/** The messages that other parts of the primary handle. */
export type Services = Omit<PrimaryHandlers, keyof WorkerProcessEvents>;

/** The steps of a worker's life. */
interface WorkerProcessEvents extends Pick<PrimaryHandlers, 'loaded' | 'serving' | 'failed'> {
  /** The process has exited, or never ran. Called once. */
  gone(how: string): void;
}

/** A forked worker: its state, its channel and its end. */
export class WorkerProcess {
  readonly id: number;
  readonly channel: Channel<WorkerHandlers>;
  readonly operations = processCalls((name, argument) => {
    // A starting worker answers once it serves.
    const withinMs = name === 'setDrained' && !this.isServing ? startMs : callMs[name];
    return this.channel.call(name, argument, withinMs);
  });
  isLoaded = false;
  isServing = false;
  setupPort: number | undefined;
  readonly #worker: Worker;
  readonly #events: WorkerProcessEvents;
  #isGone = false;
  /** Set when the primary ended it. */
  #endReason: string | undefined;
  #stuck: NodeJS.Timeout | undefined;

  /** Throws when the fork fails at once; a later failure calls `gone`. */
  constructor(servicesFor: (worker: WorkerProcess) => Services, events: WorkerProcessEvents) {
    const worker = cluster.fork(compiled());
    if (worker.isConnected()) closeUnacknowledged(worker.process);
    const handlers = {};
    this.id = worker.id;
    this.channel = new Channel<WorkerHandlers>((message) => deliver(worker, message), handlers);
    this.#worker = worker;
    this.#events = events;
    Object.assign(handlers, servicesFor(this), this.#handlers());
    this.#expect('load');
    worker.on('message', (message: unknown) => this.channel.take(message));
    worker.on('error', (error: Error) => {
      // A process that never ran has no `exit`, only this error.
      if (worker.process.pid !== undefined) return;
      delete cluster.workers?.[worker.id];
      this.#leave(String(error));
    });
    worker.once('exit', (code: number | null, signal: string | null) => this.#leave(signal ?? `code ${code}`));
  }

  /** Kills it; `gone` reports `why`. */
  end(why: string): void {
    this.#endReason = why;
    this.kill();
  }

  /** Kills it; `gone` reports the signal. */
  kill(): void {
    this.#worker.process.kill('SIGKILL');
  }

  /** Drains its requests in flight for at most `boundMs`, and ends it. */
  async close(boundMs: number): Promise<void> {
    if (this.#isGone) return;
    // Not by `gone`: an undeliverable message emits `error` and is no exit.
    const gone = new Promise<true>((resolve) => this.#worker.once('exit', () => resolve(true)));
    if (this.isServing) await this.channel.call('drain', undefined, boundMs).catch(() => undefined);
    if (this.#worker.isConnected()) this.#worker.process.disconnect();
    const isGone = await Promise.race([gone, sleep(exitMs, false, { ref: false })]);
    if (!isGone) this.kill();
  }

  #handlers(): Omit<WorkerProcessEvents, 'gone'> {
    return {
      loaded: () => {
        this.isLoaded = true;
        this.#expect('serve');
        this.#events.loaded();
      },
      serving: (at) => {
        clearTimeout(this.#stuck);
        this.#events.serving(at);
      },
      failed: (failure: StartFailure) => {
        this.#events.failed(failure);
        this.end(failure.message);
      },
    };
  }

  #expect(step: string): void {
    clearTimeout(this.#stuck);
    this.#stuck = setTimeout(() => this.end(`did not ${step} within ${startMs / 1_000} s`), startMs).unref();
  }

  #leave(how: string): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.isServing = false;
    clearTimeout(this.#stuck);
    this.channel.close();
    this.#events.gone(this.#endReason ?? how);
  }
}

/** Ignores send errors: the worker has exited. */
function deliver(worker: Worker, message: object): void {
  if (worker.isConnected()) worker.send(message, undefined, undefined, () => undefined);
}

/** Workers load the same modules, so they share the compile cache: Node adds the folder of its version by itself. */
function compiled(): Readonly<Record<string, string>> {
  const folder = getCompileCacheDir();
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) };
}

/** Acknowledgements of an exited worker may be unread for this long. */
const unreadMs = 100;

interface Handle {
  close(): void;
}

/** An internal message: a connection for a worker (`newconn`, `seq`), or its acknowledgement (`ack`). */
interface ClusterMessage {
  readonly act?: string;
  readonly seq?: number;
  readonly ack?: number;
}

type Send = (message: ClusterMessage, handle?: Handle, ...rest: readonly unknown[]) => boolean;

/**
 * Closes connections that the worker has not acknowledged when it exits: the cluster module would keep its handles of
 * them, and their clients would wait, for ever. To be called before the first message to the worker.
 */
function closeUnacknowledged(worker: ChildProcess): void {
  const unacknowledged = new Map<number, Handle>();
  const send = worker.send.bind(worker) as unknown as Send;
  const watched: Send = (message, handle, ...rest) => {
    if (message.act === 'newconn' && message.seq !== undefined && handle !== undefined)
      unacknowledged.set(message.seq, handle);
    return send(message, handle, ...rest);
  };
  worker.send = watched as unknown as ChildProcess['send'];
  worker.on('internalMessage', ({ ack }: ClusterMessage) => {
    if (ack !== undefined) unacknowledged.delete(ack);
  });
  worker.once('exit', () => {
    // Not on `disconnect`, which is missing while a connection is in flight on the channel.
    setTimeout(() => {
      for (const handle of unacknowledged.values()) handle.close();
      unacknowledged.clear();
    }, unreadMs).unref();
  });
}
