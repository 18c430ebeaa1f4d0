import calculateSlot from 'cluster-key-slot';
import { setPatientTimeout } from '../../ledger/index.ts';
import type { Span } from '../../metrics/index.ts';
import { Breaker } from './breaker.ts';
import type { Redis } from 'ioredis';
import type { RedisClient } from './redis-client.ts';
import {
  failureOf,
  isOfServer,
  reasonOf,
  TimeoutError,
  type CommandFailure,
  type RedisFailure,
} from './redis-failure.ts';

/** The result of a command, or the class of its failure. */
export type RedisOutcome<T> = { readonly value: T } | { readonly failure: RedisFailure };

/** `circuit open`: the server receives only trials. `read-only`: it refuses writes; reads go on. */
type Trouble = 'circuit open' | 'read-only';

/** Options of a `RedisLink`. */
export interface LinkOptions {
  /** Longest wait for one command, in milliseconds. */
  readonly timeoutMs: number;
  /** The key of trials before the first command. */
  readonly trialKey: string;
  onFailure(failure: CommandFailure): void;
  /** Called once per change. */
  onTrouble(change: TroubleChange): void;
}

/** The begin or end of a trouble. */
export interface TroubleChange {
  /** The address of a cluster's server; '' for a single one. */
  readonly server: string;
  readonly trouble: Trouble;
  readonly isOn: boolean;
  /** In words of a closed set (`reasonOf`). */
  readonly reason: string;
  /** The client's own text. */
  readonly cause: string;
}

/** Options of one command. */
export interface CommandOptions {
  /** An earlier end of the wait, on the clock of `performance.now()`. */
  readonly untilMs?: number;
  /** Parent of the command's span, which has `name` only: traces contain no keys and values. */
  readonly span?: Span | undefined;
  readonly name?: string;
}

type RedisCommand<T> = (client: RedisClient) => Promise<T>;

type Breakers = Readonly<Record<Trouble, Breaker>>;

/** Bytes of a value per ms of the bound: at 100 MB/s a fifth of it, so that a few may follow each other. */
const bytesPerMs = 20_000;
/** Ms by which a caller's bound may be below `timeoutMs` and still count as whole. */
const slackMs = 1;
/** Above this number, servers without trouble are dropped. */
const maxKnownServers = 64;

/** Commands to Redis, bounded in time, behind circuit breakers. Fails open: Redis is only speed. No method rejects. */
export class RedisLink {
  /** Resolves when the connection is ready, or has failed. */
  readonly started: Promise<void>;
  readonly #client: RedisClient;
  readonly #options: LinkOptions;
  /** Circuits of servers that were in trouble, by address; '' for a single server. */
  readonly #servers = new Map<string, Breakers>();
  #lastError: Error | undefined;
  /** Neither a connection nor a failure yet: commands are `closed`, without a report. */
  #isStarting = true;

  constructor(connect: (onError: (error: Error) => void) => RedisClient, options: LinkOptions) {
    this.#options = options;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.started = promise;
    const onStarted = (): void => {
      this.#isStarting = false;
      resolve();
    };
    this.#client = connect((error) => {
      this.#lastError = error;
      const reason = reasonOf('connection', error, { timeoutMs: options.timeoutMs });
      this.#breakersOf('', options.trialKey)['circuit open'].open(reason);
      onStarted();
    });
    this.#client.once('ready', onStarted);
  }

  /** The reason of this trouble, in any server; `undefined`: no trouble. */
  trouble(kind: Trouble): string | undefined {
    if (this.#isStarting && kind === 'circuit open') return 'connecting';
    for (const breakers of this.#servers.values()) {
      const { reason } = breakers[kind];
      if (reason !== undefined) return reason;
    }
    return undefined;
  }

  /** Bytes. A larger value would delay the commands behind it, and the server would count as slow. */
  get longestValue(): number {
    return this.#options.timeoutMs * bytesPerMs;
  }

  /** Whether commands that write `key` would not be sent. */
  isClosed(key: string): boolean {
    const breakers = this.#servers.get(this.#serverOf(key));
    return this.#isStarting || breakers?.['circuit open'].isOpen === true || breakers?.['read-only'].isOpen === true;
  }

  /** Runs a command on `key`. */
  read<T>(key: string, command: RedisCommand<T>, options: CommandOptions = {}): Promise<RedisOutcome<T>> {
    return traced(options, () => this.#run(key, command, options.untilMs, false));
  }

  /** Like `read`, for commands that write: fails while the server refuses writes. */
  write<T>(key: string, command: RedisCommand<T>, options: CommandOptions = {}): Promise<RedisOutcome<T>> {
    return traced(options, () => this.#run(key, command, options.untilMs, true));
  }

  /** The server, or those of a cluster: only primaries can delete keys. Empty before a cluster is connected. */
  servers(role: 'master' | 'all'): readonly Redis[] {
    return 'slots' in this.#client ? this.#client.nodes(role) : [this.#client];
  }

  /** Runs an operator's command with a bound of its own, apart from the circuits. */
  async runFor<T>(ms: number, command: () => Promise<T>): Promise<RedisOutcome<T>> {
    const outcome = await this.#bounded(command, ms);
    if ('value' in outcome) return outcome;
    const failure = failureOf(outcome.error, true);
    this.#options.onFailure(failure);
    return { failure };
  }

  close(): void {
    for (const breakers of this.#servers.values()) for (const breaker of Object.values(breakers)) breaker.end();
    this.#client.disconnect();
  }

  async #run<T>(key: string, command: RedisCommand<T>, untilMs = Infinity, isWrite: boolean): Promise<RedisOutcome<T>> {
    const server = this.#serverOf(key);
    const breakers = this.#servers.get(server);
    if (isWrite && breakers?.['read-only'].isOpen === true) return { failure: 'refused' };
    if (this.#isStarting || breakers?.['circuit open'].isOpen === true) return { failure: 'closed' };
    const { timeoutMs } = this.#options;
    const ms = Math.min(timeoutMs, untilMs - performance.now());
    let sent: Promise<T> | undefined;
    const outcome = await this.#bounded((client) => (sent = command(client)), ms);
    if ('value' in outcome) return outcome;
    const failure = failureOf(outcome.error, isWrite);
    this.#options.onFailure(failure);
    const reason = reasonOf(failure, outcome.error, { timeoutMs, lastError: this.#lastError });
    // The caller's earlier steps used a part of the bound. The server counts as silent only after all of it.
    if (failure === 'timeout' && ms < timeoutMs - slackMs && sent !== undefined) {
      const late = sent;
      void this.#bounded(() => late, timeoutMs - ms).then((rest) => {
        if ('error' in rest && rest.error instanceof TimeoutError)
          this.#breakersOf(server, key)['circuit open'].open(reason);
      });
      return { failure };
    }
    if (failure === 'refused') this.#breakersOf(server, key)['read-only'].open(reason);
    if (isOfServer(failure)) this.#breakersOf(server, key)['circuit open'].open(reason);
    return { failure };
  }

  #bounded<T>(command: RedisCommand<T>, ms: number): Promise<{ value: T } | { error: Error }> {
    return new Promise((resolve) => {
      const timer = setPatientTimeout(() => resolve({ error: new TimeoutError() }), Math.max(1, ms));
      const onError = (error: unknown): void => {
        clearTimeout(timer);
        resolve({ error: error instanceof Error ? error : new Error(String(error)) });
      };
      const onValue = (value: T): void => {
        clearTimeout(timer);
        resolve({ value });
      };
      try {
        command(this.#client).then(onValue, onError);
      } catch (error) {
        // The client may also throw synchronously.
        onError(error);
      }
    });
  }

  /** The address of the cluster's server for `key`; '' for a single server. */
  #serverOf(key: string): string {
    if (!('slots' in this.#client)) return '';
    return this.#client.slots[calculateSlot(key)]?.[0] ?? '';
  }

  #breakersOf(server: string, key: string): Breakers {
    const known = this.#servers.get(server);
    if (known !== undefined) return known;
    this.#forgetOldServers();
    const breaker = (trouble: Trouble, trial: RedisCommand<unknown>): Breaker =>
      new Breaker({
        trial: () => this.#isWell(trial),
        onChange: (isOn, reason) =>
          this.#options.onTrouble({ server, trouble, isOn, reason, cause: this.#lastError?.message ?? '' }),
      });
    const breakers = {
      'circuit open': breaker('circuit open', (client) => client.hget(key, '0')),
      // A write that changes nothing, because no key has this name. The braces put it into the slot of `key` (Redis
      // Cluster specification, hash tags).
      'read-only': breaker('read-only', (client) => client.set(`${key}!{${key}}`, '', 'XX')),
    };
    this.#servers.set(server, breakers);
    return breakers;
  }

  async #isWell(trial: RedisCommand<unknown>): Promise<boolean> {
    const outcome = await this.#bounded(trial, this.#options.timeoutMs);
    return 'value' in outcome || failureOf(outcome.error, false) === 'wrong type';
  }

  #forgetOldServers(): void {
    if (this.#servers.size < maxKnownServers) return;
    for (const [server, breakers] of this.#servers) {
      if (!Object.values(breakers).some(({ isOpen }) => isOpen)) this.#servers.delete(server);
    }
  }
}

async function traced<T>(
  { span, name = '' }: CommandOptions,
  run: () => Promise<RedisOutcome<T>>,
): Promise<RedisOutcome<T>> {
  if (span === undefined) return run();
  const attributes = { 'db.system.name': 'redis', 'db.operation.name': name };
  const command = span.begin(name, { kind: 'client', attributes });
  const outcome = await run();
  if ('failure' in outcome) command.fail(outcome.failure);
  command.end();
  return outcome;
}
