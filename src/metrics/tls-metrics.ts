/** Metrics of TLS: expiry of the certificate, reloads, failed handshakes. */
import type { Registry } from 'prom-client';
import { Counter } from './counter.ts';
import { Gauge } from './gauge.ts';

/** Counts events of TLS. */
export type TlsMetrics = ReturnType<typeof createTlsMetrics>;

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
