/** Metrics of overload: shed requests, refused and ended connections, bodies in memory. */
import type { Registry } from 'prom-client';
import { Counter, type Count, Gauge } from '../../metrics/index.ts';

/** Why requests are answered 503 at once. */
const shedReasons = ['event loop', 'answers on their way'] as const;

interface OverloadGauges {
  readonly connections: number;
  readonly lagSeconds: number;
  /** Bytes of answers on their way from nodes or to clients. */
  readonly answerBytes: number;
}

/** Counts events of overload. */
export type OverloadMetrics = ReturnType<typeof createOverloadMetrics>;

/** Registers the families of overload; `readGauges` is called at each scrape. */
export function createOverloadMetrics(registry: Registry, readGauges: () => OverloadGauges) {
  const shed = new Counter(registry, {
    name: 'ledgergate_shed_requests_total',
    help: 'Requests answered 503 at once to protect others, by reason.',
    labels: { reason: shedReasons },
  }).by('reason');
  const refused = new Counter(registry, {
    name: 'ledgergate_http_connections_refused_total',
    help: 'Connections of clients beyond listen.maxConnections, answered 503 or closed.',
  }).of({});
  const displaced = new Counter(registry, {
    name: 'ledgergate_http_connections_displaced_total',
    help: 'Idle connections of clients that were closed at listen.maxConnections to make room for new ones.',
  }).of({});
  const ended = new Counter(registry, {
    name: 'ledgergate_http_slow_connections_ended_total',
    help: 'Connections that were ended because their clients took nothing of an answer while memory for answers was short.',
  }).of({});
  new Gauge(registry, {
    name: 'ledgergate_answers_held_bytes',
    help: 'Bytes of answers that are being read from nodes, or that clients have not taken, beside the cache.',
    read: () => readGauges().answerBytes,
  });
  new Gauge(registry, {
    name: 'ledgergate_http_connections',
    help: 'Open connections of clients.',
    read: () => readGauges().connections,
  });
  new Gauge(registry, {
    name: 'ledgergate_event_loop_lag_seconds',
    help: 'How late the event loop is; the latest of all workers.',
    join: 'max',
    read: () => readGauges().lagSeconds,
  });
  return {
    shed,
    connectionRefused: () => refused.inc(),
    connectionDisplaced: () => displaced.inc(),
    /** The client read nothing of an answer while memory for answers was short. */
    slowConnectionEnded: () => ended.inc(),
  };
}

/** Registers the families of request bodies. `heldBytes` is called at each scrape; `ended` counts evicted bodies. */
export function createBodyMetrics(registry: Registry, heldBytes: () => number): { readonly ended: Count } {
  new Gauge(registry, {
    name: 'ledgergate_http_body_bytes',
    help: 'Bytes of request bodies of more than 16 kB that are held, and of answers made of them.',
    read: heldBytes,
  });
  return {
    ended: new Counter(registry, {
      name: 'ledgergate_http_bodies_ended_total',
      help: 'Request bodies that were answered 503 before their end, because memory for bodies was short and they were the slowest of the clients that held the most.',
    }).of({}),
  };
}
