/**
 * The way to Redis: every command is bounded in time, and a server that does not answer is left alone until it does
 * (fail open: Redis is only speed). Nothing here rejects.
 */
import calculateSlot from 'cluster-key-slot';
import { Breaker } from './breaker.ts';
import type { Redis } from 'ioredis';
import type { RedisClient } from './redis-client.ts';

/** Why a command has no value. `refused`: the server takes no writes now. `wrong type`: the key holds another type. */
export type Failure = 'closed' | 'timeout' | 'connection' | 'refused' | 'wrong type' | 'error';

export type Outcome<T> = { readonly value: T } | { readonly failure: Failure };

export interface LinkOptions {
  /** Longest wait for one command, in milliseconds. */
  readonly timeoutMs: number;
  onFailure(failure: Failure): void;
  /** Once per change: `isOpen` means that a server (of a cluster: one of them) is left alone. */
  onBreaker(isOpen: boolean, reason: string): void;
}

/** After a server refused a write, no write is tried for this long. */
const writePauseMs = 1_000;

export class RedisLink {
  readonly #client: RedisClient;
  readonly #options: LinkOptions;
  /** Only of servers in trouble, by address. */
  readonly #breakers = new Map<string, Breaker>();
  #writesFromMs = 0;
  #lastError = '';

  constructor(connect: (onError: (error: Error) => void) => RedisClient, options: LinkOptions) {
    this.#options = options;
    this.#client = connect((error) => {
      this.#lastError = error.message;
    });
  }

  /** Why Redis, or a part of it, is left alone now; `undefined` when all is well. */
  get trouble(): string | undefined {
    for (const { reason } of this.#breakers.values()) if (reason !== undefined) return reason;
    return undefined;
  }

  /** Whether commands for `key` would be sent at all. */
  isClosed(key: string): boolean {
    return this.#breakers.get(this.#serverOf(key))?.isOpen === true;
  }

  /** Runs a command on `key`, waiting at most until `untilMs` (of `performance.now()`) and the usual bound. */
  async read<T>(key: string, command: Command<T>, untilMs = Infinity): Promise<Outcome<T>> {
    const server = this.#serverOf(key);
    const breaker = this.#breakers.get(server);
    if (breaker?.isOpen === true) return { failure: 'closed' };
    const outcome = await this.#bounded(command, Math.min(this.#options.timeoutMs, untilMs - performance.now()));
    if ('value' in outcome) return outcome;
    const failure = failureOf(outcome.error);
    this.#options.onFailure(failure);
    if (failure === 'refused') this.#writesFromMs = performance.now() + writePauseMs;
    if (!isOfServer(failure)) return { failure };
    this.#breakerOf(server, key).open(this.#reasonOf(failure, outcome.error));
    return { failure };
  }

  /** As `read`, for commands that write: not while the server refuses them. */
  async write<T>(key: string, command: Command<T>, untilMs = Infinity): Promise<Outcome<T>> {
    if (performance.now() < this.#writesFromMs) return { failure: 'refused' };
    return this.read(key, command, untilMs);
  }

  /** The server, or those of a cluster: only primaries hold keys to delete. None while a cluster is not known. */
  servers(role: 'master' | 'all'): readonly Redis[] {
    return 'slots' in this.#client ? this.#client.nodes(role) : [this.#client];
  }

  /** Runs an operator's command, which may take longer than those that reads wait for: at most `ms`. */
  async runFor<T>(ms: number, command: () => Promise<T>): Promise<Outcome<T>> {
    const outcome = await this.#bounded(command, ms);
    if ('value' in outcome) return outcome;
    const failure = failureOf(outcome.error);
    this.#options.onFailure(failure);
    return { failure };
  }

  close(): void {
    for (const breaker of this.#breakers.values()) breaker.end();
    this.#client.disconnect();
  }

  #bounded<T>(command: Command<T>, ms: number): Promise<{ value: T } | { error: Error }> {
    return new Promise((resolve) => {
      const onTime = (): void => {
        // Answers that came while this process was busy are read before the server is called slow.
        setImmediate(() => resolve({ error: new TimeoutError() }));
      };
      const timer = setTimeout(onTime, Math.max(1, ms));
      command(this.#client).then(
        (value) => {
          clearTimeout(timer);
          resolve({ value });
        },
        (error: unknown) => {
          clearTimeout(timer);
          resolve({ error: error instanceof Error ? error : new Error(String(error)) });
        },
      );
    });
  }

  /** The server of a cluster that holds `key`; a single server is one. */
  #serverOf(key: string): string {
    if (!('slots' in this.#client)) return '';
    return this.#client.slots[calculateSlot(key)]?.[0] ?? '';
  }

  #breakerOf(server: string, key: string): Breaker {
    const known = this.#breakers.get(server);
    if (known !== undefined) return known;
    const breaker = new Breaker({
      trial: async () => 'value' in (await this.#bounded((client) => client.exists(key), this.#options.timeoutMs)),
      onChange: (isOpen, reason) => {
        if (!isOpen) this.#breakers.delete(server);
        this.#options.onBreaker(isOpen, reason);
      },
    });
    this.#breakers.set(server, breaker);
    return breaker;
  }

  #reasonOf(failure: Failure, error: Error): string {
    if (failure === 'timeout') return `no answer within ${this.#options.timeoutMs} ms`;
    // Commands only say that there is no connection; why is in the connection's own last error.
    return failure === 'connection' && this.#lastError !== '' ? this.#lastError : error.message;
  }
}

type Command<T> = (client: RedisClient) => Promise<T>;

class TimeoutError extends Error {}

/** Failures that say something of the server and not of one key or one kind of command. */
function isOfServer(failure: Failure): boolean {
  return failure === 'timeout' || failure === 'connection';
}

/** Reply codes that mean: no writes now. */
const refusals = /^(?:READONLY|OOM|MISCONF|NOREPLICAS)\b/;
/** Reply codes that mean: no commands of ours at all. */
const unfit = /^(?:NOAUTH|WRONGPASS|NOPERM|LOADING|MASTERDOWN|CLUSTERDOWN|BUSY)\b/;

function failureOf(error: Error): Failure {
  if (error instanceof TimeoutError) return 'timeout';
  if (error.name !== 'ReplyError') return 'connection';
  if (error.message.startsWith('WRONGTYPE')) return 'wrong type';
  if (refusals.test(error.message)) return 'refused';
  return unfit.test(error.message) ? 'connection' : 'error';
}
