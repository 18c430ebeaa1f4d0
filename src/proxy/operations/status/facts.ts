/**
 * Facts of the status page. `ProcessStatus` is the report of a process, in a form that adds up; `StatusFacts` is derived
 * from it for people and programs. Both are plain data; 64-bit numbers are text.
 */
import type { Outcome, RouteName } from '../../../metrics/http-metrics.ts';
import type { EventFields, EventKind, Level } from './event-kinds.ts';
import type { StatusEvent } from './events.ts';
import type { Counts } from './counts.ts';
import type { WindowCounts } from './windows.ts';

type NodeState = 'unproven' | 'usable' | 'down' | 'foreign';

/** A class of reads that the node is ejected from. */
export interface EjectedClass {
  readonly readClass: string;
  readonly reason: string;
}

/** The report of one process on a node; it holds no address. */
export interface NodeStatus {
  readonly name: string;
  readonly tier: 'full' | 'archival';
  readonly state: NodeState;
  /** The other nodes contradict its head. */
  readonly isSuspect: boolean;
  readonly chainId: number | undefined;
  readonly oldest: string | undefined;
  readonly head: string | undefined;
  /** Versions behind the head of the fleet. */
  readonly lag: string | undefined;
  /** Versions a second, of its oldest version. */
  readonly edgeSpeed: number;
  /** Versions above `oldest` from which on it gets reads now. */
  readonly edgeMargin: string | undefined;
  readonly inFlight: number;
  /** Bound of requests in flight. */
  readonly limit: number;
  readonly ejected: readonly EjectedClass[];
  /** Workers that report it usable; absent with one process. */
  readonly usableBy?: number;
}

/** Connections, event loop and queue of one process or of several together. */
export interface LoadFacts {
  /** Open connections of clients, and their bound. */
  readonly connections: number;
  readonly maxConnections: number;
  readonly loopLagMs: number;
  readonly isOverloaded: boolean;
  /** Requests queued for a node. */
  readonly waiting: number;
}

/** Fill of the memory tier. */
export interface CacheFacts {
  readonly entries: number;
  readonly bytes: number;
  readonly maxBytes: number;
}

/** Pinned reads that two nodes answered differently. */
export interface DisagreementFacts {
  readonly upstreams: readonly [string, string];
  readonly count: number;
  readonly last: string;
}

/** The report of one process, or of several together. */
export interface ProcessStatus {
  readonly startedAtMs: number;
  readonly isReady: boolean;
  /** No node answers that did before; ISO 8601. */
  readonly outageSince: string | undefined;
  readonly chainId: number | undefined;
  readonly head: string | undefined;
  readonly oldest: string | undefined;
  /** Versions a second. */
  readonly headSpeed: number;
  readonly nodes: readonly NodeStatus[];
  /** Counts of the last seconds, shortest window first. */
  readonly windows: readonly WindowCounts[];
  /** Counts since the start. */
  readonly total: Counts;
  readonly cache: CacheFacts;
  /** `undefined` without Redis. */
  readonly redis: { readonly trouble: string | undefined } | undefined;
  readonly isEncoding: boolean;
  /** Functions left to nodes, after one encoded them differently. */
  readonly distrusted: readonly string[];
  readonly disagreements: readonly DisagreementFacts[];
  readonly load: LoadFacts;
  /** End of the served certificate; Unix time in milliseconds. */
  readonly certificateExpiresMs: number | undefined;
  readonly events: readonly StatusEvent[];
}

/** Facts of the whole gateway, beside the reports of processes. */
export interface GatewayStatus {
  readonly version: string;
  readonly nowMs: number;
  readonly isDraining: boolean;
  /** The last reload of the config. */
  readonly reload: { readonly result: string; readonly needsRestart: readonly string[] } | undefined;
  readonly workers?: WorkersFacts | undefined;
}

interface WorkersFacts {
  readonly wanted: number;
  readonly answering: number;
}

/** State of the whole gateway; `degraded`: it serves, with problems. */
export type OverallState = 'ready' | 'degraded' | 'outage' | 'starting' | 'draining';

/** A node on the page. */
export interface NodeFacts extends NodeStatus {
  /** Median over attempts of the last 10 s, failed ones included; `undefined` without any. */
  readonly p50Ms: number | undefined;
  readonly p99Ms: number | undefined;
  readonly requestsPerSecond: number;
  /** Attempts without a usable answer. */
  readonly failures: WindowedCount;
}

/** Counts by window, and since the start. */
export interface WindowedCount {
  readonly last10s: number;
  readonly last100s: number;
  readonly last1000s: number;
  readonly total: number;
}

/** Rate and quantiles of some requests. */
export interface TimedFacts {
  readonly requestsPerSecond: number;
  readonly p50Ms: number | undefined;
  readonly p99Ms: number | undefined;
}

/** Requests that a node can answer, by whether they needed one: refusals and preflights are neither. */
export interface NodeNeed {
  /** Share, 0 to 1, of requests that needed no node; `undefined` without any. */
  readonly withoutNodeShare: number | undefined;
  /** Requests that needed a node; each may be several attempts. */
  readonly toNodesPerSecond: number;
}

interface RouteFacts extends TimedFacts, NodeNeed {
  readonly route: RouteName;
  readonly hitShare: number | undefined;
}

interface OutcomeFacts extends TimedFacts {
  readonly outcome: Outcome;
  readonly requests: number;
}

/** Reads by distance behind the head, in versions; `to` is excluded. */
export interface DistanceFacts {
  readonly from: number;
  readonly to: number;
  /** Answered from memory, from Redis, or by a coalesced read. */
  readonly held: number;
  /** Answered by a node. */
  readonly asked: number;
}

/** Answers to clients in the last `seconds`. */
export interface WindowFacts extends TimedFacts, NodeNeed {
  readonly seconds: number;
  readonly coveredSeconds: number;
  readonly requests: number;
  /** Share, 0 to 1, of cacheable reads that memory or Redis answered; `undefined` without any. */
  readonly hitShare: number | undefined;
  readonly outcomes: readonly OutcomeFacts[];
  /** Most requests to nodes first. */
  readonly routes: readonly RouteFacts[];
  /** Only bins with reads. */
  readonly distances: readonly DistanceFacts[];
}

/** An event on the page. */
export interface EventFacts {
  /** ISO 8601. */
  readonly at: string;
  readonly kind: EventKind;
  readonly level: Level;
  readonly text: string;
  readonly fields: EventFields;
  readonly workers?: number;
}

/** All facts of `/status`, `/status.json` and `ledgergate status`. */
export interface StatusFacts {
  readonly name: 'ledgergate';
  readonly version: string;
  /** ISO 8601. */
  readonly at: string;
  readonly startedAt: string;
  readonly uptimeSeconds: number;
  readonly state: OverallState;
  /** One sentence for the state. */
  readonly summary: string;
  /** Problems, worst first. */
  readonly problems: readonly string[];
  readonly workers: WorkersFacts | undefined;
  readonly ledger: {
    readonly chainId: number | undefined;
    readonly head: string | undefined;
    readonly oldest: string | undefined;
    readonly versionsPerSecond: number;
  };
  readonly nodes: readonly NodeFacts[];
  /** Shortest first. */
  readonly windows: readonly WindowFacts[];
  readonly cache: CacheFacts & { readonly evicted: WindowedCount };
  readonly redis: { readonly state: 'off' | 'up' | 'degraded'; readonly reason?: string };
  readonly refusals: readonly { readonly reason: string; readonly count: WindowedCount }[];
  readonly repairs: readonly { readonly what: string; readonly count: WindowedCount }[];
  readonly encode: {
    readonly isOn: boolean;
    readonly counts: readonly { readonly what: string; readonly count: WindowedCount }[];
    readonly distrusted: readonly string[];
  };
  readonly disagreements: readonly DisagreementFacts[];
  readonly load: LoadFacts;
  /** ISO 8601; absent without TLS. */
  readonly certificateExpires: string | undefined;
  /** Newest first. */
  readonly events: readonly EventFacts[];
}
