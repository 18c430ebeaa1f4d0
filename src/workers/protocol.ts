/**
 * Every message between the primary and its workers, one method per message type. `Channel` parses a message once and
 * calls the method of its name. Messages are structured clones: 64-bit numbers are bigint, bytes are bytes.
 */
import type { LimitService } from '../access/index.ts';
import type { Config } from '../config/index.ts';
import type { DistrustedFunctions } from '../encode/index.ts';
import type { PeerWorkers } from '../gateway/index.ts';
import type { ProcessCalls } from '../proxy/operations/index.ts';

/** An event that one worker publishes to all others. */
export type PeerEvent = Parameters<PeerWorkers['publish']>[0];

/** Messages to a worker; a return value is the answer. */
export interface WorkerHandlers extends ProcessCalls {
  /** Sent once, in answer to `loaded`. */
  serve(setup: Setup): void;
  /** The answer proves that the event loop runs. */
  alive(): void;
  /** An event of a peer; the answer to `submitted` follows its record. */
  published(published: Published): void | Promise<void>;
  /** Applies the live keys of a config; the answer is the reason of a refusal, or `undefined`. */
  apply(config: Config): Promise<string | undefined>;
  log(config: Config['log']): void;
  /** Finishes the requests in flight, then answers. */
  drain(): Promise<void>;
}

/** `lead`: read for all workers. `look`: another worker's read has ended, and the store may have its answer. */
export type ReadTurn = 'lead' | 'look';

/** Messages to the primary, from one worker. */
export interface PrimaryHandlers extends ReturnType<LimitService['handlersFor']> {
  /** Sent once, first: the modules are loaded and the worker waits for `serve`. */
  loaded(): void;
  serving(at: { readonly port: number }): void;
  failed(failure: StartFailure): void;
  /** An event for the peers; the answer to `submitted` follows their records, or a timeout. */
  publish(published: Published): void | Promise<void>;
  /** The text of the keys file in force, for workers that start while the file is invalid or missing. */
  keys(text: string): void;
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
  /** The last `keys` text. */
  readonly keys: string | undefined;
}

/** The reason of a failed start; fields of the `listen` error when the port failed. */
export interface StartFailure {
  readonly message: string;
  readonly code?: string | undefined;
  readonly syscall?: string | undefined;
  readonly address?: string | undefined;
  readonly port?: number | undefined;
}
