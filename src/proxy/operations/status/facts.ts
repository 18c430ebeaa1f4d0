/**
 * The report of a process on its state and traffic, in a form that adds up: plain data, 64-bit numbers are text. `/readyz`
 * answers from its `Readiness`; `present.ts` derives the facts of the status page from all of it.
 */
import type { Disagreement } from '../../reads/index.ts';
import type { Journal } from '../../../metrics/index.ts';
import type { Counts } from './counts.ts';
import type { TrendPoint, WindowCounts } from './windows.ts';

type NodeState = 'unproven' | 'usable' | 'down' | 'foreign';

/** A class of reads that the node is ejected from. */
export interface EjectedClass {
  readonly readClass: string;
  readonly reason: string;
  /** The failure before the ejection: `status 500`, `connection cut`. */
  readonly symptom?: string | undefined;
}

/** The report of one process on a node; it holds no address. */
export interface NodeStatus {
  readonly name: string;
  readonly tier: 'full' | 'archival';
  readonly state: NodeState;
  /** Why it is not usable; `undefined`: it is, or it was not asked yet. */
  readonly reason: string | undefined;
  /** Since when it is not usable (ISO 8601); `undefined`: it is, or it was not asked yet. */
  readonly since: string | undefined;
  /** An operator has drained it: it gets no requests of clients. */
  readonly isDrained: boolean;
  /** The earliest version at which its history differs from that of other nodes. */
  readonly forkedAt: string | undefined;
  /** The other nodes contradict its head. */
  readonly isSuspect: boolean;
  /** A sentence while several nodes answer at its address. */
  readonly warning: string | undefined;
  /** The version that it reports, while that is lower than `head`, which it reported before. */
  readonly lower: string | undefined;
  readonly chainId: number | undefined;
  readonly oldest: string | undefined;
  readonly head: string | undefined;
  /** Versions behind the head of the fleet. */
  readonly lag: string | undefined;
  /** Seconds behind the head of the fleet, by the ledger's clock. */
  readonly lagSeconds: number;
  /** It is farther behind than `upstream.maxLag`. */
  readonly isLagging: boolean;
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
interface LoadFacts {
  /** Open connections of clients, and their bound. */
  readonly connections: number;
  readonly maxConnections: number;
  readonly loopLagMs: number;
  readonly isOverloaded: boolean;
  /** Requests queued for a node. */
  readonly waiting: number;
}

/** Fill of the memory tier. */
interface CacheFacts {
  readonly entries: number;
  readonly bytes: number;
  readonly maxBytes: number;
}

/** Readiness of a process, or of several together, and its details. */
export interface Readiness {
  /** At least one node is usable. */
  readonly isReady: boolean;
  /** No node answers that did before: since when (ISO 8601), and the version that headers go on reporting. */
  readonly outage: { readonly since: string; readonly head: string | undefined } | undefined;
  readonly nodes: readonly NodeStatus[];
  /** Versions, both included, that only nodes hold which get no requests now; `undefined`: there are none. */
  readonly lost: { readonly from: string; readonly to: string; readonly upstreams: readonly string[] } | undefined;
  /** Why new certificate files are not in use; `undefined`: there are none, or they are. */
  readonly certificateRefused: string | undefined;
  /** Functions left to nodes, after one encoded them differently. */
  readonly distrusted: readonly string[];
  readonly disagreements: readonly Disagreement[];
  /** `undefined` without Redis; `trouble`: its present fault. */
  readonly redis: { readonly trouble: string | undefined } | undefined;
  /** `undefined` without a store; `trouble`: its present fault. */
  readonly store:
    { readonly bytes: number; readonly maxBytes: number; readonly trouble: string | undefined } | undefined;
}

/** The report of one process, or of several together. */
export interface ProcessStatus extends Readiness {
  readonly startedAtMs: number;
  readonly chainId: number | undefined;
  readonly head: string | undefined;
  readonly oldest: string | undefined;
  /** Versions a second. */
  readonly headSpeed: number;
  /** Counts of the last seconds, shortest window first. */
  readonly windows: readonly WindowCounts[];
  /** Counts since the start. */
  readonly total: Counts;
  /** The last 15 minutes, oldest first. */
  readonly trend: readonly TrendPoint[];
  readonly cache: CacheFacts;
  readonly isEncoding: boolean;
  readonly load: LoadFacts;
  /** End of the served certificate; Unix time in milliseconds. */
  readonly certificateExpiresMs: number | undefined;
  readonly events: Journal['events'];
}

/** Facts of the whole gateway, beside the reports of processes. */
export interface GatewayStatus {
  readonly version: string;
  readonly nowMs: number;
  readonly isDraining: boolean;
  /** The last reload of the config. */
  readonly reload:
    | {
        /** ISO 8601. */
        readonly at: string;
        readonly result: string;
        /** Keys whose new values wait for a restart. */
        readonly needsRestart: readonly string[];
        /** Places of the problems of a refused config. */
        readonly refused?: readonly string[] | undefined;
      }
    | undefined;
  readonly workers?: WorkersFacts | undefined;
}

/** Numbers of worker processes. */
export interface WorkersFacts {
  readonly wanted: number;
  /** Workers that serve and reported in time. */
  readonly answering: number;
}

/** State of the whole gateway; `degraded`: it serves, with problems. */
export type OverallState = 'ready' | 'degraded' | 'outage' | 'starting' | 'draining';
