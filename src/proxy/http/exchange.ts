/** One client request and the answer being given to it. */
import type { ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import { GatewayError } from '../../ledger/errors.ts';
import type { LedgerVersion } from '../../ledger/version.ts';
import { CancelToken, type StopSignal } from '../../ledger/stop.ts';
import type { Finished, HttpMetrics, Outcome, RouteName } from '../../metrics/http-metrics.ts';
import { passedOn } from '../../trace/trace-context.ts';
import type { Span, SpanName } from '../../trace/span.ts';
import { clientOf, type AdmittedRequest, type RequestResult } from './admitted-request.ts';
import type { BodyReservation } from './body-pool.ts';
import type { Incoming, Outgoing } from './message.ts';
import type { RequestSpans, RouteLabel } from './request-span.ts';

/** The client that work is done for. */
export interface Caller {
  /** Aborts when nobody waits any more. */
  readonly signal: StopSignal;
  /** Fair-queueing key: tenant, or the client's IPv4 address or /64. */
  readonly client: string;
  /** The span that spans of the work belong to. */
  readonly span?: Span | undefined;
  /** Called when a node works on it, once or more. */
  readonly onPlace?: (() => void) | undefined;
}

/** One finished request, as metrics, the status page and log lines report it. */
export interface RequestSummary extends Finished {
  readonly method: string | undefined;
  /** Whether the head of an answer is out. */
  readonly isHeadSent: boolean;
  /** The node that answered this request, or the one whose answer it shares. */
  readonly upstream: string | undefined;
  readonly upstreamMs: number;
  /** The ledger version that the answer's body belongs to. */
  readonly version: LedgerVersion | undefined;
  /** Length of the answer's body. */
  readonly bytes: number;
  /** Unexpected exception (a bug), reported as 500. */
  readonly bug: unknown;
  /** Its principal; undefined where access is open to everybody. */
  readonly admitted: AdmittedRequest | undefined;
  readonly trace?: SpanName | undefined;
}

/** Receives the begin and the end of each request. */
export interface ExchangeObserver {
  readonly metrics: HttpMetrics;
  /** How long a request may wait for its answer, whatever is done for it. */
  readonly deadlineMs: number;
  /** Absent: nobody records traces. */
  readonly spans?: RequestSpans | undefined;
  /** Called once per request, when its answer is out or its client gone. `summary` is valid during the call only. */
  onEnd(summary: RequestSummary, seconds: number): void;
}

/** A node that was asked for one request. */
interface UpstreamUse {
  readonly upstream: string;
  readonly tookMs: number;
  readonly gasUsed: unknown;
}

/** A request that a transport received, and the response that goes back over it. */
export interface IncomingExchange<Request extends Incoming, Response extends Outgoing> {
  readonly request: Request;
  readonly response: Response;
  /** Undefined where access is open to everybody, and of a refused request. */
  readonly admitted?: AdmittedRequest | undefined;
}

/** `Response`: where an answer may be streamed, the whole of Node's. */
export class Exchange<Response extends Outgoing = ServerResponse> implements Caller, RequestResult, RequestSummary {
  readonly request: Incoming;
  readonly response: Response;
  readonly route: RouteName;
  readonly admitted: AdmittedRequest | undefined;
  /** Source of the answer, for metrics and log lines. */
  outcome: Outcome = 'local';
  /** The node that answered this request, or the one whose answer it shares. */
  upstream: string | undefined;
  /** The ledger version that the answer's body belongs to. */
  version: LedgerVersion | undefined;
  upstreamMs = 0;
  gasUsed: bigint | undefined;
  bytes = 0;
  bodyBytes = 0;
  /** Memory of its body, where that is large enough to count. */
  reservation: BodyReservation | undefined;
  /** Unexpected exception (a bug), reported as 500. */
  bug: unknown;
  /** Length of a body that no node had to send for this request. */
  savedBytes = 0;
  readonly #observer: ExchangeObserver;
  readonly #startedMs = performance.now();
  /** Absent: traces are not recorded. */
  readonly #span: Span | undefined;
  #abort: CancelToken | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #hasEnded = false;

  /** Begins when the request is admitted and its body, where the route needs one, is complete. */
  constructor(received: IncomingExchange<Incoming, Response>, route: RouteLabel, observer: ExchangeObserver) {
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
   * Aborts when the client hangs up, or has waited too long for the head of an answer. Made on demand: who answers at
   * once never waits for anything, and a listener for each cached hit would cost more than finding it.
   */
  get signal(): StopSignal {
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
        this.#deadline = setTimeout(() => abort.abort(tooLate()), this.#observer.deadlineMs + graceMs);
      }
    }
    return this.#abort;
  }

  /** The tenant where there are keys, else the address; of IPv6 the part that one customer is given (a /64). */
  get client(): string {
    return clientOf(this.request, this.admitted);
  }

  /** The request's own where traces are recorded, else one that only carries the client's trace on to nodes. */
  get span(): Span | undefined {
    return this.#span ?? passedOn(this.request.headers);
  }

  /** By what metrics and log lines name its span; undefined unless that is sampled. */
  get trace(): SpanName | undefined {
    return this.#span?.recorded;
  }

  /** The head of the answer is out: its body may take as long as the client takes. */
  begin(): void {
    clearTimeout(this.#deadline);
  }

  /** A node was asked for this request alone. `gasUsed`: what its header says, text. */
  noteUpstream(outcome: 'miss' | 'passed', { upstream, tookMs, gasUsed }: UpstreamUse): void {
    this.outcome = outcome;
    this.upstream = upstream;
    this.upstreamMs = tookMs;
    if (typeof gasUsed === 'string' && /^\d{1,20}$/.test(gasUsed)) this.gasUsed = BigInt(gasUsed);
  }

  /** Reports the end, once: the answer is handed to the socket, or there will be none. */
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

  /** The request target as it came, percent-encoded, with its query. */
  get target(): string {
    return this.request.url ?? '/';
  }
}

/** Milliseconds for the work itself, which has the same deadline, to report a more precise error. */
const graceMs = 200;

function tooLate(): GatewayError {
  return new GatewayError('unavailable', 'there was no answer in time; try again');
}
