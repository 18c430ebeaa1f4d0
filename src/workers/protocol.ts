/**
 * Every message between the primary and its workers, one method per message type. `Channel` parses a message once and
 * calls the method of its name. Messages are structured clones: 64-bit numbers are bigint, bytes are bytes.
 */
import type { Charge, Count } from '../access/limits/counter.ts';
import type { Config, LogConfig, UpstreamConfig } from '../config/config.ts';
import type { Distrusted } from '../encode/distrusted.ts';
import type { PeerEvent } from '../gateway/peer-workers.ts';
import type { FamilyData } from '../metrics/family.ts';
import type { AdminAnswer } from '../proxy/operations/purge-request.ts';
import type { Readiness } from '../proxy/operations/operations-server.ts';
import type { Told } from '../proxy/operations/status/facts.ts';

/** Messages to a worker; a return value is the answer. */
export interface WorkerHandlers {
  /** Sent once, in answer to `loaded`. */
  serve(setup: Setup): void;
  /** The answer shows that the event loop of the worker turns. */
  alive(): void;
  /** An event of a peer. A `submitted` event is answered once it is recorded. */
  published(published: Published): void | Promise<void>;
  readiness(): Promise<Readiness>;
  status(): Promise<Told>;
  metrics(): Promise<readonly FamilyData[]>;
  /** Purges this worker, Redis and the other replicas. */
  purge(request: { readonly request: unknown; readonly from: string }): Promise<AdminAnswer>;
  /** Purges the memory of this worker alone. */
  purgeHere(request: unknown): Promise<AdminAnswer>;
  explain(request: unknown): Promise<AdminAnswer>;
  usage(request: unknown): Promise<AdminAnswer>;
  /** Puts the live keys of a config in force. Answers once they are, or with the reason of a refusal. */
  apply(config: PackedConfig): Promise<string | undefined>;
  log(config: LogConfig): void;
  /** Finishes the requests in flight, then answers. */
  drain(): Promise<void>;
}

/** Messages to the primary, from one worker. */
export interface PrimaryHandlers {
  /** Sent once, first: the modules are loaded and the worker waits for `serve`. */
  loaded(): void;
  serving(at: { readonly port: number }): void;
  failed(failure: StartFailure): void;
  /** An event for the peers. A `submitted` event is answered once they recorded it, or after a bound. */
  publish(published: Published): void | Promise<void>;
  /** The text of the keys file in force, for workers that start while the file is wrong or gone. */
  keys(text: string): void;
  /** Counts a request of a client against its limits, for all workers. */
  take(request: { readonly id: number; readonly charge: Charge }): Count;
  /** The request with this id has ended. */
  settle(ended: { readonly id: number; readonly extraCost: number }): void;
}

/** A peer event, and the ledger that its worker was on: the number of replacements of the ledger since the start. */
export interface Published {
  readonly ledger: number;
  readonly event: PeerEvent;
}

/** Everything a worker needs to serve. */
export interface Setup {
  readonly config: PackedConfig;
  readonly drainDelayMs: number;
  readonly processes: number;
  readonly distrusted: Distrusted;
  readonly ledger: number;
  /** The newest ledger state that the workers published. */
  readonly published: readonly Published[];
  /** The last `keys` text. */
  readonly keys: string | undefined;
}

/** The reason of a failed start; the fields of the `listen` error where a port is the reason. */
export interface StartFailure {
  readonly message: string;
  readonly code?: string | undefined;
  readonly syscall?: string | undefined;
  readonly address?: string | undefined;
  readonly port?: number | undefined;
}

/** A config as a message: a URL has no structured clone. */
export interface PackedConfig extends Omit<Config, 'upstreams'> {
  readonly upstreams: readonly (Omit<UpstreamConfig, 'url'> & { readonly url: string })[];
}

/** `config` as a message. */
export function packConfig(config: Config): PackedConfig {
  return { ...config, upstreams: config.upstreams.map((upstream) => ({ ...upstream, url: upstream.url.href })) };
}

/** The config of a message. */
export function unpackConfig(packed: PackedConfig): Config {
  return { ...packed, upstreams: packed.upstreams.map((upstream) => ({ ...upstream, url: new URL(upstream.url) })) };
}
