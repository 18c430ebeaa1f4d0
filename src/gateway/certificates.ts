/** The certificate that clients are shown: read at the start, and again whenever its files change. */
import type { Logger } from 'pino';
import type { TlsFiles } from '../config/config.ts';
import { digestOf, FileWatch } from '../config/text-file.ts';
import { readTlsPair, type TlsPair } from '../config/tls-pair.ts';
import type { Journal } from '../status/events.ts';

export interface CertificatesOptions {
  readonly log: Logger;
  readonly journal: Journal;
  /** A new pair that is fit to be served with. */
  readonly onPair: (pair: TlsPair) => void;
  readonly onReload: (result: 'ok' | 'failed') => void;
}

export class Certificates {
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
    journal.tell('certificate', { expires }, 'new connections are shown the new certificate');
    for (const warning of warnings) log.warn(warning);
  }

  #refuse(why: string): void {
    if (why === this.#refused) return;
    this.#refused = why;
    this.#options.onReload('failed');
    this.#options.journal.tell(
      'certificate refused',
      { why },
      'the certificate files changed and cannot be used: the certificate stays as it was',
    );
  }
}
