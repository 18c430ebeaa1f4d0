/** TLS towards clients: the listener, and its certificate, reloaded when its files change. */
import { defaultCiphers, digestOf, FileWatch, readTlsPair, type TlsConfig, type TlsPair } from '../config/index.ts';
import { createTlsMetrics } from '../metrics/index.ts';
import { type ConnectionTimes, keepAliveMs, TlsListener } from '../proxy/http/index.ts';
import type { ServingContext } from './settings.ts';

interface EncryptionContext extends ServingContext {
  readonly times: ConnectionTimes;
}

/** Throws when the files or ciphers are invalid. */
export function buildEncryption(config: TlsConfig, { log, journal, times, registry }: EncryptionContext) {
  const files = [config.cert, config.key];
  const digest = digestOf(...files);
  const first = readTlsPair(config, Date.now());
  if (first.pair === undefined) throw new Error(faultsOf(first).join('; '));
  let pair: TlsPair = first.pair;
  let expiresMs = first.expiresMs ?? NaN;
  /** The last logged reason of a refusal, logged once. */
  let refused: string | undefined;
  const metrics = createTlsMetrics(registry, () => expiresMs);
  const listener = new TlsListener({
    pair,
    ciphers: config.ciphers ?? defaultCiphers,
    times: { ...times, idleMs: keepAliveMs },
    onHandshakeFailed: () => metrics.handshakeFailed(),
  });
  const watch = new FileWatch(files, { digest, onChange: look, onMissing: look });
  return {
    listener,
    /** Expiry of the certificate in use, Unix time in ms. */
    expiresMs: () => expiresMs,
    /** Why the files, as they are now, are not in use; `undefined`: they are. */
    refused: () => refused,
    close: () => watch.close(),
  };

  /** Reads the files, and applies a new valid pair. */
  function look(): void {
    const nowMs = Date.now();
    const next = readTlsPair(config, nowMs);
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

function faultsOf({ problems }: ReturnType<typeof readTlsPair>): readonly string[] {
  return problems.map(({ at, message }) => `listen.tls.${at}: ${message}`);
}
