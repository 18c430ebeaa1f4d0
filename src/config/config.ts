/** The parsed config. Durations are in ms, sizes in bytes. */
import type { DialectName } from '../ledger/ledger-headers.ts';

/** A checked config with every default, deeply frozen. `docs/configuration.md` describes each key. */
export interface Config {
  readonly listen: {
    readonly host: string;
    readonly port: number;
    readonly basePath: string;
    /** Connections of clients to all processes together. */
    readonly maxConnections: number;
    /** Whether the fast path answers hits ahead of the HTTP server. */
    readonly fastPath: boolean;
    /** Absent: plain HTTP. */
    readonly tls?: TlsConfig | undefined;
  };
  readonly operations: {
    readonly host: string;
    readonly port: number;
    readonly token?: string | undefined;
    /** Lower case: public names, or `*.` and a domain. Absent: not configured, `check` warns. */
    readonly hosts?: readonly string[] | undefined;
    /** Whether the gateway stays ready while no node answers. */
    readonly readyInOutage: boolean;
  };
  readonly dialect: DialectName;
  /** 1 to 255: nodes of other chains get no request. Absent: the chain that most nodes report at the start. */
  readonly chainId?: number | undefined;
  readonly workers: number | 'auto';
  readonly upstreams: readonly UpstreamConfig[];
  readonly upstream: UpstreamLimits;
  readonly cache: {
    readonly gasPriceTtlMs: number;
    readonly memory: { readonly maxBytes: number };
    readonly redis?: RedisConfig | undefined;
  };
  readonly latest: {
    readonly maxStalenessMs: number;
    readonly waitForVersionMs: number;
    /** Bounds of the `Ledgergate-Max-Staleness` of clients. */
    readonly minClientStalenessMs: number;
    readonly maxClientStalenessMs: number;
  };
  /** Absent: the endpoint is open. */
  readonly access?: AccessConfig | undefined;
  readonly encode: { readonly enabled: boolean; readonly shadow: number; readonly signingDomain: string };
  readonly log: LogConfig;
}

/** TLS towards clients. */
export interface TlsConfig extends TlsFiles {
  /** OpenSSL names, best first. Absent: `defaultCiphers`. */
  readonly ciphers?: readonly string[] | undefined;
}

/** Absolute names of PEM files. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

/** One node. */
export interface UpstreamConfig {
  readonly name: string;
  readonly url: URL;
  readonly tier: 'full' | 'archival';
  /** Credentials of the gateway at this node, names in lower case. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Requests a second that the gateway sends to it, above 0. Absent: unlimited. */
  readonly maxRequestsPerSecond?: number | undefined;
}

/** Bounds on the work for one request and on the load of one node. */
interface UpstreamLimits {
  readonly timeoutMs: number;
  readonly deadlineMs: number;
  readonly probeIntervalMs: number;
  readonly connections: number;
  readonly maxAttempts: number;
  /** A node that lags more behind the fleet serves only versions that it holds. */
  readonly maxLagMs: number;
  /** Absent: no second attempt before the first has failed. */
  readonly hedge?: { readonly quantile: number; readonly share: number } | undefined;
  /** Share of pinned reads, 0 to 1, whose answer is compared with a second node's. */
  readonly audit: number;
}

/** The cache tier that replicas share. */
export interface RedisConfig {
  readonly target: RedisTargetConfig;
  readonly keyPrefix: string;
  /** Longest delay that Redis may add to a read. */
  readonly timeoutMs: number;
  readonly ttlMs: number;
}

/** Addresses of Redis in one of its three topologies. */
export type RedisTargetConfig =
  | { readonly kind: 'single'; readonly url: string }
  | { readonly kind: 'sentinel'; readonly name: string; readonly urls: readonly string[] }
  | { readonly kind: 'cluster'; readonly urls: readonly string[] };

/** The log level and the rules of access lines. */
export interface LogConfig {
  readonly level: LogLevel;
  readonly access: AccessLogConfig;
}

/** The requests that get an access line. */
export interface AccessLogConfig {
  /** Share of all requests, 0 to 1. */
  readonly share: number;
  /** Slower requests get a line. */
  readonly slowMs: number;
  /** Requests answered 5xx get a line. */
  readonly failed: boolean;
}

/** Levels of pino, least serious first. */
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

/** An operation that a plan allows. */
export type OperationName = 'read' | 'view' | 'encode' | 'submit' | 'pass';

/** Keys, plans and costs. */
export interface AccessConfig {
  /** Lower case. In `authorization` the key follows `Bearer`. */
  readonly header: string;
  readonly keys: {
    /** Absolute path. */
    readonly file?: string | undefined;
    readonly redis: boolean;
  };
  /** The plan of requests without a key. Absent: 401. */
  readonly anonymous?: string | undefined;
  /** Networks in CIDR form. */
  readonly trustedProxies: readonly string[];
  readonly whenRedisIsDown: 'local' | 'refuse' | 'allow';
  readonly plans: Readonly<Record<string, PlanConfig>>;
  readonly costs: CostConfig;
  readonly usage: { readonly metricsByKey: boolean };
}

/** One plan. An absent bound is no bound. */
export interface PlanConfig {
  readonly windowMs: number;
  readonly requests?: number | undefined;
  readonly cost?: number | undefined;
  /** Requests within a second. */
  readonly burst?: number | undefined;
  readonly concurrency?: number | undefined;
  readonly waitMs: number;
  readonly operations: readonly OperationName[];
  readonly origins?: readonly string[] | undefined;
}

/** Costs: per request, per ms of a node, per unit of gas, per KiB. */
interface CostConfig {
  readonly hit: number;
  readonly miss: number;
  readonly upstreamMs: number;
  readonly gasUnit: number;
  readonly encode: number;
  readonly encodeKiB: number;
  readonly submit: number;
  readonly pass: number;
}
