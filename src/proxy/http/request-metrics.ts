/** Metrics of client requests: status, latency, in flight, saved upstream requests, fast path. */
import type { Registry } from 'prom-client';
import {
  combinations,
  Counter,
  type Count,
  countedOutcome,
  type CountedRequest,
  countedStatus,
  Gauge,
  Histogram,
  labelSources,
  type Outcome,
  outcomes,
  requestSeconds,
  type RouteName,
  routes,
} from '../../metrics/index.ts';

/** Sources of answers that saved a request to a node. `local`: a signing message that was encoded here. */
const savings = ['memory', 'store', 'redis', 'collapsed', 'local'] as const;

/** Counts events of client requests. */
export type HttpMetrics = ReturnType<typeof createHttpMetrics>;

/** Counts of one route, looked up once. */
interface RouteCounts {
  readonly byStatus: Map<number, Count>;
  readonly byOutcome: Partial<
    Record<Outcome, { readonly duration: ReturnType<Histogram['of']>; readonly bytes: Count }>
  >;
}

/** Statuses with a series per route from the start, because alerts use them. */
const expected = ['200', '500', '503'];

/** Registers the families of client requests. */
export function createHttpMetrics(registry: Registry) {
  const byStatus = { route: routes, status: labelSources.status };
  const requests = new Counter(registry, {
    name: 'ledgergate_http_requests_total',
    help: 'Requests of clients that have ended, by route and status (499: the client hung up before its answer); other statuses than 200, 500 and 503 have no series before the first.',
    labels: byStatus,
    known: () => expected.flatMap((status) => combinations(byStatus, { status })),
  });
  const duration = new Histogram(registry, {
    name: 'ledgergate_http_request_duration_seconds',
    help: 'Time from a request to the end of its answer, by route and where the answer came from.',
    labels: { route: routes, outcome: outcomes },
    buckets: requestSeconds,
  });
  const responseBytes = new Counter(registry, {
    name: 'ledgergate_http_response_bytes_total',
    help: 'Bytes of bodies of answers to clients, as sent (compressed or not), by route and where the answer came from; HEAD and 304 have none. When the client cuts an answer off, a streamed one counts what was sent, a kept one its whole length. No series before the first answer.',
    labels: { route: routes, outcome: outcomes },
    known: () => [],
  });
  let inFlight = 0;
  new Gauge(registry, {
    name: 'ledgergate_http_in_flight_requests',
    help: 'Requests of clients that are not answered yet.',
    read: () => inFlight,
  });
  const broken = new Counter(registry, {
    name: 'ledgergate_http_broken_requests_total',
    help: 'Malformed requests of clients: not HTTP, too large a head, cut off, or not complete in time.',
  }).of({});
  const saved = createSavedMetrics(registry);
  const counts: Partial<Record<RouteName, RouteCounts>> = {};
  const countsOf = (route: RouteName): RouteCounts => (counts[route] ??= { byStatus: new Map(), byOutcome: {} });
  return {
    started() {
      inFlight += 1;
    },
    /** Counts an ended request; `seconds` from its arrival to the answer's last byte handed to the socket. */
    finished(request: CountedRequest, seconds: number) {
      inFlight -= 1;
      const { route, bytes, trace } = request;
      const [status, outcome] = [countedStatus(request), countedOutcome(request)];
      const { byStatus, byOutcome } = countsOf(route);
      let count = byStatus.get(status);
      if (count === undefined) byStatus.set(status, (count = requests.of({ route, status: codeOf(status) })));
      count.inc();
      const counted = (byOutcome[outcome] ??= {
        duration: duration.of({ route, outcome }),
        bytes: responseBytes.of({ route, outcome }),
      });
      counted.duration.observe(seconds, trace);
      counted.bytes.inc(bytes);
      saved(route, outcome);
    },
    /** Malformed bytes, or a request that did not end in time. */
    broken: () => broken.inc(),
  };
}

/** Nodes may answer with any three digits; the label stays bounded. */
function codeOf(status: number): string {
  return status >= 100 && status <= 599 ? String(status) : 'other';
}

/** Counts the request that a cached or local answer saved. */
function createSavedMetrics(registry: Registry): (route: RouteName, outcome: Outcome) => void {
  const requests = new Counter(registry, {
    name: 'ledgergate_saved_upstream_requests_total',
    help: 'Requests that no upstream had to answer, by what did: memory, store, redis, collapsed (with the read of another client), local (a signing message encoded here).',
    labels: { how: savings },
  });
  const saved: Partial<Record<Outcome, Count>> = {
    memory: requests.of({ how: 'memory' }),
    store: requests.of({ how: 'store' }),
    redis: requests.of({ how: 'redis' }),
    collapsed: requests.of({ how: 'collapsed' }),
  };
  const encoded = requests.of({ how: 'local' });
  return (route, outcome) => {
    const count = outcome === 'local' && route === 'encode_submission' ? encoded : saved[outcome];
    count?.inc();
  };
}

/** `known`: a prepared hit. `read`: any other read on the fast path. */
const fastPathKinds = ['known', 'read'] as const;

/** Counts of the fast path. */
export type FastPathMetrics = ReturnType<typeof createFastPathMetrics>;

/** Registers the families of the fast path. */
export function createFastPathMetrics(registry: Registry) {
  const requests = new Counter(registry, {
    name: 'ledgergate_fast_path_requests_total',
    help: 'Requests taken ahead of the HTTP server: known (answered from memory under a target that was read before), read (all others).',
    labels: { kind: fastPathKinds },
  });
  return {
    known: requests.of({ kind: 'known' }),
    read: requests.of({ kind: 'read' }),
    handovers: new Counter(registry, {
      name: 'ledgergate_fast_path_handovers_total',
      help: 'Connections that the HTTP server took over, for good, after a request in another form.',
    }).of({}),
  };
}
