/** Sends requests to the fleet, and keeps what all of them share: places, queues, and what may be done on top. */
import type { SenderMetrics } from '../metrics/sender-metrics.ts';
import type { UpstreamMetrics } from '../metrics/upstream-metrics.ts';
import type { Span } from '../trace/span.ts';
import type { StopSignal } from '../ledger/stop.ts';
import { Admission } from './admission.ts';
import type { Promised } from './answer-fault.ts';
import { Attempts, type AttemptParts, type Fetch } from './attempt.ts';
import { Background, type Another } from './background.ts';
import {
  fetchWhole,
  type ExchangeContext,
  type NodeAnswer,
  type StreamedAnswer,
  type WireRequest,
} from './exchange.ts';
import { HedgeTimes, type HedgeLimits } from './hedge-times.ts';
import { fetchStream, onceClosed, readWhole } from './node-stream.ts';
import { Outliers } from './outliers.ts';
import { Search, type Means } from './search.ts';
import type { Need } from './need.ts';
import { TrafficShare } from './traffic-share.ts';
import type { Upstream } from './upstream.ts';

export interface FleetRequest {
  readonly wire: WireRequest;
  readonly need: Need;
  /** Whether asking twice does no harm. A submission is never sent again once bytes of it may have left. */
  readonly isIdempotent: boolean;
  /** What a success has to be; another node is asked instead of one that answers otherwise. Absent: anything. */
  readonly promised?: Promised | undefined;
  /** It asks for the health of a node, not for the ledger (protocol 9). */
  readonly isHealthCheck?: boolean;
  /** It runs code that the client chose. */
  readonly isView?: boolean;
  /** For whom it is: whoever waits for a node waits for others of the same client first. Default: the gateway itself. */
  readonly client?: string;
  /** Called with each place at a node that it is given. */
  readonly onPlace?: (() => void) | undefined;
  /** Bound of one attempt where it is shorter than usual. */
  readonly timeoutMs?: number;
  /** A look at the ledger info, which everybody waits for: it goes past the requests that wait for a connection. */
  readonly isLook?: boolean;
  /** What its attempts are part of. Whoever asks on top, in the background, does so without it. */
  readonly span?: Span | undefined;
  /** A long poll: what is asked instead, and answered at once, where too many hold a node's connections already. */
  readonly atOnce?: WireRequest | undefined;
}

export interface SendLimits {
  /** Bound of one attempt, until the answer's headers (streamed) or its end (whole). */
  readonly timeoutMs: number;
  /** Bound of all attempts together. */
  readonly deadlineMs: number;
  /** Of one request, hedges and retries included. */
  readonly maxAttempts: number;
  /** How long a version above every head is waited for. */
  readonly waitForVersionMs: number;
  /** A streamed answer ends when its client takes nothing of it for this long. */
  readonly stallMs: number;
  /** Absent: no attempt is begun before the one before has failed. */
  readonly hedge?: HedgeLimits | undefined;
}

/** Changes of a node's state. */
export type NodeChange = 'node usable' | 'node down' | 'ejected' | 'deferred' | 'back';

export interface UpstreamLog {
  debug(fields: object, message: string): void;
  /** A node's state has changed: told once per change, to be logged and remembered. */
  tell(change: NodeChange, fields: object, message: string): void;
}

/**
 * Retries: a part of all requests, and a few a second, so that a quiet gateway retries too. As many may come at once as
 * fail when a busy node dies.
 */
const earnings = { share: 0.2, perSecond: 10, most: 500 };

export interface SenderParts extends Omit<AttemptParts, 'metrics'> {
  readonly limits: SendLimits;
  readonly metrics: UpstreamMetrics & SenderMetrics;
  /** Looks at the heads of all nodes before one is chosen by them (see `Prober.compareHeads`). Default: never. */
  readonly lookAround?: () => Promise<void> | undefined;
}

export class Sender {
  readonly #means: Means;

  constructor(parts: SenderParts) {
    const { fleet, limits, metrics, log, lookAround } = parts;
    const retries = new TrafficShare(earnings);
    const attempts = new Attempts({ ...parts, mayRepeat: () => retries.spend(performance.now()) });
    const admission = new Admission((seconds) => metrics.waited(seconds));
    const outliers = new Outliers({ fleet, metrics, log });
    this.#means = {
      fleet,
      limits,
      metrics,
      attempts,
      admission,
      retries,
      hedges: new HedgeTimes(limits.hedge, fleet),
      outliers,
      background: new Background({ fleet, limits, attempts, admission, outliers }),
      lookAround,
    };
  }

  /** Requests that wait for a place at a node now. */
  get waiting(): number {
    return this.#means.admission.waiting;
  }

  /** Ends what goes on in the background. */
  close(): void {
    this.#means.background.close();
  }

  /**
   * Asks the fleet and reads the whole answer: the best that nodes had to say, their own errors included. Throws
   * `GatewayError` when no node gave an answer worth passing on.
   */
  whole(request: FleetRequest, signal: StopSignal): Promise<NodeAnswer> {
    const { wire, atOnce, isLook } = request;
    const fetch: Fetch<NodeAnswer> = (upstream, context) =>
      atOnce === undefined
        ? fetchWhole(upstream, wire, context, isLook === true ? upstream.lookPool : upstream.pool)
        : this.#poll(upstream, wire, atOnce, context);
    return new Search(this.#means, { request, fetch, isStreamed: false, signal }).run();
  }

  /** Asks one node beside those in `notOf`, in the background: see `Background.another`. */
  another(request: FleetRequest, notOf: readonly Upstream[], signal: StopSignal): Promise<Another> {
    return this.#means.background.another(request, notOf, signal);
  }

  /** As `whole`, but a successful answer is handed on while it comes. */
  stream(request: FleetRequest, signal: StopSignal): Promise<NodeAnswer | StreamedAnswer> {
    const { deadlineMs: idleMs, stallMs } = this.#means.limits;
    const fetch: Fetch<NodeAnswer | StreamedAnswer> = async (upstream, context) => {
      const answer = await fetchStream(upstream, request.wire, { ...context, idleMs, stallMs });
      onceClosed(answer.stream, () => this.#means.admission.offer(upstream));
      // What is small is read whole: one that breaks off can be asked of another node then, and be looked at.
      return answer.status < 300 && !isSmall(answer) ? answer : readWhole(answer, context);
    };
    return new Search(this.#means, { request, fetch, isStreamed: true, signal }).run();
  }

  /** Nodes do the same with more long polls than they take (protocol 1, row 19). */
  async #poll(
    upstream: Upstream,
    poll: WireRequest,
    atOnce: WireRequest,
    context: ExchangeContext,
  ): Promise<NodeAnswer> {
    const giveBack = upstream.mayBeHeld ? upstream.polls.takeFree() : undefined;
    if (giveBack === undefined) return fetchWhole(upstream, atOnce, context);
    return fetchWhole(upstream, poll, context).finally(() => {
      giveBack();
      this.#means.admission.offer(upstream);
    });
  }
}

/** Smaller answers than this are not handed on as they come. */
const streamedBytes = 64 * 1024;

function isSmall({ headers }: StreamedAnswer): boolean {
  const { 'content-length': length } = headers;
  return typeof length === 'string' && Number(length) < streamedBytes;
}
