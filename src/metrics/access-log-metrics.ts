/** Metrics of access lines that are not written. */
import type { Registry } from 'prom-client';
import { Counter } from './counter.ts';

export interface AccessLogMetrics {
  /** A slow or failed request got no line, because too many did. */
  dropped(): void;
}

export function createAccessLogMetrics(registry: Registry): AccessLogMetrics {
  const dropped = new Counter(registry, {
    name: 'ledgergate_access_log_dropped_total',
    help: 'Slow or failed requests without an access line, because too many had one within the second.',
  }).of({});
  return { dropped: () => dropped.inc() };
}
