/** A request to the fleet, the bounds within which it is sent, and the parts of all that sends it. */
import {
  type AnswerContent,
  type AnswerForm,
  GatewayError,
  type LedgerInfo,
  type LedgerVersion,
} from '../../ledger/index.ts';
import type { Config } from '../../config/index.ts';
import type { FleetMetrics } from '../upstream-metrics.ts';
import type { Journal, Span } from '../../metrics/index.ts';
import type { ByteBudget } from '../byte-budget.ts';
import type { FleetState } from '../fleet-state.ts';
import type { WireRequest } from '../node/node-client.ts';
import type { Upstream } from '../node/upstream.ts';
import type { Need } from '../select/ranking.ts';

/** The answer to a request with `mayStream` is too large to be read whole. */
export class LargeAnswerError extends GatewayError {
  constructor() {
    super('unavailable', 'the answer is too large to be read whole; try again', { reason: 'large answers' });
  }
}

/**
 * 503: the nodes that hold the version fail or are gone, and the others are behind it. `failed`: the nodes that were asked
 * and hold it.
 */
export class UnreachedError extends GatewayError {
  readonly failed: readonly Upstream[];

  constructor(
    version: LedgerVersion | undefined,
    failed: readonly Upstream[] = [],
    call?: NonNullable<GatewayError['call']>,
  ) {
    super('unavailable', `no node that can be reached holds ledger version ${version} yet; try again`, {
      reason: 'not reached',
      ...(call && { call }),
    });
    this.failed = failed;
  }
}

/** The form of a success that the request admits. */
export type PromisedForm = AnswerForm | 'either';

/** One request to the nodes that can answer it. */
export interface FleetRequest {
  readonly wire: WireRequest;
  readonly need: Need;
  /** A submission is not idempotent: it is never sent again once bytes of it may have left. */
  readonly isIdempotent: boolean;
  /** The form of a success; an answer of another form fails the attempt. Absent: any form. */
  readonly promised?: PromisedForm | undefined;
  /**
   * Whether a success of the promised form can be the answer. Default: it is no error of a node. Not called for a
   * streamed one.
   */
  readonly isContent?: ((content: AnswerContent, info: LedgerInfo) => boolean) | undefined;
  /** The target is the client's own text, which may name a route that no node has. */
  readonly isOfClient?: boolean;
  /** The request asks for the health of a node, not for the ledger (protocol 9). */
  readonly isHealthCheck?: boolean;
  /** The caller streams an answer that is too large to be read whole: no second node is asked for it. */
  readonly mayStream?: boolean;
  /** The request runs code that the client chose. */
  readonly isView?: boolean;
  /** Fair-queueing key. Default: the gateway itself. */
  readonly client?: string;
  /** Called with each place at a node that the request gets. */
  readonly onPlace?: (() => void) | undefined;
  /** Bound of one attempt, when shorter than usual. */
  readonly timeoutMs?: number;
  /** A look at the ledger info, which many requests wait for: it has connections of its own. */
  readonly isLook?: boolean;
  /** Parent of the attempts' spans. Absent for attempts in the background. */
  readonly span?: Span | undefined;
  /** Replaces a long poll while polls hold their share of connections: nodes answer it at once. */
  readonly atOnce?: WireRequest | undefined;
}

/** Bounds of one request to the fleet. */
export interface SendLimits {
  /** Bound of one attempt, until the answer's headers (streamed) or its end (whole). */
  readonly timeoutMs: number;
  /** Bound of all attempts together. */
  readonly deadlineMs: number;
  /** Hedges and retries included. */
  readonly maxAttempts: number;
  /** Longest wait for a version above every head. */
  readonly waitForVersionMs: number;
  /** A streamed answer ends when its client reads nothing for this long. */
  readonly stallMs: number;
  /** Quantile 1: no attempt is ever slow. */
  readonly hedge?: Config['upstream']['hedge'];
}

/** Records each change of a node's state once. */
export type UpstreamLog = Pick<Journal, 'debug' | 'record'>;

/** Parts of a `Sender`, and of everything in this folder that sends. */
export interface SenderParts {
  readonly fleet: FleetState;
  readonly limits: SendLimits;
  readonly metrics: FleetMetrics;
  readonly log: UpstreamLog;
  /**
   * Looks at the node's ledger info, and settles when that is done: the request or a proxy may be at fault for a
   * failure, or an answer reports another chain. Never rejects.
   */
  readonly onDoubt: (upstream: Upstream) => unknown;
  /** Bytes of answers that are read whole. */
  readonly budget: ByteBudget;
  /** See `Prober.compareHeads`. Default: never. */
  readonly lookAround?: () => Promise<void> | undefined;
}
