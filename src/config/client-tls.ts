/**
 * TLS toward nodes and Redis: PEM files of the config, read, inspected, and read again when they change. Contents that
 * cannot be used are refused, and the ones before stay in use: a configured authority is never replaced by the public ones.
 */
import type { ExpiringFile, FileTexts, Journal, Renewals } from '../metrics/index.ts';
import type { ClientTlsConfig } from './config.ts';
import { WatchedFiles } from './source/watched-files.ts';
import { expiryWarnings, TlsFiles, type TlsMaterial } from './tls-files.ts';

/** In messages: the server is named beside it. */
const section = 'tls';
/** A certificate that is about to end is recorded at this interval. */
const reminderMs = 3_600_000;

/** The files toward one server. */
export class ClientTls {
  /** The material of new connections: the last contents that can be used. */
  material: TlsMaterial;
  readonly #config: ClientTlsConfig;
  readonly #toward: string;
  readonly #renewals: Renewals;
  readonly #journal: Journal;
  readonly #now: () => number;
  readonly #files: WatchedFiles;
  /** The files as the start read them, with the reason why they are not in use; see `use`. */
  readonly #found: { readonly texts: FileTexts; readonly refusal: string | undefined };
  #expiries: ReadonlyMap<ExpiringFile, number>;
  /** Ends that were recorded, with the day of their last record. */
  readonly #reminded = new Map<ExpiringFile, string>();
  #reminder: NodeJS.Timeout | undefined;

  /**
   * Reads the files. The contents of the other processes are used where those of the files must not replace them. Throws
   * when there are none, and the files cannot be used. `toward`: the server, in metrics and log. `now`: Unix time in ms.
   */
  constructor(
    config: ClientTlsConfig,
    parts: {
      readonly toward: string;
      readonly renewals: Renewals;
      readonly journal: Journal;
      readonly now?: () => number;
    },
  ) {
    this.#config = config;
    this.#toward = parts.toward;
    this.#renewals = parts.renewals;
    this.#journal = parts.journal;
    this.#now = parts.now ?? Date.now;
    this.#files = new WatchedFiles([config.ca, config.cert, config.key].filter((name) => name !== undefined));
    const { used, refusal } = TlsFiles.open(config, this.#renewals.files, this.#now(), section);
    this.material = used.material;
    this.#expiries = used.expiries;
    this.#found = { texts: used.texts, refusal };
  }

  /**
   * The files are in use: reports them, and reads them again when they change. `onChange`: `material` is another. Until
   * then a config that is refused can be given up.
   */
  use(onChange: () => void): void {
    const { texts, refusal } = this.#found;
    this.#renewals.useFiles(this.#toward, this.#expiries, refusal);
    if (refusal === undefined) this.#renewals.files?.keep(this.#config, texts);
    const look = (): void => this.#look(onChange);
    if (this.#files.names.length > 0) this.#files.watch({ onChange: look, onMissing: look });
    this.#remind();
    this.#reminder = setInterval(() => this.#remind(), reminderMs).unref();
  }

  close(): void {
    this.#files.close();
    clearInterval(this.#reminder);
  }

  #look(onChange: () => void): void {
    const nowMs = this.#now();
    const next = TlsFiles.read(this.#config, nowMs, section);
    const refusal = TlsFiles.refusalOf(next, this.#expiries, nowMs, section);
    if (next.material === undefined || refusal !== undefined) {
      this.#renewals.refuse(this.#toward, 'files', refusal ?? '');
      return;
    }
    this.material = next.material;
    this.#expiries = next.expiries;
    this.#renewals.useFiles(this.#toward, next.expiries);
    this.#renewals.files?.keep(this.#config, next.texts);
    this.#remind();
    onChange();
  }

  /** Records an end that has come, or comes within a week: once a day, which is its line of the log. */
  #remind(): void {
    const nowMs = this.#now();
    const day = new Date(nowMs).toISOString().slice(0, 10);
    for (const [file, expiresMs] of this.#expiries) {
      const expires = new Date(expiresMs).toISOString();
      const mark = `${day} ${expires} ${expiresMs <= nowMs}`;
      const [warning] = expiryWarnings(expiresMs, nowMs, `tls.${file}`);
      if (warning === undefined || this.#reminded.get(file) === mark) continue;
      this.#reminded.set(file, mark);
      this.#journal.record('certificate ends', { toward: this.#toward, file, expires }, `${warning}: renew the file`);
    }
  }

  /** The material in the files now. Throws when they cannot be used. */
  static once(config: ClientTlsConfig): TlsMaterial {
    return TlsFiles.open(config, undefined, Date.now(), section).used.material;
  }
}
