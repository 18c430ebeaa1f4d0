/** TLS towards clients: its listener, and the certificate, which is read again whenever its files change. */
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { TlsConfig, TlsFiles } from '../config/config.ts';
import { digestOf, FileWatch } from '../config/source/text-file.ts';
import { defaultCiphers } from '../config/tls-ciphers.ts';
import { readTlsPair, type TlsPair } from '../config/tls-pair.ts';
import { createTlsMetrics, type TlsMetrics } from '../metrics/tls-metrics.ts';
import { keepAliveMs, usualHeadMs, usualInactivityMs, usualRequestMs } from '../proxy/http/server/listener.ts';
import type { ConnectionTimes } from '../proxy/routes/server-parts.ts';
import { TlsListener } from '../proxy/http/server/tls-server.ts';
import type { Journal } from '../proxy/operations/status/events.ts';

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

interface CertificatesOptions {
  readonly log: Logger;
  readonly journal: Journal;
  /** A new pair that is fit to be served with. */
  readonly onPair: (pair: TlsPair) => void;
  readonly onReload: (result: 'ok' | 'failed') => void;
}

class Certificates {
  readonly #files: TlsFiles;
  readonly #options: CertificatesOptions;
  readonly #watch: FileWatch;
  #pair: TlsPair;
  #expiresMs: number;
  /** What was last said of files that were not taken: the same is not said twice. */
  #refused: string | undefined;

  /** Throws an Error that says what is wrong with the files. */
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

  /** Unix time in milliseconds. */
  get expiresMs(): number {
    return this.#expiresMs;
  }

  close(): void {
    this.#watch.close();
  }

  /** Reads the files, and takes them where they are new and fit. */
  #look(): void {
    const nowMs = Date.now();
    const { pair, expiresMs = NaN, problems, warnings } = readTlsPair(this.#files, nowMs);
    if (pair?.cert === this.#pair.cert && pair.key === this.#pair.key) {
      this.#refused = undefined;
      return;
    }
    const faults = problems.map(({ at, message }) => `listen.tls.${at}: ${message}`);
    // One that has ended is no reason to give up one that has not.
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
    journal.record('certificate', { expires }, 'new connections are shown the new certificate');
    for (const warning of warnings) log.warn(warning);
  }

  #refuse(why: string): void {
    if (why === this.#refused) return;
    this.#refused = why;
    this.#options.onReload('failed');
    this.#options.journal.record(
      'certificate refused',
      { why },
      'the certificate files changed and cannot be used: the certificate stays as it was',
    );
  }
}
