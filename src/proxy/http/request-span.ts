/**
 * The span of a client's request, after OpenTelemetry's HTTP conventions. It contains no path, query, address or key:
 * the route's template names it.
 */
import type { LedgerVersion } from '../../ledger/index.ts';
import type { CountedRequest, Outcome, RouteName, Span, Tracer } from '../../metrics/index.ts';
import type { Incoming } from './message.ts';

/** A route's name in metrics, log lines and spans. */
export interface RouteLabel {
  readonly name: RouteName;
  /** Path below the base path; undefined for a request without a route. */
  readonly template: string | undefined;
}

/** A finished request, as its span reports it. */
interface SpanSummary extends Pick<CountedRequest, 'status' | 'outcome' | 'isHeadSent'> {
  readonly upstream: string | undefined;
  readonly version: LedgerVersion | undefined;
}

const methods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']);

/** The address that clients connect to. */
interface PublicUrl {
  readonly scheme: 'http' | 'https';
  readonly basePath: string;
}

/** Begins and ends the spans of client requests. */
export class RequestSpans {
  readonly #tracer: Tracer;
  readonly #publicUrl: PublicUrl;

  constructor(tracer: Tracer, publicUrl: PublicUrl) {
    this.#tracer = tracer;
    this.#publicUrl = publicUrl;
  }

  begin({ method = '', headers, httpVersionMajor, httpVersion }: Incoming, { template }: RouteLabel): Span {
    const { scheme, basePath } = this.#publicUrl;
    const isKnown = methods.has(method);
    const route = template === undefined ? undefined : basePath + template || '/';
    const verb = isKnown ? method : 'HTTP';
    return this.#tracer.serve(route === undefined ? verb : `${verb} ${route}`, headers, {
      'http.request.method': isKnown ? method : '_OTHER',
      'http.route': route,
      'url.scheme': scheme,
      'network.protocol.version': httpVersionMajor === 2 ? '2' : httpVersion,
    });
  }

  /** A 4xx is no error of the span. A hang-up before the head has no status. */
  end(span: Span, { status, outcome, upstream, version, isHeadSent }: SpanSummary): void {
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
