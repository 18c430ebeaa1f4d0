/** TLS towards clients: the listener, and its certificate, reloaded when its files change. */
import type { TlsConfig, TlsFiles } from '../config/config.ts';
import { digestOf, FileWatch } from '../config/source/text-file.ts';
import { defaultCiphers } from '../config/schema/schema-parts.ts';
import { readTlsPair, type TlsPair } from '../config/tls-pair.ts';
import { createTlsMetrics, type TlsMetrics } from '../metrics/reload-metrics.ts';
import { keepAliveMs } from '../proxy/http/server/listener.ts';
import type { ConnectionTimes } from '../proxy/routes/server-parts.ts';
import { TlsListener } from '../proxy/http/server/tls-server.ts';
import type { ServingContext } from './settings.ts';

interface EncryptionContext extends ServingContext {
  readonly times: ConnectionTimes;
}

/** Throws when the files or ciphers are invalid. */
export function buildEncryption(config: TlsConfig, { log, journal, times, registry }: EncryptionContext) {
  const certificates = new Certificates(config, {
    log,
    journal,
    onPair: (pair) => listener.setPair(pair),
    onReload: (result) => metrics.reloaded(result),
  });
  const metrics: TlsMetrics = createTlsMetrics(registry, () => certificates.expiresMs);
  const listener: TlsListener = new TlsListener({
    pair: certificates.pair,
    ciphers: config.ciphers ?? defaultCiphers,
    times: { ...times, idleMs: keepAliveMs },
    onHandshakeFailed: () => metrics.handshakeFailed(),
  });
  return {
    listener,
    /** Expiry of the certificate in use, Unix time in ms. */
    expiresMs: () => certificates.expiresMs,
    close: () => certificates.close(),
  };
}

interface CertificatesOptions extends Pick<ServingContext, 'log' | 'journal'> {
  readonly onPair: (pair: TlsPair) => void;
  readonly onReload: (result: 'ok' | 'failed') => void;
}

class Certificates {
  readonly #files: TlsFiles;
  readonly #options: CertificatesOptions;
  readonly #watch: FileWatch;
  #pair: TlsPair;
  #expiresMs: number;
  /** The last logged reason of a refusal, logged once. */
  #refused: string | undefined;

  constructor(files: TlsFiles, options: CertificatesOptions) {
    const both = [files.cert, files.key];
    const digest = digestOf(...both);
    const { pair, expiresMs, problems } = readTlsPair(files, Date.now());
    if (pair === undefined)
      throw new Error(problems.map(({ at, message }) => `listen.tls.${at}: ${message}`).join('; '));
    this.#files = files;
    this.#options = options;
    this.#pair = pair;
    this.#expiresMs = expiresMs ?? NaN;
    const look = (): void => this.#look();
    this.#watch = new FileWatch(both, { digest, onChange: look, onMissing: look });
  }

  get pair(): TlsPair {
    return this.#pair;
  }

  get expiresMs(): number {
    return this.#expiresMs;
  }

  close(): void {
    this.#watch.close();
  }

  /** Reads the files, and applies a new valid pair. */
  #look(): void {
    const nowMs = Date.now();
    const { pair, expiresMs = NaN, problems, warnings } = readTlsPair(this.#files, nowMs);
    if (pair?.cert === this.#pair.cert && pair.key === this.#pair.key) {
      this.#refused = undefined;
      return;
    }
    const faults = problems.map(({ at, message }) => `listen.tls.${at}: ${message}`);
    // An expired certificate must not replace a valid one.
    const isWorse = expiresMs <= nowMs && this.#expiresMs > nowMs;
    if (pair === undefined || isWorse) this.#refuse([...faults, ...warnings].join('; '));
    else this.#take(pair, expiresMs, warnings);
  }

  #take(pair: TlsPair, expiresMs: number, warnings: readonly string[]): void {
    const { log, journal, onPair, onReload } = this.#options;
    this.#pair = pair;
    this.#expiresMs = expiresMs;
    this.#refused = undefined;
    onPair(pair);
    onReload('ok');
    const expires = new Date(expiresMs).toISOString();
    journal.record('certificate', { expires }, 'certificate reloaded: new connections use it');
    for (const warning of warnings) log.warn(warning);
  }

  #refuse(why: string): void {
    if (why === this.#refused) return;
    this.#refused = why;
    this.#options.onReload('failed');
    this.#options.journal.record(
      'certificate refused',
      { why },
      'certificate files refused: the certificate in use stays',
    );
  }
}
