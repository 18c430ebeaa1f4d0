/** Metrics of the client port: requests, streams, the fast path, and what is shed, refused or ended under load. */
import type { Registry } from 'prom-client';
import {
  combinations,
  Counter,
  type Count,
  type CountedRequest,
  Gauge,
  Histogram,
  labelSources,
  type Outcome,
  outcomes,
  requestSeconds,
} from '../../metrics/index.ts';
import type { EndReason, StreamKind } from '../reads/index.ts';

/** Sources of answers that saved a request to a node. `local`: a signing message that was encoded here. */
const savings = ['memory', 'store', 'redis', 'collapsed', 'local'] as const;

/** Counts events of client requests. */
export type HttpMetrics = ReturnType<typeof createHttpMetrics>;

interface RouteCounts {
  readonly byStatus: Map<number, Count>;
  readonly byOutcome: Partial<
    Record<Outcome, { readonly duration: ReturnType<Histogram['of']>; readonly bytes: Count }>
  >;
}

/** Statuses with a series per route from the start, because alerts use them. */
const expected = ['200', '500', '503'];

/** Registers the families of client requests. `routes`: the names of all. */
export function createHttpMetrics(registry: Registry, routes: readonly string[]) {
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
  const counts: Partial<Record<string, RouteCounts>> = {};
  const countsOf = (route: string): RouteCounts => (counts[route] ??= { byStatus: new Map(), byOutcome: {} });
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
    broken,
  };
}

/** The status that access logs of proxies have for a client that hung up before its answer began. */
const hungUp = 499;

/** The status in metrics and access log; 499 after a hang-up. */
export function countedStatus({ isHeadSent, status }: Pick<CountedRequest, 'isHeadSent' | 'status'>): number {
  return isHeadSent ? status : hungUp;
}

/** The outcome in metrics and access log; `refused` after a hang-up. */
export function countedOutcome({ isHeadSent, outcome }: Pick<CountedRequest, 'isHeadSent' | 'outcome'>): Outcome {
  return isHeadSent ? outcome : 'refused';
}

/** Nodes may answer with any three digits; the label stays bounded. */
function codeOf(status: number): string {
  return status >= 100 && status <= 599 ? String(status) : 'other';
}

function createSavedMetrics(registry: Registry): (route: string, outcome: Outcome) => void {
  const requests = new Counter(registry, {
    name: 'ledgergate_saved_upstream_requests_total',
    help: 'Requests that no upstream had to answer, by what did: memory, store, redis, collapsed (with the read of another client), local (a signing message encoded here).',
    labels: { how: savings },
  });
  const saved: Partial<Record<Outcome, Count>> = Object.fromEntries(savings.map((how) => [how, requests.of({ how })]));
  return (route, outcome) => {
    if (outcome !== 'local' || route === 'encode_submission') saved[outcome]?.inc();
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

const shedReasons = ['event loop', 'answers on their way'] as const;

/** Registers the families of overload; the gauges are read at each scrape. `answerBytes`: from nodes or to clients. */
export function createOverloadMetrics(
  registry: Registry,
  gauges: Readonly<Record<'connections' | 'lagSeconds' | 'answerBytes', () => number>>,
) {
  const shed = new Counter(registry, {
    name: 'ledgergate_shed_requests_total',
    help: 'Requests answered 503 at once to protect others, by reason.',
    labels: { reason: shedReasons },
  }).by('reason');
  const connectionRefused = new Counter(registry, {
    name: 'ledgergate_http_connections_refused_total',
    help: 'Connections of clients beyond listen.maxConnections, answered 503 or closed.',
  }).of({});
  const connectionDisplaced = new Counter(registry, {
    name: 'ledgergate_http_connections_displaced_total',
    help: 'Idle connections of clients that were closed at listen.maxConnections to make room for new ones.',
  }).of({});
  const slowConnectionEnded = new Counter(registry, {
    name: 'ledgergate_http_slow_connections_ended_total',
    help: 'Connections that were ended because their clients took nothing of an answer while memory for answers was short.',
  }).of({});
  new Gauge(registry, {
    name: 'ledgergate_answers_held_bytes',
    help: 'Bytes of answers that are being read from nodes, or that clients have not taken, beside the cache.',
    read: gauges.answerBytes,
  });
  new Gauge(registry, {
    name: 'ledgergate_http_connections',
    help: 'Open connections of clients.',
    read: gauges.connections,
  });
  new Gauge(registry, {
    name: 'ledgergate_event_loop_lag_seconds',
    help: 'How late the event loop is; the latest of all workers.',
    join: 'max',
    read: gauges.lagSeconds,
  });
  return { shed, connectionRefused, connectionDisplaced, slowConnectionEnded };
}

/** Registers the families of request bodies. `heldBytes` is called at each scrape; the count is of ended bodies. */
export function createBodyMetrics(registry: Registry, heldBytes: () => number): Count {
  new Gauge(registry, {
    name: 'ledgergate_http_body_bytes',
    help: 'Bytes of request bodies of more than 16 kB that are held, and of answers made of them.',
    read: heldBytes,
  });
  return new Counter(registry, {
    name: 'ledgergate_http_bodies_ended_total',
    help: 'Request bodies that were answered 503 before their end, because memory for bodies was short and they were the slowest of the clients that held the most.',
  }).of({});
}

/** Registers the families of TLS; `expiresMs`, Unix time in milliseconds, is called at each scrape. */
export function createTlsMetrics(registry: Registry, expiresMs: () => number) {
  new Gauge(registry, {
    name: 'ledgergate_tls_certificate_expiry_timestamp_seconds',
    help: 'When the certificate that clients are shown ends, Unix time; the earliest of all workers.',
    join: 'min',
    read: () => expiresMs() / 1000,
  });
  const reloaded = new Counter(registry, {
    name: 'ledgergate_tls_reloads_total',
    help: 'Changed certificate files, by whether they were taken; failed: what was served before still is.',
    labels: { result: ['ok', 'failed'] },
  }).by('result');
  const failures = new Counter(registry, {
    name: 'ledgergate_tls_handshake_failures_total',
    help: 'Connections that did not get through the TLS handshake.',
  }).of({});
  return {
    reloaded,
    handshakeFailed: () => failures.inc(),
  };
}

const streamKinds: readonly StreamKind[] = ['transactions', 'ledger_info', 'changes'];
const endReasons: readonly EndReason[] = ['client', 'slow', 'drain', 'revoked', 'reload', 'pruned', 'failed'];

/** Registers the families of event streams. `open`: called at each scrape. */
export function createStreamMetrics(registry: Registry, open: (kind: StreamKind) => number) {
  const labels = { kind: streamKinds };
  new Gauge(registry, {
    name: 'ledgergate_streams',
    help: 'Open event streams, by kind.',
    labels,
    read: () => streamKinds.map((kind) => [{ kind }, open(kind)] as const),
  });
  const events = new Counter(registry, {
    name: 'ledgergate_stream_events_total',
    help: 'Events that were written to streams, by kind.',
    labels,
  });
  const bytes = new Counter(registry, {
    name: 'ledgergate_stream_bytes_total',
    help: 'Bytes of events and comments that were written to streams, by kind.',
    labels,
  });
  const closed = new Counter(registry, {
    name: 'ledgergate_streams_closed_total',
    help: 'Event streams that ended, by kind and reason: client (it left), slow (1 MiB unread, or stalled where all streams together have 128 MiB), drain, revoked (its key or right), reload, pruned (no node holds what it needs next), failed.',
    labels: { ...labels, reason: endReasons },
  });
  const refused = new Counter(registry, {
    name: 'ledgergate_streams_refused_total',
    help: 'Event streams that were refused, by bound: max (streams.max), plan (streams of the plan).',
    labels: { reason: ['max', 'plan'] },
  }).by('reason');
  const countsOf = (kind: StreamKind) => ({ events: events.of({ kind }), bytes: bytes.of({ kind }) });
  return {
    /** Looked up once for each kind. */
    counts: {
      transactions: countsOf('transactions'),
      ledger_info: countsOf('ledger_info'),
      changes: countsOf('changes'),
    },
    closed: (kind: StreamKind, reason: EndReason) => closed.inc({ kind, reason }),
    refused,
  };
}
