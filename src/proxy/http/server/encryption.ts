/** TLS towards clients: the listener, and its certificate, reloaded when its files change. */
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { type Config, TlsPair, WatchedFiles } from '../../../config/index.ts';
import { Counter, Gauge, type Journal } from '../../../metrics/index.ts';
import type { ConnectionTimes } from '../service.ts';
import { keepAliveMs } from '../heads.ts';
import { TlsListener } from './tls-server.ts';
import type { TurnShares } from './turn-shares.ts';

interface EncryptionContext {
  readonly turns: TurnShares;
  readonly log: Logger;
  readonly journal: Journal;
  readonly registry: Registry;
  readonly times: ConnectionTimes;
}

/** Throws when the files or ciphers are invalid. */
export function createEncryption(
  config: NonNullable<Config['listen']['tls']>,
  { log, journal, times, turns, registry }: EncryptionContext,
) {
  const files = new WatchedFiles([config.cert, config.key]);
  const first = TlsPair.read(config, Date.now());
  if (first.pair === undefined) throw new Error(faultsOf(first).join('; '));
  let pair: TlsPair = first.pair;
  let expiresMs = first.expiresMs ?? NaN;
  /** The last logged reason of a refusal, logged once. */
  let refused: string | undefined;
  const metrics = createTlsMetrics(registry, () => expiresMs);
  const listener = new TlsListener({
    pair,
    ciphers: config.ciphers,
    times: { ...times, idleMs: keepAliveMs },
    turns,
    onHandshakeFailed: () => metrics.handshakeFailed(),
  });
  files.watch({ onChange: look, onMissing: look });
  return {
    listener,
    /** Expiry of the certificate in use, Unix time in ms. */
    expiresMs: () => expiresMs,
    /** Why the files, as they are now, are not in use; `undefined`: they are. */
    refused: () => refused,
    close: () => files.close(),
  };

  /** Reads the files, and applies a new valid pair. */
  function look(): void {
    const nowMs = Date.now();
    const next = TlsPair.read(config, nowMs);
    // An expired certificate must not replace a valid one.
    const isWorse = (next.expiresMs ?? NaN) <= nowMs && expiresMs > nowMs;
    if (next.pair?.cert === pair.cert && next.pair.key === pair.key) refused = undefined;
    else if (next.pair === undefined || isWorse) refuse([...faultsOf(next), ...next.warnings].join('; '));
    else take(next.pair, next.expiresMs ?? NaN, next.warnings);
  }

  function take(nextPair: TlsPair, nextExpiresMs: number, warnings: readonly string[]): void {
    pair = nextPair;
    expiresMs = nextExpiresMs;
    refused = undefined;
    listener.setPair(pair);
    metrics.reloaded('ok');
    const expires = new Date(expiresMs).toISOString();
    journal.record('certificate', { expires }, 'certificate reloaded: new connections use it');
    for (const warning of warnings) log.warn(warning);
  }

  function refuse(why: string): void {
    if (why === refused) return;
    refused = why;
    metrics.reloaded('failed');
    journal.record('certificate refused', { why }, 'certificate files refused: the certificate in use stays');
  }
}

function faultsOf({ problems }: ReturnType<typeof TlsPair.read>): readonly string[] {
  return problems.map(({ at, message }) => `listen.tls.${at}: ${message}`);
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
