import cluster, { type Worker } from 'node:cluster';
import { getCompileCacheDir } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { Channel } from './channel.ts';
import type { StartFailure, PrimaryHandlers, WorkerHandlers } from './protocol.ts';
import type { ProcessCalls } from '../proxy/operations/index.ts';
import type { ChildProcess } from 'node:child_process';

/** A process that neither loads nor serves within this time after its last step is hung. */
const startMs = 30_000;
/** A disconnected process has this long to exit. */
export const exitMs = 2_000;

/** Clients of the operations port wait for a second or more; a report leaves out a slower worker. */
const reportMs = 800;
/** Bounds a purge, which scans Redis in steps. */
const purgeMs = 310_000;
const explainMs = 5_000;
const drainMs = 5_000;
/** Redis may hold weeks of usage of many keys. */
const usageMs = 30_000;

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
  readonly operations: ProcessCalls;
  isLoaded = false;
  isServing = false;
  /** The port of its setup. */
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
    this.operations = this.#operations();
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

  #operations(): ProcessCalls {
    const { channel } = this;
    return {
      readiness: () => channel.call('readiness', undefined, reportMs),
      report: () => channel.call('report', undefined, reportMs),
      families: () => channel.call('families', undefined, reportMs),
      purge: (purge) => channel.call('purge', purge, purgeMs),
      purgeHere: (request) => channel.call('purgeHere', request, purgeMs),
      // A starting worker answers once it serves.
      setDrained: (request) => channel.call('setDrained', request, this.isServing ? drainMs : startMs),
      explain: (request) => channel.call('explain', request, explainMs),
      usage: (request) => channel.call('usage', request, usageMs),
    };
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
        this.kill();
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

/** Workers load the same modules, so they share the compile cache. */
function compiled(): Readonly<Record<string, string>> {
  const folder = getCompileCacheDir();
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: folder };
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
