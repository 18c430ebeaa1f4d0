/** What the primary and its workers say to each other. Structured clones: 64-bit numbers are bigint, bytes are bytes. */
import type { Config, UpstreamConfig } from '../config/config.ts';
import type { AdminAnswer } from '../proxy/admin.ts';
import type { Readiness } from '../proxy/health.ts';
import type { Finding } from '../upstream/probe.ts';

/** What a worker handles. */
export interface WorkerHandlers {
  readiness(): Promise<Readiness>;
  /** What `Registry.getMetricsAsJSON` gives. */
  metrics(): Promise<MetricsJson>;
  /** In this worker, in Redis and at other replicas. */
  purge(request: { readonly request: unknown; readonly from: string }): Promise<AdminAnswer>;
  /** In this worker alone. */
  purgeHere(request: unknown): Promise<AdminAnswer>;
  explain(request: unknown): Promise<AdminAnswer>;
  /** Whether this worker asks quiet nodes for all. */
  duty(isOnDuty: boolean): void;
  found(news: Found): void;
  taken(news: Taken): Promise<void>;
  distrusted(functionId: string): void;
  /** Finishes what is in flight; the worker has nothing left to do when it answers. */
  drain(): Promise<void>;
}

/** What the primary handles, of one worker. */
export interface PrimaryHandlers {
  /** Asked once, first. */
  setup(): Setup;
  serving(at: { readonly port: number }): void;
  failed(failure: Failure): void;
  /** To be told to the others. */
  found(news: Found): void;
  /** To be told to the others; answered when they know. */
  taken(news: Taken): Promise<void>;
  distrusted(functionId: string): void;
}

export interface Setup {
  readonly config: PackedConfig;
  readonly drainDelayMs: number;
  readonly processes: number;
  readonly distrusted: readonly string[];
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

export type MetricsJson = readonly object[];

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
