/** One client request and its answer. */
import { performance } from 'node:perf_hooks';
import { type AdmittedRequest, clientOf } from '../../access/index.ts';
import { type CancelSignal, CancelToken, GatewayError, type LedgerVersion } from '../../ledger/index.ts';
import {
  type CountedRequest,
  type HttpMetrics,
  type Outcome,
  passedOn,
  type RouteName,
  type Span,
  type SpanName,
} from '../../metrics/index.ts';
import type { Caller } from '../reads/index.ts';
import type { BodyReservation } from './body-pool.ts';
import type { Incoming, Outgoing } from './message.ts';
import type { RequestSpans, RouteLabel } from './request-span.ts';

/** A finished request, as metrics, the status page and log lines report it. */
export interface RequestSummary extends CountedRequest {
  readonly method: string | undefined;
  /** Whether the head of an answer was sent. */
  readonly isHeadSent: boolean;
  /** Node that answered this request, or the request whose answer it shares. */
  readonly upstream: string | undefined;
  readonly upstreamMs: number;
  /** Ledger version of the answer's body. */
  readonly version: LedgerVersion | undefined;
  /** Unexpected exception (a bug), reported as 500. */
  readonly bug: unknown;
  /** The gateway's own error, reported to the client. */
  readonly failure?: GatewayError | undefined;
  /** Principal and limits; undefined with open access. */
  readonly admitted: AdmittedRequest | undefined;
  readonly trace?: SpanName | undefined;
}

/** Receives the beginning and the end of each request. */
export interface ExchangeObserver {
  readonly metrics: HttpMetrics;
  /** Milliseconds that a request may wait for the head of its answer; live. */
  readonly limits: { readonly deadlineMs: number };
  /** Absent: tracing is off. */
  readonly spans?: RequestSpans | undefined;
  /** Called once per request, when its answer is out or its client gone. `summary` is valid only during the call. */
  onEnd(summary: RequestSummary, seconds: number): void;
}

/** A node's work for one request. */
interface UpstreamUse {
  readonly upstream: string;
  readonly tookMs: number;
  readonly gasUsed: unknown;
}

/** A request that a transport received, and its response. */
export interface IncomingExchange<Request extends Incoming, Response extends Outgoing> {
  readonly request: Request;
  readonly response: Response;
  /** Undefined with open access, and for a refused request. */
  readonly admitted?: AdmittedRequest | undefined;
}

/** One client request from its admission to its end. */
export class Exchange implements Caller, RequestSummary {
  readonly request: Incoming;
  readonly response: Outgoing;
  readonly route: RouteName;
  readonly admitted: AdmittedRequest | undefined;
  /** Source of the answer. */
  outcome: Outcome = 'local';
  upstream: string | undefined;
  version: LedgerVersion | undefined;
  upstreamMs = 0;
  gasUsed: bigint | undefined;
  bytes = 0;
  bodyBytes = 0;
  /** Memory of a body large enough to count. */
  reservation: BodyReservation | undefined;
  bug: unknown;
  failure: GatewayError | undefined;
  readonly #observer: ExchangeObserver;
  readonly #startedMs = performance.now();
  /** Absent: tracing is off. */
  readonly #span: Span | undefined;
  #abort: CancelToken | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #hasEnded = false;

  /** Begins after admission and, for routes with a body, after its last byte. */
  constructor(received: IncomingExchange<Incoming, Outgoing>, route: RouteLabel, observer: ExchangeObserver) {
    const { request, response, admitted } = received;
    this.request = request;
    this.response = response;
    this.route = route.name;
    this.admitted = admitted;
    admitted?.follow(this);
    this.#observer = observer;
    this.#span = observer.spans?.begin(request, route);
    observer.metrics.started();
  }

  /**
   * Aborts on a hang-up, or past the deadline before the answer's head. Created on demand: a listener for each cached
   * hit would cost more than the lookup.
   */
  get signal(): CancelSignal {
    if (this.#abort === undefined) {
      const abort = new CancelToken();
      this.#abort = abort;
      this.admitted?.noteWait();
      const onClose = (): void => {
        if (!this.#hasEnded) abort.abort(new Error('the client hung up'));
        this.end();
      };
      if (this.response.destroyed) onClose();
      else {
        this.response.once('close', onClose);
        this.#deadline = setTimeout(() => {
          abort.abort(
            new GatewayError('unavailable', 'there was no answer in time; try again', { reason: 'time-out' }),
          );
        }, this.#observer.limits.deadlineMs + graceMs);
      }
    }
    return this.#abort;
  }

  get client(): string {
    return clientOf(this.request.socket, this.admitted);
  }

  /** The request's own span, or without tracing one that propagates the client's trace to nodes. */
  get span(): Span | undefined {
    return this.#span ?? passedOn(this.request.headers);
  }

  /** Name of a sampled span, for metrics and log lines. */
  get trace(): SpanName | undefined {
    return this.#span?.recorded;
  }

  /** Stops the deadline once the head is out: the body goes at the client's pace. */
  begin(): void {
    clearTimeout(this.#deadline);
  }

  /** Records a node's work for this request alone. `gasUsed`: text of its header. */
  noteUpstream(outcome: 'miss' | 'passed', { upstream, tookMs, gasUsed }: UpstreamUse): void {
    this.outcome = outcome;
    this.upstream = upstream;
    this.upstreamMs = tookMs;
    if (typeof gasUsed === 'string' && /^\d{1,20}$/.test(gasUsed)) this.gasUsed = BigInt(gasUsed);
  }

  /** Reports the end, once: the socket has the answer, or none will come. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    clearTimeout(this.#deadline);
    const seconds = (performance.now() - this.#startedMs) / 1000;
    if (this.#span !== undefined) this.#observer.spans?.end(this.#span, this);
    this.#observer.metrics.finished(this, seconds);
    this.admitted?.settle(this.response);
    this.#observer.onEnd(this, seconds);
  }

  get status(): number {
    return this.response.statusCode;
  }

  get method(): string | undefined {
    return this.request.method;
  }

  get isHeadSent(): boolean {
    return this.response.headersSent;
  }

  get isHead(): boolean {
    return this.request.method === 'HEAD';
  }

  /** Request target as received: percent-encoded, with its query. */
  get target(): string {
    return this.request.url ?? '/';
  }
}

/** Milliseconds in which the work itself, under the same deadline, may report a more precise error. */
const graceMs = 200;
