/**
 * Reports of requests to metrics, log lines, the status page and traces: each request once, when its answer is out or its
 * client gone.
 */
import type { AdmittedRequest } from '../../access/index.ts';
import type { GatewayError, LedgerVersion } from '../../ledger/index.ts';
import type { CountedRequest, Outcome, Span, Tracer } from '../../metrics/index.ts';
import type { HttpMetrics } from './http-metrics.ts';
import type { Incoming, Route } from './message.ts';

/** A finished request, as metrics, the status page and log lines report it. */
export interface RequestSummary extends CountedRequest {
  readonly method: string | undefined;
  /** Node that answered this request, or the request whose answer it shares. */
  readonly upstream: string | undefined;
  readonly upstreamMs: number;
  readonly version: LedgerVersion | undefined;
  /** Unexpected exception (a bug), reported as 500. */
  readonly bug: unknown;
  /** The gateway's own error, reported to the client. */
  readonly failure?: GatewayError | undefined;
  /** Principal and limits; undefined with open access. */
  readonly admitted: AdmittedRequest | undefined;
  readonly trace?: Span['recorded'];
}

/** Receives the beginning and the end of each request. */
export interface ExchangeObserver {
  readonly metrics: HttpMetrics;
  /** Milliseconds that a request may wait for the head of its answer; live. */
  readonly limits: { readonly deadlineMs: number };
  /** Absent: tracing is off. */
  readonly spans?: RequestSpans | undefined;
  /** Called once per request. `summary` is valid only during the call. */
  onEnd(summary: RequestSummary, seconds: number): void;
}

const methods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']);

/**
 * Begins and ends the spans of client requests, after OpenTelemetry's HTTP conventions. They contain no path, query,
 * address or key: the route's template names them.
 */
export class RequestSpans {
  readonly #tracer: Tracer;
  readonly #scheme: 'http' | 'https';
  readonly #basePath: string;

  constructor(tracer: Tracer, scheme: 'http' | 'https', basePath: string) {
    this.#tracer = tracer;
    this.#scheme = scheme;
    this.#basePath = basePath;
  }

  begin({ method = '', headers, httpVersionMajor, httpVersion }: Incoming, { template }: Route): Span {
    const isKnown = methods.has(method);
    const route = template === undefined ? undefined : this.#basePath + template || '/';
    const verb = isKnown ? method : 'HTTP';
    return this.#tracer.serve(route === undefined ? verb : `${verb} ${route}`, headers, {
      'http.request.method': isKnown ? method : '_OTHER',
      'http.route': route,
      'url.scheme': this.#scheme,
      'network.protocol.version': httpVersionMajor === 2 ? '2' : httpVersion,
    });
  }

  /** A 4xx is no error of the span. A hang-up before the head has no status. */
  end(span: Span, { status, outcome, upstream, version, isHeadSent }: RequestSummary): void {
    span.note({
      'http.response.status_code': isHeadSent ? status : undefined,
      'ledgergate.outcome': isHeadSent ? outcome : ('refused' satisfies Outcome),
      'ledgergate.upstream': upstream,
      'ledgergate.served_version': version?.toString(),
    });
    if (!isHeadSent) span.note({ 'error.type': 'client hung up' });
    else if (status >= 500 || outcome === 'failed') span.fail(String(status));
    span.end();
  }
}
