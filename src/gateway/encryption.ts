/** Builds what clients' connections are encrypted with. */
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { TlsConfig } from '../config/config.ts';
import { defaultCiphers } from '../config/tls-ciphers.ts';
import { createTlsMetrics, type TlsMetrics } from '../metrics/tls-metrics.ts';
import { keepAliveMs, usualHeadMs, usualInactivityMs, usualRequestMs } from '../proxy/listener.ts';
import type { ConnectionTimes } from '../proxy/server-parts.ts';
import { TlsListener } from '../proxy/tls-server.ts';
import type { Journal } from '../status/events.ts';
import { Certificates } from './certificates.ts';

export interface EncryptionContext {
  readonly log: Logger;
  readonly journal: Journal;
  readonly times: ConnectionTimes;
  readonly registry: Registry;
}

export interface Encryption {
  readonly listener: TlsListener;
  /** Of the certificate that is shown now; Unix time in milliseconds. */
  readonly expiresMs: () => number;
  /** Stops looking at the files. */
  close(): void;
}

/** Throws when the files, or the ciphers, cannot be used. */
export function buildEncryption(config: TlsConfig, { log, journal, times, registry }: EncryptionContext): Encryption {
  const certificates = new Certificates(config, {
    log,
    journal,
    onPair: (pair) => listener.setPair(pair),
    onReload: (result) => metrics.reloaded(result),
  });
  const metrics: TlsMetrics = createTlsMetrics(registry, () => certificates.expiresMs);
  const { headMs = usualHeadMs, requestMs = usualRequestMs, inactivityMs = usualInactivityMs } = times;
  const listener: TlsListener = new TlsListener({
    pair: certificates.pair,
    ciphers: config.ciphers ?? defaultCiphers,
    times: { headMs, requestMs, inactivityMs, idleMs: keepAliveMs },
    onHandshakeFailed: () => metrics.handshakeFailed(),
  });
  return { listener, expiresMs: () => certificates.expiresMs, close: () => certificates.close() };
}
