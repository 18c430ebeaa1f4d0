/** Metrics of log lines that are not written. */
import { Counter, type Registry } from 'prom-client';

export interface AccessLogMetrics {
  /** A slow or failed request got no line, because too many did. */
  dropped(): void;
}

export function createAccessLogMetrics(registry: Registry): AccessLogMetrics {
  const dropped = new Counter({
    name: 'ledgergate_access_log_dropped_total',
    help: 'Slow or failed requests without an access line, because too many had one within the second.',
    registers: [registry],
  });
  return { dropped: () => dropped.inc() };
}

/** `readDropped` is called at each scrape: lines lost so far. */
export function createLogOutputMetrics(registry: Registry, readDropped: () => number): void {
  new Counter({
    name: 'ledgergate_log_lines_dropped_total',
    help: 'Log lines that were lost because whoever reads them is too slow, or gone.',
    registers: [registry],
    collect() {
      this.reset();
      this.inc(readDropped());
    },
  });
}
