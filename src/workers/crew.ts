/** The workers: started, started again when they crash, asked, and sent home. */
import cluster from 'node:cluster';
import { fileURLToPath } from 'node:url';
import { BackOff } from './back-off.ts';
import { Forked, type Member, type Role, type Services } from './forked.ts';
import type { Failure, Setup } from './protocol.ts';
import { Spare } from './spare.ts';

export interface CrewEvents {
  /** What the next worker is told. */
  setup(port: number): Setup;
  servicesFor(member: Member): Services;
  /** It listens to its channel from now on. */
  onJoining(member: Member): void;
  onServing(member: Member): void;
  /**
   * A worker is gone that was not told to go, or could not even be started (then it has no `id`). `againMs`: when it is
   * started again.
   */
  onLost(id: number | undefined, how: string, againMs: number): void;
  onGone(member: Member): void;
  /** So is the spare, which nobody misses until a worker is lost. */
  onSpareLost(how: string, againMs: number): void;
}

export class Crew {
  readonly #events: CrewEvents;
  readonly #members = new Map<number, Forked>();
  readonly #spare: Spare;
  readonly #askedPort: number;
  /** Where the workers listen, once one does. */
  #port: number | undefined;
  /** How many are to serve. */
  #count = 0;
  #isClosing = false;

  constructor(port: number, events: CrewEvents) {
    this.#askedPort = port;
    this.#events = events;
    this.#spare = new Spare({
      fork: (role) => this.#fork(role),
      onLost: (how, againMs) => events.onSpareLost(how, againMs),
    });
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
    this.#count = count;
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

  /** All of them, those that are still starting too, without the spare. */
  get members(): readonly Member[] {
    return [...this.#members.values()];
  }

  /** Those that have loaded everything, the spare as well: they do what they are asked at once. */
  get loaded(): readonly Member[] {
    return this.#processes.filter(({ isLoaded }) => isLoaded);
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

  /**
   * Lets every worker finish what it has in flight, for at most `boundMs`, and ends it. The cluster module listens until
   * the last worker has closed its listener, and then closes what it had accepted and no worker had taken: nobody else
   * knows of those, and their clients are reset, as those are that the kernel had not handed out yet.
   */
  async close(boundMs: number): Promise<void> {
    this.#stopStarting();
    await Promise.all(this.#processes.map((forked) => forked.close(boundMs)));
    process.off('exit', this.#killAll);
  }

  /** Ends all at once. */
  kill(): void {
    this.#stopStarting();
    this.#killAll();
  }

  /** Ends one at once; another takes its place. */
  end({ id }: Member, why: string): void {
    this.#processes.find((forked) => forked.id === id)?.end(why);
  }

  get #processes(): readonly Forked[] {
    const { forked } = this.#spare;
    return forked === undefined ? [...this.#members.values()] : [...this.#members.values(), forked];
  }

  #stopStarting(): void {
    this.#isClosing = true;
    this.#spare.close();
  }

  readonly #killAll = (): void => {
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGKILL');
  };

  /**
   * Has one more worker, the spare where there is one, and another one when it is gone. Settles when it serves, or why
   * it does not.
   */
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
      this.#enlist(outcome, onEnd);
    } catch (error) {
      // No memory for one more process, for example: those that are there go on serving.
      onEnd(String(error));
    }
    return outcome.promise;
  }

  #enlist(outcome: PromiseWithResolvers<void>, onEnd: (how: string, id: number) => void): void {
    const forked = this.#spare.take() ?? this.#fork();
    this.#members.set(forked.id, forked);
    forked.enlist({
      onLoaded: () => {
        const port = this.#nextPort();
        // It hears where things stand before it is told to serve.
        this.#events.onJoining(forked);
        forked.channel.tell('serve', this.#events.setup(port));
        forked.toldPort = port;
      },
      onServing: (port) => {
        this.#port ??= port;
        // Clients know one port; a worker that found another one serves nobody.
        if (port !== this.#port) return forked.kill();
        forked.isServing = true;
        outcome.resolve();
        this.#events.onServing(forked);
        if (this.serving.length === this.#count) this.#spare.provide();
      },
      onFailed: (failure) =>
        outcome.reject(failure.syscall === undefined ? new Error(failure.message) : new ListenFailure(failure)),
      onGone: (how) => {
        this.#forget(forked);
        onEnd(how, forked.id);
      },
    });
  }

  #fork(role?: Role): Forked {
    return new Forked((member) => this.#events.servicesFor(member), role);
  }

  #forget(member: Member): void {
    this.#members.delete(member.id);
    this.#events.onGone(member);
  }

  /**
   * What a worker is told to listen on: what the others were told, because where that is 0 it stands for the port that
   * the first one found. With its last listener the port is given up; clients know it by then, so it is asked for.
   */
  #nextPort(): number {
    const told = [...this.#members.values()].filter(({ toldPort }) => toldPort !== undefined);
    return (told.find(({ isServing }) => isServing) ?? told[0])?.toldPort ?? this.#port ?? this.#askedPort;
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
