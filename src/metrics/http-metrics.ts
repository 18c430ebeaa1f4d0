/** Metrics of what clients see: requests by route template and status, latency, requests in flight. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** Route templates: a closed set, never a path. */
export type RouteName =
  | 'resource'
  | 'module'
  | 'view'
  | 'transaction_by_hash'
  | 'wait_by_hash'
  | 'encode_submission'
  | 'submit'
  | 'ledger_info'
  | 'pass_through'
  | 'none';

/**
 * Where an answer came from. `collapsed`: from the upstream read of another client. `miss`: a node was asked for it.
 * `passed`: sent on to a node, which is never kept. `local`: made here. `refused`: an error that is the client's;
 * `failed`: one that is not.
 */
export const outcomes = ['memory', 'redis', 'collapsed', 'miss', 'passed', 'local', 'refused', 'failed'] as const;
export type Outcome = (typeof outcomes)[number];

/** A request that has been answered, or whose client has gone. */
export interface Finished {
  readonly route: RouteName;
  /** What the client was told, or would have been. */
  readonly status: number;
  readonly outcome: Outcome;
  /** Its span, where that is sampled: lower-case hex. */
  readonly trace?: { readonly traceId: string; readonly spanId: string } | undefined;
}

export interface HttpMetrics {
  started(): void;
  /** Counts an answer; `seconds` from the request's arrival to its last byte handed to the socket. */
  finished(request: Finished, seconds: number): void;
}

export function createHttpMetrics(registry: Registry): HttpMetrics {
  const registers = [registry];
  const requests = new Counter({
    name: 'ledgergate_http_requests_total',
    help: 'Requests of clients by route and status.',
    labelNames: ['route', 'status'] as const,
    registers,
  });
  const duration = new Histogram({
    name: 'ledgergate_http_request_duration_seconds',
    help: 'Time from a request to the end of its answer, by route and where the answer came from.',
    labelNames: ['route', 'outcome'] as const,
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  });
  const inFlight = new Gauge({
    name: 'ledgergate_http_in_flight_requests',
    help: 'Requests of clients that are not answered yet.',
    registers,
  });
  // Looking a child up by its labels costs more than counting, so each pair is looked up once.
  const counters = new Map<string, Counter.Internal>();
  const histograms = new Map<string, Histogram.Internal<'route' | 'outcome'>>();
  return {
    started: () => inFlight.inc(),
    finished({ route, status, outcome }, seconds) {
      inFlight.dec();
      const key = `${route} ${status}`;
      let counter = counters.get(key);
      if (counter === undefined) counters.set(key, (counter = requests.labels({ route, status: String(status) })));
      counter.inc();
      const timed = `${route} ${outcome}`;
      let histogram = histograms.get(timed);
      if (histogram === undefined) histograms.set(timed, (histogram = duration.labels({ route, outcome })));
      histogram.observe(seconds);
    },
  };
}
