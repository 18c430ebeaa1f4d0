/** Metrics of TLS: how long the certificate lasts, whether new ones were taken, and handshakes that failed. */
import { Counter, Gauge, type Registry } from 'prom-client';

export interface TlsMetrics {
  reloaded(result: 'ok' | 'failed'): void;
  handshakeFailed(): void;
}

/** `expiresMs`, Unix time in milliseconds, is asked at each scrape. */
export function createTlsMetrics(registry: Registry, expiresMs: () => number): TlsMetrics {
  const registers = [registry];
  new Gauge({
    name: 'ledgergate_tls_certificate_expiry_seconds',
    help: 'When the certificate that clients are shown ends, Unix time; the earliest of all workers.',
    registers,
    aggregator: 'min',
    collect() {
      this.set(expiresMs() / 1000);
    },
  });
  const reloads = new Counter({
    name: 'ledgergate_tls_reloads_total',
    help: 'Changed certificate files, by whether they were taken; failed: what was served before still is.',
    labelNames: ['result'] as const,
    registers,
  });
  const failures = new Counter({
    name: 'ledgergate_tls_handshake_failures_total',
    help: 'Connections that did not get through the TLS handshake.',
    registers,
  });
  for (const result of ['ok', 'failed'] as const) reloads.inc({ result }, 0);
  return {
    reloaded: (result) => reloads.inc({ result }),
    handshakeFailed: () => failures.inc(),
  };
}
