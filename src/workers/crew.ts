/** The workers: started, started again when they crash, asked, and sent home. */
import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { BackOff } from './back-off.ts';
import { Channel } from './channel.ts';
import { closeWhatIsLost } from './handed-over.ts';
import type { Failure, PrimaryHandlers, WorkerHandlers } from './protocol.ts';

/** A worker that does not serve by then is stuck: it is killed, and started again. */
const startMs = 30_000;
/** A worker that was told to end has this long to be gone. */
const goodbyeMs = 2_000;

/** One worker process and what is known of it. */
export interface Member {
  readonly id: number;
  readonly channel: Channel<WorkerHandlers>;
  isServing: boolean;
}

/** What a worker wants of the primary beside being looked after. */
export type Services = Omit<PrimaryHandlers, 'setup' | 'serving' | 'failed'>;

export interface CrewEvents {
  /** What the next worker is told. */
  setup(port: number): ReturnType<PrimaryHandlers['setup']>;
  servicesFor(member: Member): Services;
  /** It listens to its channel from now on. */
  onJoining(member: Member): void;
  onServing(member: Member): void;
  /** A worker is gone that was not told to go. `againMs`: when it is started again. */
  onLost(member: Member, how: string, againMs: number): void;
  onGone(member: Member): void;
}

export class Crew {
  readonly #events: CrewEvents;
  readonly #members = new Map<number, Member>();
  readonly #askedPort: number;
  /** Where the workers listen, once one does. */
  #port: number | undefined;
  /** What a worker is told to listen on: the first found a free port, and the others join it. */
  #nextPort: number;
  #isClosing = false;

  constructor(port: number, events: CrewEvents) {
    this.#askedPort = port;
    this.#nextPort = port;
    this.#events = events;
    // The primary accepts, and hands each connection to the next worker in turn. Left to the kernel (SO_REUSEPORT) a
    // hash of the addresses decides, and of a few connections that live long, as balancers keep them, most may fall on
    // one worker. It also keeps the port open while a worker is started again.
    cluster.schedulingPolicy = cluster.SCHED_RR;
    // From source where this file is source; nothing of the config is in the arguments, which everybody may read.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
    const exec = fileURLToPath(new URL(`worker-process.${extension}`, import.meta.url));
    cluster.setupPrimary({ exec, args: [], serialization: 'advanced' });
    process.on('exit', this.#killAll);
  }

  /** Those that serve. */
  get serving(): readonly Member[] {
    return [...this.#members.values()].filter(({ isServing }) => isServing);
  }

  /**
   * Starts `count` workers. Resolves with the port when each has come to serve or failed, and one serves. Rejects when
   * none does, or the port cannot be had.
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

  /** All of them, those that are still starting too. */
  get members(): readonly Member[] {
    return [...this.#members.values()];
  }

  /** Asks every worker that serves; those that do not answer in time are left out. */
  async askAll<T>(ask: (member: Member) => Promise<T>): Promise<ReadonlyMap<number, T>> {
    const answers = await Promise.allSettled(
      this.serving.map(async (member): Promise<[number, T]> => [member.id, await ask(member)]),
    );
    const told = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    // Who has gone meanwhile has been taken leave of.
    return new Map(told.filter(([id]) => this.#members.has(id)));
  }

  /** Lets every worker finish what it has in flight, for at most `boundMs`, and ends it. */
  async close(boundMs: number): Promise<void> {
    this.#isClosing = true;
    await Promise.all(
      [...this.#members.values()].map(async (member) => {
        const worker = cluster.workers?.[member.id];
        if (worker === undefined) return;
        const gone = once(worker, 'exit');
        if (member.isServing) await member.channel.call('drain', undefined, boundMs).catch(() => undefined);
        if (worker.isConnected()) worker.process.disconnect();
        const isGone = await Promise.race([gone.then(() => true), sleep(goodbyeMs, false, { ref: false })]);
        if (!isGone) worker.process.kill('SIGKILL');
      }),
    );
    process.off('exit', this.#killAll);
  }

  /** Ends all at once. */
  kill(): void {
    this.#isClosing = true;
    this.#killAll();
  }

  readonly #killAll = (): void => {
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGKILL');
  };

  /** Starts a worker, and another one when it is gone. Settles when it serves, or why it does not. */
  #launch(backOff: BackOff): Promise<void> {
    const startedAtMs = performance.now();
    const outcome = Promise.withResolvers<void>();
    const worker = cluster.fork();
    closeWhatIsLost(worker);
    const handlers: Partial<PrimaryHandlers> = {};
    const member: Member = {
      id: worker.id,
      isServing: false,
      channel: new Channel<WorkerHandlers>((message) => deliver(worker, message), handlers),
    };
    Object.assign(handlers, this.#events.servicesFor(member), this.#handlersFor(worker, outcome));
    this.#members.set(worker.id, member);
    const stuck = setTimeout(() => worker.process.kill('SIGKILL'), startMs);
    stuck.unref();
    void outcome.promise.then(
      () => clearTimeout(stuck),
      () => undefined,
    );
    worker.on('message', (message: unknown) => member.channel.take(message));
    // A message to a process that has just died: its end is told by `exit`.
    worker.on('error', () => undefined);
    worker.once('exit', (code: number | null, signal: string | null) => {
      clearTimeout(stuck);
      this.#forget(member);
      const how = signal ?? `code ${code}`;
      outcome.reject(new Error(`a worker ended while it started: ${how}`));
      if (this.#isClosing) return;
      const againMs = backOff.next(performance.now() - startedAtMs);
      this.#events.onLost(member, how, againMs);
      setTimeout(() => {
        if (!this.#isClosing) this.#launch(backOff).catch(() => undefined);
      }, againMs);
    });
    return outcome.promise;
  }

  #handlersFor(worker: Worker, outcome: PromiseWithResolvers<void>): Omit<PrimaryHandlers, keyof Services> {
    return {
      setup: () => {
        const member = this.#members.get(worker.id);
        if (member !== undefined) this.#events.onJoining(member);
        return this.#events.setup(this.#nextPort);
      },
      serving: ({ port }) => {
        this.#port ??= port;
        const member = this.#members.get(worker.id);
        // Clients know one port; a worker that found another one serves nobody.
        if (member === undefined || port !== this.#port) worker.process.kill('SIGKILL');
        else {
          member.isServing = true;
          outcome.resolve();
          this.#events.onServing(member);
        }
      },
      failed: (failure) => {
        outcome.reject(failure.syscall === undefined ? new Error(failure.message) : new ListenFailure(failure));
        worker.process.kill('SIGKILL');
      },
    };
  }

  #forget(member: Member): void {
    this.#members.delete(member.id);
    member.channel.close();
    member.isServing = false;
    // With its last listener the port was given up; it was found by chance, but now clients know it.
    if (this.#members.size === 0) this.#nextPort = this.#port ?? this.#askedPort;
    this.#events.onGone(member);
  }
}

/** A port cannot be listened on. */
class ListenFailure extends Error {
  override readonly name = 'ListenFailure';

  constructor({ message, ...details }: Failure) {
    super(message);
    Object.assign(this, details);
  }
}

function deliver(worker: Worker, message: object): void {
  if (worker.isConnected()) worker.send(message, undefined, undefined, () => undefined);
}
