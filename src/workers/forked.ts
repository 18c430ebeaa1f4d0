/** One process, from its fork to its end: what it says, what its end means, and how it is ended from here. */
import cluster, { type Worker } from 'node:cluster';
import { getCompileCacheDir } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { Channel } from './channel.ts';
import { closeUntaken } from './handed-over.ts';
import type { Failure, PrimaryHandlers, WorkerHandlers } from './protocol.ts';

/** A process that has not loaded everything by then, or does not serve so long after it was told to, is stuck. */
const startMs = 30_000;
/** A process that was told to end has this long to be gone. */
export const goodbyeMs = 2_000;

/** One worker process and what is known of it. */
export interface Member {
  readonly id: number;
  readonly channel: Channel<WorkerHandlers>;
  readonly isServing: boolean;
}

/** What a worker wants of the primary beside being looked after. */
export type Services = Omit<PrimaryHandlers, 'loaded' | 'serving' | 'failed'>;

/** What a process is for: a worker or the spare. */
export interface Role {
  /** It can be told to serve. Called at once where that is so already. */
  onLoaded(): void;
  onServing(port: number): void;
  onFailed(failure: Failure): void;
  /** Called once. */
  onGone(how: string): void;
}

/** Of a process that has none yet. */
export const idle: Role = {
  onLoaded: () => undefined,
  onServing: () => undefined,
  onFailed: () => undefined,
  onGone: () => undefined,
};

export class Forked implements Member {
  readonly id: number;
  readonly channel: Channel<WorkerHandlers>;
  isServing = false;
  /** What it was told to listen on. */
  toldPort: number | undefined;
  readonly #worker: Worker;
  #role: Role;
  #isLoaded = false;
  #isEnlisted = false;
  #isGone = false;
  /** Why it was ended from here, where it was. */
  #endedFor: string | undefined;
  #stuck: NodeJS.Timeout | undefined;

  /** Throws where no process can be had and that is known at once; otherwise it is gone a moment later. */
  constructor(servicesFor: (member: Member) => Services, role = idle) {
    const worker = cluster.fork(compiled());
    if (worker.isConnected()) closeUntaken(worker.process);
    const handlers: Partial<PrimaryHandlers> = {};
    this.id = worker.id;
    this.channel = new Channel<WorkerHandlers>((message) => deliver(worker, message), handlers);
    this.#worker = worker;
    this.#role = role;
    Object.assign(handlers, servicesFor(this), this.#handlers());
    this.#expect('load');
    worker.on('message', (message: unknown) => this.channel.take(message));
    worker.on('error', (error: Error) => {
      // A message to a process that has just died: its end is told by `exit`. Of one that never was there is none.
      if (worker.process.pid !== undefined) return;
      delete cluster.workers?.[worker.id];
      this.#leave(String(error));
    });
    worker.once('exit', (code: number | null, signal: string | null) => this.#leave(signal ?? `code ${code}`));
  }

  /** It waits for what it is told, or has been told to serve. */
  get isLoaded(): boolean {
    return this.#isLoaded;
  }

  /** It is to be a worker from now on: it has to serve in time. */
  enlist(role: Role): void {
    this.#role = role;
    this.#isEnlisted = true;
    this.#expect('serve');
    if (this.#isLoaded) role.onLoaded();
  }

  /** Ends it at once. */
  end(why: string): void {
    this.#endedFor = why;
    this.kill();
  }

  kill(): void {
    this.#worker.process.kill('SIGKILL');
  }

  /** Lets it finish what it has in flight, for at most `boundMs`, and ends it. */
  async close(boundMs: number): Promise<void> {
    if (this.#isGone) return;
    // A message that cannot be delivered, an `error`, is not its end.
    const gone = new Promise<true>((resolve) => this.#worker.once('exit', () => resolve(true)));
    if (this.isServing) await this.channel.call('drain', undefined, boundMs).catch(() => undefined);
    if (this.#worker.isConnected()) this.#worker.process.disconnect();
    const isGone = await Promise.race([gone, sleep(goodbyeMs, false, { ref: false })]);
    if (!isGone) this.kill();
  }

  #handlers(): Omit<PrimaryHandlers, keyof Services> {
    return {
      loaded: () => {
        this.#isLoaded = true;
        // The spare has done what is expected of it; a worker has yet to serve.
        if (!this.#isEnlisted) clearTimeout(this.#stuck);
        this.#role.onLoaded();
      },
      serving: ({ port }) => {
        clearTimeout(this.#stuck);
        this.#role.onServing(port);
      },
      failed: (failure) => {
        this.#role.onFailed(failure);
        this.kill();
      },
    };
  }

  #expect(what: string): void {
    clearTimeout(this.#stuck);
    this.#stuck = setTimeout(() => this.end(`did not ${what} within ${startMs / 1_000} s`), startMs);
    this.#stuck.unref();
  }

  #leave(how: string): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.isServing = false;
    clearTimeout(this.#stuck);
    this.channel.close();
    this.#role.onGone(this.#endedFor ?? how);
  }
}

function deliver(worker: Worker, message: object): void {
  if (worker.isConnected()) worker.send(message, undefined, undefined, () => undefined);
}

/** Workers load what this process has loaded: what was compiled for it is there for them, where it is kept. */
function compiled(): Readonly<Record<string, string>> {
  const folder = getCompileCacheDir();
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: folder };
}
