/** Commands to Redis: bounded in time, behind circuits, with failures in words of a closed set. */
import calculateSlot from 'cluster-key-slot';
import type { Redis } from 'ioredis';
import type { RedisServersConfig } from '../../config/index.ts';
import { Circuit, setPatientTimeout } from '../../ledger/index.ts';
import type { Span } from '../../metrics/index.ts';
import { onceReady, type RedisClient, RedisSource } from './redis-source.ts';

/** `closed`: not sent, the circuit is open. `refused`: the server takes no writes. `wrong type`: of the key. */
type RedisFailure = 'closed' | 'timeout' | 'connection' | 'refused' | 'wrong type' | 'error';
/** The failure of a command that was sent. */
type CommandFailure = Exclude<RedisFailure, 'closed'>;

/** The result of a command, or the class of its failure. */
export type RedisOutcome<T> = { readonly value: T } | { readonly failure: RedisFailure };

/** `circuit open`: the server receives only trials. `read-only`: it refuses writes; reads go on. */
type Trouble = 'circuit open' | 'read-only';

/** Live bounds of a link, read at each command. `timeoutMs`: longest wait for one. */
interface LinkBounds {
  readonly timeoutMs: number;
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

type ServerCircuits = Readonly<Record<Trouble, TriedCircuit>>;

/** Bytes of a value per ms of the bound: at 100 MB/s a fifth of it, so that a few may follow each other. */
const bytesPerMs = 20_000;
/** Ms by which a caller's bound may be below `timeoutMs` and still count as whole. */
const slackMs = 1;
/** Above this number, servers without trouble are dropped. */
const maxKnownServers = 64;

/** A connection to Redis. Fails open: Redis is only speed. No method rejects. */
export class RedisLink {
  /** Resolves when the connection is ready, or has failed. */
  readonly started: Promise<void>;
  readonly #client: RedisClient;
  readonly #bounds: LinkBounds;
  readonly #onTrouble: (change: TroubleChange) => void;
  readonly #onFailure: (failure: CommandFailure) => void;
  /** Circuits of servers that were in trouble, by address; '' for a single server. */
  readonly #servers = new Map<string, ServerCircuits>();
  #lastError: Error | undefined;
  /** Neither a connection nor a failure yet: commands are `closed`, without a report. */
  #isStarting = true;

  /** `trialKey`: the key of trials before the first command. `onTrouble`: called once per change. */
  constructor(
    connect: (onError: (error: Error) => void) => RedisClient,
    bounds: LinkBounds,
    trialKey: string,
    onTrouble: (change: TroubleChange) => void,
    onFailure: (failure: CommandFailure) => void = () => {},
  ) {
    this.#bounds = bounds;
    this.#onTrouble = onTrouble;
    this.#onFailure = onFailure;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.started = promise;
    const onStarted = (): void => {
      this.#isStarting = false;
      resolve();
    };
    this.#client = connect((error) => {
      this.#lastError = error;
      const reason = reasonOf('connection', error, bounds);
      this.#circuitsOf('', trialKey)['circuit open'].open(reason);
      onStarted();
    });
    onceReady(this.#client, onStarted);
  }

  /** The reason of this trouble, in any server; `undefined`: no trouble. */
  trouble(kind: Trouble): string | undefined {
    if (this.#isStarting && kind === 'circuit open') return 'connecting';
    for (const circuits of this.#servers.values()) if (circuits[kind].isOpen) return circuits[kind].cause;
    return undefined;
  }

  /** Bytes. A larger value would delay the commands behind it, and the server would count as slow. */
  get longestValue(): number {
    return this.#bounds.timeoutMs * bytesPerMs;
  }

  /** Whether commands that write `key` would not be sent. */
  isClosed(key: string): boolean {
    const circuits = this.#servers.get(this.#serverOf(key));
    return this.#isStarting || circuits?.['circuit open'].isOpen === true || circuits?.['read-only'].isOpen === true;
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
    this.#onFailure(failure);
    return { failure };
  }

  close(): void {
    for (const circuits of this.#servers.values()) for (const circuit of Object.values(circuits)) circuit.end();
    this.#client.disconnect();
  }

  async #run<T>(key: string, command: RedisCommand<T>, untilMs = Infinity, isWrite: boolean): Promise<RedisOutcome<T>> {
    const server = this.#serverOf(key);
    const circuits = this.#servers.get(server);
    if (isWrite && circuits?.['read-only'].isOpen === true) return { failure: 'refused' };
    if (this.#isStarting || circuits?.['circuit open'].isOpen === true) return { failure: 'closed' };
    const { timeoutMs } = this.#bounds;
    const ms = Math.min(timeoutMs, untilMs - performance.now());
    let sent: Promise<T> | undefined;
    const outcome = await this.#bounded((client) => (sent = command(client)), ms);
    if ('value' in outcome) return outcome;
    const failure = failureOf(outcome.error, isWrite);
    this.#onFailure(failure);
    const reason = reasonOf(failure, outcome.error, { timeoutMs, lastError: this.#lastError });
    // The caller's earlier steps used a part of the bound. The server counts as silent only after all of it.
    if (failure === 'timeout' && ms < timeoutMs - slackMs && sent !== undefined) {
      const late = sent;
      void this.#bounded(() => late, timeoutMs - ms).then((rest) => {
        if ('error' in rest && rest.error instanceof TimeoutError)
          this.#circuitsOf(server, key)['circuit open'].open(reason);
      });
      return { failure };
    }
    if (failure === 'refused') this.#circuitsOf(server, key)['read-only'].open(reason);
    if (isOfServer(failure)) this.#circuitsOf(server, key)['circuit open'].open(reason);
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

  #circuitsOf(server: string, key: string): ServerCircuits {
    const known = this.#servers.get(server);
    if (known !== undefined) return known;
    this.#forgetOldServers();
    const circuit = (trouble: Trouble, trial: RedisCommand<unknown>): TriedCircuit =>
      new TriedCircuit(
        () => this.#isWell(trial),
        (isOn, reason) => this.#onTrouble({ server, trouble, isOn, reason, cause: this.#lastError?.message ?? '' }),
      );
    const circuits = {
      'circuit open': circuit('circuit open', (client) => client.hget(key, '0')),
      // A write that changes nothing, because no key has this name. The braces put it into the slot of `key` (Redis
      // Cluster specification, hash tags).
      'read-only': circuit('read-only', (client) => client.set(`${key}!{${key}}`, '', 'XX')),
    };
    this.#servers.set(server, circuits);
    return circuits;
  }

  async #isWell(trial: RedisCommand<unknown>): Promise<boolean> {
    const outcome = await this.#bounded(trial, this.#bounds.timeoutMs);
    return 'value' in outcome || failureOf(outcome.error, false) === 'wrong type';
  }

  #forgetOldServers(): void {
    if (this.#servers.size < maxKnownServers) return;
    for (const [server, circuits] of this.#servers) {
      if (!Object.values(circuits).some(({ isOpen }) => isOpen)) this.#servers.delete(server);
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

/** The circuit of a server: the first failure opens it, and trials on a timer close it again. */
class TriedCircuit {
  readonly #circuit = new Circuit({ firstMs: 100, longestMs: 2_000, calmMs: 10_000 });
  readonly #sendTrial: () => Promise<boolean>;
  readonly #onChange: (isOpen: boolean, cause: string) => void;
  #timer: NodeJS.Timeout | undefined;
  #isEnded = false;

  /** `sendTrial` resolves to whether the server answered well and in time; `onChange` is called once per change. */
  constructor(sendTrial: () => Promise<boolean>, onChange: (isOpen: boolean, cause: string) => void) {
    this.#sendTrial = sendTrial;
    this.#onChange = onChange;
  }

  /** The failure that opened the circuit; `undefined`: it is closed. */
  get cause(): string | undefined {
    return this.#circuit.cause;
  }

  get isOpen(): boolean {
    return this.#circuit.isOpen;
  }

  open(cause: string): void {
    if (this.isOpen || this.#isEnded) return;
    const nowMs = performance.now();
    const pauseMs = this.#circuit.fail(cause, nowMs, nowMs);
    this.#onChange(true, cause);
    this.#tryIn(pauseMs);
  }

  end(): void {
    this.#isEnded = true;
    clearTimeout(this.#timer);
  }

  #tryIn(pauseMs: number | undefined): void {
    this.#timer = setTimeout(() => void this.#try(), pauseMs).unref();
  }

  async #try(): Promise<void> {
    const isWell = await this.#sendTrial();
    if (this.#isEnded) return;
    const { cause = '' } = this;
    const pauseMs = this.#circuit.endTrial(isWell, performance.now());
    if (pauseMs === undefined) this.#onChange(false, cause);
    else this.#tryIn(pauseMs);
  }
}

/**
 * Connections to the Redis of the config for rooms that store something else in it, of their own at each call. `source`:
 * renews user and TLS of the connections.
 */
export function redisConnections(config: RedisServersConfig, bounds: LinkBounds, source = new RedisSource(config)) {
  const { keyPrefix } = config;
  return {
    keyPrefix,
    link: (onTrouble: (change: TroubleChange) => void) =>
      new RedisLink((onError) => source.connect(onError), bounds, `${keyPrefix}:trial`, onTrouble),
    connect: (onError: (error: Error) => void) => source.connect(onError),
    subscribe(channel: string, listener: { onBegin(): void; onMessage(message: string): void }) {
      const client = source.subscribe(() => undefined);
      // At each connection: the client renews granted subscriptions only.
      client.on('ready', () => {
        client.subscribe(channel).then(
          () => listener.onBegin(),
          () => undefined,
        );
      });
      client.on('message', (_channel: string, message: string) => listener.onMessage(message));
      return client;
    },
    /** The error of a read in words of a closed set. */
    reasonOf: (error: Error) => reasonOf(failureOf(error, false), error, bounds),
  };
}

/** No answer within the bound. */
class TimeoutError extends Error {}

/** Whether the failure concerns the whole server, not one key or kind of command. */
function isOfServer(failure: RedisFailure): boolean {
  return failure === 'timeout' || failure === 'connection';
}

/** Reply codes of a server that refuses writes. */
const refusals = /^(?:READONLY|OOM|MISCONF|NOREPLICAS)\b/;
/** Reply codes of a server that refuses all commands. */
const unfit = /^(?:NOAUTH|WRONGPASS|LOADING|MASTERDOWN|CLUSTERDOWN|BUSY)\b/;

function failureOf(error: Error, isWrite: boolean): CommandFailure {
  if (error instanceof TimeoutError) return 'timeout';
  if (error.name !== 'ReplyError') return 'connection';
  const { message } = error;
  if (message.startsWith('WRONGTYPE')) return 'wrong type';
  // A user without the right to write is the same as a read-only server.
  if (message.startsWith('NOPERM')) return isWrite ? 'refused' : 'connection';
  if (refusals.test(message)) return 'refused';
  return unfit.test(message) ? 'connection' : 'error';
}

/** Words for error codes of the connection. */
const connectionReasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection cut',
  EPIPE: 'connection cut',
  ENOTFOUND: 'name not found',
  EAI_AGAIN: 'name not found',
  EHOSTUNREACH: 'no route',
  ENETUNREACH: 'no route',
  ETIMEDOUT: 'no connection in time',
  ENOENT: 'no such socket',
  EACCES: 'the socket is closed to this user',
};

/** Words for codes of replies. */
const replyReasons: Readonly<Record<string, string>> = {
  NOAUTH: 'it demands a password',
  WRONGPASS: 'it refuses user or password',
  NOPERM: 'the user lacks a right',
  LOADING: 'it loads its data',
  MASTERDOWN: 'its primary is down',
  CLUSTERDOWN: 'the cluster is down',
  BUSY: 'a script blocks it',
  READONLY: 'it is a read-only replica',
  OOM: 'its memory is full',
  MISCONF: 'it cannot save its data',
  NOREPLICAS: 'too few of its replicas answer',
};

/**
 * The failure in words of a closed set, without addresses and without the client's own text, which is for the debug log.
 * `lastError`: the connection's, which has the cause that a command's error lacks.
 */
function reasonOf(
  failure: RedisFailure,
  error: Error,
  { timeoutMs, lastError }: { readonly timeoutMs: number; readonly lastError?: Error | undefined },
): string {
  if (failure === 'timeout') return `no answer within ${timeoutMs} ms`;
  return wordsOf(error) ?? (lastError && wordsOf(lastError)) ?? 'the connection is lost';
}

function wordsOf(error: Error): string | undefined {
  const { code = '' } = error as NodeJS.ErrnoException;
  const reply = replyReasons[/^[A-Z]+\b/.exec(error.message)?.[0] ?? ''];
  const isOfTls = /TLS|SSL|CERT|SIGN/.test(code);
  return reply ?? connectionReasons[code] ?? (isOfTls ? 'TLS: the certificate or the handshake fails' : undefined);
}
