/** What the gateway is told: parsed, checked, defaults filled in, deeply frozen. Durations are ms, sizes bytes. */
import type { DialectName } from '../ledger/ledger-headers.ts';

export interface Config {
  readonly listen: {
    readonly host: string;
    readonly port: number;
    readonly basePath: string;
    /** Of clients, all processes together. */
    readonly maxConnections: number;
    /** Whether hits are answered ahead of the HTTP server. */
    readonly fastPath: boolean;
    /** Absent: plain HTTP. */
    readonly tls?: TlsConfig | undefined;
  };
  readonly operations: {
    readonly host: string;
    readonly port: number;
    readonly token?: string | undefined;
    /** In lower case: names that requests may be for, or `*.` and a domain. Absent: no name was listed, which `check` warns of. */
    readonly hosts?: readonly string[] | undefined;
    /** Whether the gateway stays ready when no node answers any more. */
    readonly readyInOutage: boolean;
  };
  readonly dialect: DialectName;
  /** 1 to 255: nodes of any other chain are never asked. Absent: the chain that most nodes report at the start. */
  readonly chainId?: number | undefined;
  readonly workers: number | 'auto';
  readonly upstreams: readonly UpstreamConfig[];
  readonly upstream: UpstreamLimits;
  readonly cache: { readonly memory: { readonly maxBytes: number }; readonly redis?: RedisConfig | undefined };
  readonly latest: {
    readonly maxStalenessMs: number;
    readonly waitForVersionMs: number;
    /** Clients may ask for a bound between these two. */
    readonly minClientStalenessMs: number;
    readonly maxClientStalenessMs: number;
  };
  /** Absent: the endpoint is open to everybody. */
  readonly access?: AccessConfig | undefined;
  readonly encode: { readonly enabled: boolean; readonly shadow: number; readonly signingDomain: string };
  readonly log: LogConfig;
}

/** How connections of clients are encrypted. */
export interface TlsConfig extends TlsFiles {
  /** Names of OpenSSL, best first. Absent: `defaultCiphers`. */
  readonly ciphers?: readonly string[] | undefined;
}

/** Absolute names of PEM files. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

export interface UpstreamConfig {
  readonly name: string;
  readonly url: URL;
  readonly tier: 'full' | 'archival';
  /** The node's own credentials, names in lower case. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** Bounds on the work done for one request, and on the load put on one upstream. */
export interface UpstreamLimits {
  readonly timeoutMs: number;
  readonly deadlineMs: number;
  readonly probeIntervalMs: number;
  readonly connections: number;
  readonly maxAttempts: number;
  /** A node whose ledger is farther behind the fleet's serves only what it holds. */
  readonly maxLagMs: number;
  /** Absent: no second attempt is made before the first has failed. */
  readonly hedge?: { readonly quantile: number; readonly share: number } | undefined;
  /** Share of pinned reads, 0 to 1, that are asked of a second upstream and compared. */
  readonly audit: number;
}

/** The shared tier. */
export interface RedisConfig {
  readonly target: RedisTargetConfig;
  readonly keyPrefix: string;
  /** Most that Redis may add to a read. */
  readonly timeoutMs: number;
  readonly ttlMs: number;
}

export type RedisTargetConfig =
  | { readonly kind: 'single'; readonly url: string }
  | { readonly kind: 'sentinel'; readonly name: string; readonly urls: readonly string[] }
  | { readonly kind: 'cluster'; readonly urls: readonly string[] };

export interface LogConfig {
  readonly level: LogLevel;
  readonly access: AccessLogConfig;
}

/** Which requests get a line of their own. */
export interface AccessLogConfig {
  /** 0 to 1. */
  readonly share: number;
  /** Those that take longer do. */
  readonly slowMs: number;
  /** Those that are answered 5xx do. */
  readonly failed: boolean;
}

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

/** What a client may ask for. */
export type OperationName = 'read' | 'view' | 'encode' | 'submit' | 'pass';

/** Who may use the gateway, how much, and what that costs. */
export interface AccessConfig {
  /** Lower case. In `authorization` the key follows `Bearer`. */
  readonly header: string;
  readonly keys: {
    /** Absolute. */
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

/** Bounds that are absent do not bound. */
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

/** What requests cost: fixed amounts, and amounts by what was done for them. */
export interface CostConfig {
  readonly hit: number;
  readonly miss: number;
  readonly upstreamMs: number;
  readonly gasUnit: number;
  readonly encode: number;
  readonly encodeKiB: number;
  readonly submit: number;
  readonly pass: number;
}
