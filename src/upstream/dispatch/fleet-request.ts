/** A request to the fleet, and the bounds within which it is sent. */
import type { Span } from '../../trace/span.ts';
import type { WireRequest } from '../node/node-client.ts';
import type { Need } from '../select/need.ts';
import type { Promised } from './validate.ts';

/** One request to whichever nodes can answer it. */
export interface FleetRequest {
  readonly wire: WireRequest;
  readonly need: Need;
  /** Whether asking twice does no harm. A submission is never sent again once bytes of it may have left. */
  readonly isIdempotent: boolean;
  /** The form of a success; another node is asked instead of one that answers otherwise. Absent: anything. */
  readonly promised?: Promised | undefined;
  /** It asks for the health of a node, not for the ledger (protocol 9). */
  readonly isHealthCheck?: boolean;
  /** It runs code that the client chose. */
  readonly isView?: boolean;
  /** The client it is sent for: its requests wait for one another first. Default: the gateway itself. */
  readonly client?: string;
  /** Called with each place at a node that it is given. */
  readonly onPlace?: (() => void) | undefined;
  /** Bound of one attempt where it is shorter than usual, in ms. */
  readonly timeoutMs?: number;
  /** A look at the ledger info, which many requests wait for: it goes past the requests that wait for a connection. */
  readonly isLook?: boolean;
  /** Parent of its attempts' spans. Absent for attempts in the background. */
  readonly span?: Span | undefined;
  /** The request that replaces a long poll, answered at once, where polls hold too many connections already. */
  readonly atOnce?: WireRequest | undefined;
}

/** Limits of hedging. */
export interface HedgeLimits {
  /** An attempt is unusually long when it takes longer than this part of the node's answers of its class. 1: none is. */
  readonly quantile: number;
  /** Hedges, in parts of all reads. */
  readonly share: number;
}

/** Bounds of one request to the fleet. */
export interface SendLimits {
  /** Bound of one attempt, until the answer's headers (streamed) or its end (whole). */
  readonly timeoutMs: number;
  /** Bound of all attempts together. */
  readonly deadlineMs: number;
  /** Attempts of one request, hedges and retries included. */
  readonly maxAttempts: number;
  /** Longest wait for a version above every head. */
  readonly waitForVersionMs: number;
  /** A streamed answer ends when its client takes nothing of it for this long. */
  readonly stallMs: number;
  /** Absent: no attempt begins before the one before has failed. */
  readonly hedge?: HedgeLimits | undefined;
}

/** Changes of a node's state. */
export type NodeChange = 'node usable' | 'node down' | 'ejected' | 'deferred' | 'back';

/** Log of the fleet. */
export interface UpstreamLog {
  debug(fields: object, message: string): void;
  /** Records the change of a node's state: called once per change. */
  record(change: NodeChange, fields: object, message: string): void;
}
