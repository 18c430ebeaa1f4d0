/**
 * The channel between the primary and a worker: messages and calls, one handler for each, typed by the handlers of both
 * sides and bounded in time. Messages are structured clones: 64-bit numbers are bigint, bytes are bytes.
 */
import type { GatewayCounts } from '../access/index.ts';
import type { Config } from '../config/index.ts';
import type { DistrustedFunctions } from '../encode/index.ts';
import type { PeerEvent } from '../gateway/index.ts';
import type { FileTexts } from '../metrics/index.ts';
import type { ProcessCalls } from '../proxy/operations/index.ts';

/** Messages to a worker; a return value is the answer. */
export interface WorkerHandlers extends ProcessCalls {
  /** Sent once, in answer to `loaded`. */
  serve(setup: Setup): void;
  /** The answer proves that the event loop runs. */
  alive(): void;
  /** An event of a peer; the answer follows once it is applied. */
  published(published: Published): void | Promise<void>;
  /** Applies the live keys of a config; the answer is the reason of a refusal, or `undefined`. */
  apply(config: Config): Promise<string | undefined>;
  log(config: Config['log']): void;
  /** Whether this worker follows the ledger for all: one of the serving workers does. */
  follow(isAppointed: boolean): void;
  /** Finishes the requests in flight, then answers. */
  drain(): Promise<void>;
}

/** `lead`: read for all workers. `look`: another worker's read has ended, and the store may have its answer. */
export type ReadTurn = 'lead' | 'look';

/** Messages to the primary, from one worker. */
export interface PrimaryHandlers extends ReturnType<GatewayCounts['handlersFor']> {
  /** Sent once, first: the modules are loaded and the worker waits for `serve`. */
  loaded(): void;
  serving(at: { readonly port: number }): void;
  failed(failure: StartFailure): void;
  /** An event for the peers; the answer to an awaited one follows once they applied it, or after a timeout. */
  publish(published: Published): void | Promise<void>;
  /** Contents of files in use, for workers that start while a file cannot be used: see `SharedFiles`. */
  files(kept: { readonly section: string; readonly texts: FileTexts }): void;
  /** Begins a read of a node, or waits for the end of another worker's: see `ReadFlights`. */
  enterFlight(name: string): ReadTurn | Promise<ReadTurn>;
  leaveFlight(name: string): void;
}

/** A peer event; `ledger`: the number of ledger replacements since the start at the worker that published it. */
export interface Published {
  readonly ledger: number;
  readonly event: PeerEvent;
}

/** Everything a worker needs to serve. */
export interface Setup {
  readonly config: Config;
  readonly drainDelayMs: number;
  readonly processes: number;
  /** The name of this start of the gateway. */
  readonly run: string;
  readonly distrusted: DistrustedFunctions['all'];
  /** Names of drained nodes. */
  readonly drained: readonly string[];
  readonly ledger: number;
  /** The newest ledger state that the workers published. */
  readonly published: readonly Published[];
  /** The last `files` of each section. */
  readonly files: Map<string, FileTexts>;
}

/** The reason of a failed start; fields of the `listen` error when the port failed. */
export interface StartFailure {
  readonly message: string;
  readonly code?: string | undefined;
  readonly syscall?: string | undefined;
  readonly address?: string | undefined;
  readonly port?: number | undefined;
}

/** The handlers of one side, by message type. One argument each; the return value is the answer. */
type Handlers = Readonly<Record<string, (argument: never) => unknown>>;

type ArgumentOf<H, Name extends keyof H> = H[Name] extends (argument: infer A) => unknown ? A : never;
type ReturnOf<H, Name extends keyof H> = H[Name] extends (argument: never) => infer R ? Awaited<R> : never;

type Message =
  | { readonly kind: 'call'; readonly id: number; readonly name: string; readonly argument: unknown }
  | { readonly kind: 'notify'; readonly name: string; readonly argument: unknown }
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'fault'; readonly id: number; readonly message: string };

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** One end of a channel. `Theirs` are the handlers of the other end. */
export class Channel<Theirs extends object> {
  readonly #send: (message: Message) => void;
  readonly #handlers: Handlers;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  #isClosed = false;

  /** `send`: delivers to the other process, or loses the message; a lost call times out. */
  constructor(send: (message: object) => void, handlers: object) {
    this.#send = send;
    this.#handlers = handlers as Handlers;
  }

  /** Handles a message of the other side; messages arrive in order. */
  take(raw: unknown): void {
    const message = raw as Message;
    if (message.kind === 'answer') this.#pending.get(message.id)?.resolve(message.value);
    else if (message.kind === 'fault') this.#pending.get(message.id)?.reject(new Error(message.message));
    else if (message.kind === 'notify') this.#handle(message.name, message.argument);
    else if (message.kind === 'call') this.#answer(message);
  }

  /** Calls a handler of the other side. Rejects when that fails, times out, or the process has exited. */
  call<Name extends keyof Theirs & string>(
    name: Name,
    argument: ArgumentOf<Theirs, Name>,
    timeoutMs: number,
  ): Promise<ReturnOf<Theirs, Name>> {
    if (this.#isClosed) return Promise.reject(new Error('the process has exited'));
    const id = (this.#lastId += 1);
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const timer = setTimeout(() => reject(new Error(`${name}: no answer within ${timeoutMs} ms`)), timeoutMs);
    // A call alone must not keep the process alive.
    timer.unref();
    this.#pending.set(id, { resolve, reject });
    const ended = promise.finally(() => {
      clearTimeout(timer);
      this.#pending.delete(id);
    });
    try {
      this.#send({ kind: 'call', id, name, argument });
    } catch (error) {
      // The argument has no structured clone, or is too deeply nested for one.
      reject(error instanceof Error ? error : new Error(String(error)));
    }
    return ended as Promise<ReturnOf<Theirs, Name>>;
  }

  /** Sends a message without an answer. */
  notify<Name extends keyof Theirs & string>(name: Name, argument: ArgumentOf<Theirs, Name>): void {
    if (!this.#isClosed) this.#send({ kind: 'notify', name, argument });
  }

  /** The other process has exited: rejects every open call. */
  close(): void {
    this.#isClosed = true;
    for (const pending of this.#pending.values()) pending.reject(new Error('the process has exited'));
  }

  #handle(name: string, argument: unknown): unknown {
    const handler = this.#handlers[name];
    if (handler === undefined) throw new Error(`no handler for ${name}`);
    return handler(argument as never);
  }

  #answer({ id, name, argument }: Message & { readonly kind: 'call' }): void {
    new Promise((resolve) => resolve(this.#handle(name, argument)))
      .then((value) => this.#send({ kind: 'answer', id, value }))
      // Reached also for a value without a structured clone.
      .catch((error: unknown) => this.#send({ kind: 'fault', id, message: String(error) }));
  }
}
