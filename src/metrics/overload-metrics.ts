/** Metrics of what is too much: requests and connections that are refused to keep the others answered. */
import { Counter, Gauge, type Registry } from 'prom-client';

/** What there was too much of. */
export type ShedReason = 'event loop';

export interface OverloadGauges {
  readonly connections: number;
  /** How late the event loop is. */
  readonly lagSeconds: number;
}

export interface OverloadMetrics {
  /** A request is refused so that others are answered. */
  shed(reason: ShedReason): void;
  connectionRefused(): void;
  connectionDisplaced(): void;
}

/** `readGauges` is called at each scrape. */
export function createOverloadMetrics(registry: Registry, readGauges: () => OverloadGauges): OverloadMetrics {
  const registers = [registry];
  const shed = new Counter({
    name: 'ledgergate_shed_requests_total',
    help: 'Requests answered 503 at once so that others are answered, by what there was too much of.',
    labelNames: ['reason'] as const,
    registers,
  });
  const refused = new Counter({
    name: 'ledgergate_http_connections_refused_total',
    help: 'Connections of clients beyond the bound, answered 503 or closed.',
    registers,
  });
  const displaced = new Counter({
    name: 'ledgergate_http_connections_displaced_total',
    help: 'Idle connections of clients that were closed at the bound to make room for new ones.',
    registers,
  });
  new Gauge({
    name: 'ledgergate_http_connections',
    help: 'Open connections of clients.',
    registers,
    collect() {
      this.set(readGauges().connections);
    },
  });
  new Gauge({
    name: 'ledgergate_event_loop_lag_seconds',
    help: 'How late the event loop is; the latest of all workers.',
    registers,
    aggregator: 'max',
    collect() {
      this.set(readGauges().lagSeconds);
    },
  });
  shed.inc({ reason: 'event loop' }, 0);
  return {
    shed: (reason) => shed.inc({ reason }),
    connectionRefused: () => refused.inc(),
    connectionDisplaced: () => displaced.inc(),
  };
}
