/** What the primary and its workers say to each other. Structured clones: 64-bit numbers are bigint, bytes are bytes. */
import type { Charge, Count } from '../access/counter.ts';
import type { CacheKey } from '../cache/key.ts';
import type { Config, LogConfig, UpstreamConfig } from '../config/config.ts';
import type { Distrusted } from '../encode/distrusted.ts';
import type { FamilyData } from '../metrics/family.ts';
import type { AdminAnswer } from '../proxy/purge-request.ts';
import type { Readiness } from '../proxy/health.ts';
import type { Told } from '../status/facts.ts';
import type { NodeReport } from '../upstream/fleet.ts';
import type { Finding } from '../upstream/probe.ts';
import type { AgreedNews, AgreedState, Head } from './agreed-state.ts';

/** What a worker handles. */
export interface WorkerHandlers {
  /** Told once, first: to a worker at once when it has loaded everything, to the spare when it is needed. */
  serve(setup: Setup): void;
  /** A sign of life. */
  alive(): void;
  readiness(): Promise<Readiness>;
  status(): Promise<Told>;
  metrics(): Promise<readonly FamilyData[]>;
  /** In this worker, in Redis and at other replicas. */
  purge(request: { readonly request: unknown; readonly from: string }): Promise<AdminAnswer>;
  /** In this worker alone. */
  purgeHere(request: unknown): Promise<AdminAnswer>;
  explain(request: unknown): Promise<AdminAnswer>;
  usage(request: unknown): Promise<AdminAnswer>;
  /** What is to be shown from `atMs` on, if it is decided; answered when it is known. */
  prepare(proposal: { readonly id: number; readonly state: AgreedState; readonly atMs: number }): void;
  commit(id: number): void;
  abort(id: number): void;
  standing(standing: Standing): void;
  /** Until then this worker may show what it knows of. */
  beat(untilMs: number): void;
  /** Whether this worker asks quiet nodes for all. */
  duty(isOnDuty: boolean): void;
  found(news: Found): void;
  taken(news: Taken): Promise<void>;
  distrusted(functionId: string): void;
  /** Nodes disagree on this read. */
  dropped(key: CacheKey): void;
  /** Puts the live keys of another config in force; answered when they are, or with the reason why they cannot be. */
  apply(config: PackedConfig): Promise<string | undefined>;
  /** What is logged from now on. */
  log(config: LogConfig): void;
  /** Finishes what is in flight; the worker has nothing left to do when it answers. */
  drain(): Promise<void>;
}

/** What the primary handles, of one worker. */
export interface PrimaryHandlers {
  /** Told once, first: it waits for `serve`. */
  loaded(): void;
  serving(at: { readonly port: number }): void;
  failed(failure: Failure): void;
  raise(raised: Raised): void;
  startOver(told: StartedOver): void;
  takeTurn(): Promise<boolean>;
  endTurn(): void;
  /** To be told to the others. */
  found(news: Found): void;
  /** To be told to the others; answered when they know. */
  taken(news: Taken): Promise<void>;
  distrusted(functionId: string): void;
  /** To be told to the others. */
  dropped(key: CacheKey): void;
  /** Counts a request of a client against its limits, for all workers. */
  take(request: { readonly id: number; readonly charge: Charge }): Count;
  /** The text of the file of keys that is in force, for workers that start while the file is wrong or gone. */
  keys(text: string): void;
  /** The request with this id has ended. */
  settle(ended: { readonly id: number; readonly extraCost: number }): void;
}

export interface Setup {
  readonly config: PackedConfig;
  readonly drainDelayMs: number;
  readonly processes: number;
  readonly distrusted: Distrusted;
  /** Of the nodes, by what the others were told not long ago. */
  readonly known: readonly Found[];
  /** Of the file of keys: what other workers have put in force last. */
  readonly keys: string | undefined;
}

/** News that a worker wants to show, of the ledger that it knows. `isUrgent`: a client waits for it. */
export interface Raised {
  readonly ledger: number;
  readonly news: AgreedNews;
  readonly isUrgent: boolean;
}

/** A worker has found `ledger` to be another one by now. */
export interface StartedOver {
  readonly ledger: number;
  readonly reports: readonly NodeReport[];
  readonly head: Head | undefined;
}

/** Where things stand. `reports`: what the worker `by` knows of the nodes that found the ledger to be another one. */
export interface Standing {
  readonly by: number;
  readonly state: AgreedState;
  readonly reports: readonly NodeReport[];
}

export interface Found {
  readonly upstream: string;
  readonly finding: Finding;
}

export interface Taken {
  readonly hash: string;
  readonly upstream: string;
}

/** Why a worker could not start: what `listen` says of a port, where that is why. */
export interface Failure {
  readonly message: string;
  readonly code?: string | undefined;
  readonly syscall?: string | undefined;
  readonly address?: string | undefined;
  readonly port?: number | undefined;
}

/** A config as it can be sent: a URL has no structured clone. */
export interface PackedConfig extends Omit<Config, 'upstreams'> {
  readonly upstreams: readonly (Omit<UpstreamConfig, 'url'> & { readonly url: string })[];
}

export function packConfig(config: Config): PackedConfig {
  return { ...config, upstreams: config.upstreams.map((upstream) => ({ ...upstream, url: upstream.url.href })) };
}

export function unpackConfig(packed: PackedConfig): Config {
  return { ...packed, upstreams: packed.upstreams.map((upstream) => ({ ...upstream, url: new URL(upstream.url) })) };
}
