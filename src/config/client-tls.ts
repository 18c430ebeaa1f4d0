/**
 * TLS toward nodes and Redis: PEM files of the config, read, inspected, and read again when they change. Contents that
 * cannot be used are refused, and the ones before stay in use: a configured authority is never replaced by the public ones.
 */
import { X509Certificate } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { ExpiringFile, FileTexts, Journal, Renewals } from '../metrics/index.ts';
import type { ClientTlsConfig, Config } from './config.ts';
import type { LoadedConfig } from './source/load.ts';
import { ConfigError, type KeyPath, type Problem } from './source/problem.ts';
import { WatchedFiles } from './source/watched-files.ts';
import { expiryWarnings, inspectTlsPair, placeFaults, readPem, type TlsFault } from './tls-pair.ts';

/** Options of a TLS connection. `servername`: asked for and checked; absent: the host of the address. */
export interface TlsMaterial {
  readonly secureContext: SecureContext;
  readonly servername?: string;
}

interface InspectedClientTls {
  /** Absent when there is a problem. */
  readonly material?: TlsMaterial;
  /** Unix time in ms. */
  readonly expiries: ReadonlyMap<ExpiringFile, number>;
  readonly problems: readonly TlsFault[];
  readonly texts: FileTexts;
  /** The files work, and servers refuse them, or fail their check, now or soon. */
  readonly warnings: readonly string[];
}

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
  /** As they were read at the start, with why they are not in use; see `use`. */
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
    const nowMs = this.#now();
    const found = ClientTls.read(config, nowMs);
    const texts = this.#renewals.files?.find(config);
    const kept = texts && ClientTls.inspect(config, texts, nowMs);
    const refusal = kept?.material && refusalOf(found, kept.expiries, nowMs);
    const { material, expiries } = kept === undefined || refusal === undefined ? found : kept;
    if (material === undefined) throw new Error(faultsOf(found.problems));
    this.material = material;
    this.#expiries = expiries;
    this.#found = { texts: found.texts, refusal };
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
    const next = ClientTls.read(this.#config, nowMs);
    const refusal = refusalOf(next, this.#expiries, nowMs);
    if (next.material === undefined || refusal !== undefined) {
      this.#renewals.refuse(this.#toward, 'files', refusal ?? faultsOf(next.problems));
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
    const { material, problems } = ClientTls.read(config, Date.now());
    if (material === undefined) throw new Error(faultsOf(problems));
    return material;
  }

  /** Reads and inspects the files. Never throws, and quotes nothing of them. `nowMs`: Unix time. */
  static read(config: ClientTlsConfig, nowMs: number, section = 'tls'): InspectedClientTls {
    const { problems, ...texts } = readPem(config);
    return ClientTls.inspect(config, texts, nowMs, section, problems);
  }

  /** Inspects the contents of the files. `problems`: of those that could not be read. */
  static inspect(
    config: ClientTlsConfig,
    texts: FileTexts,
    nowMs: number,
    section = 'tls',
    problems: TlsFault[] = [],
  ): InspectedClientTls {
    const { ca, cert, key } = texts;
    const expiries = new Map<ExpiringFile, number>();
    const warnings: string[] = [];
    if (cert !== undefined && key !== undefined) {
      const pair = inspectTlsPair({ cert, key }, nowMs, section);
      problems.push(...pair.problems);
      warnings.push(...pair.warnings);
      if (pair.expiresMs !== undefined) expiries.set('cert', pair.expiresMs);
    }
    const caExpiresMs = ca === undefined ? undefined : lastExpiryOf(ca);
    if (ca !== undefined && caExpiresMs === undefined)
      problems.push({ at: 'ca', message: 'holds no certificates in PEM form' });
    if (caExpiresMs !== undefined) {
      expiries.set('ca', caExpiresMs);
      warnings.push(...expiryWarnings(caExpiresMs, nowMs, `${section}.ca`));
    }
    if (problems.length > 0) return { expiries, problems, texts, warnings };
    try {
      const { serverName } = config;
      const material = {
        secureContext: createSecureContext({ ca, cert, key, minVersion: 'TLSv1.2' }),
        ...(serverName === undefined ? {} : { servername: serverName }),
      };
      return { material, expiries, problems, texts, warnings };
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? 'TLS refuses it';
      const at = config.cert === undefined ? 'ca' : 'cert';
      return { expiries, problems: [{ at, message: `cannot be used: ${code}` }], texts, warnings };
    }
  }

  /** Problems and warnings about all files toward nodes and Redis. */
  static check({ config, whereIs }: Pick<LoadedConfig, 'config' | 'whereIs'>): {
    readonly problems: readonly Problem[];
    readonly warnings: readonly string[];
  } {
    const nowMs = Date.now();
    const inspected = sectionsOf(config).map(([path, tls]) => {
      const { problems, warnings } = ClientTls.read(tls, nowMs, ConfigError.formatPath(path));
      return { problems: placeFaults(problems, path, whereIs), warnings };
    });
    return {
      problems: inspected.flatMap(({ problems }) => problems),
      warnings: inspected.flatMap(({ warnings }) => warnings),
    };
  }
}

function sectionsOf({ upstreams, cache, access }: Config): readonly (readonly [KeyPath, ClientTlsConfig])[] {
  const all: readonly (readonly [KeyPath, ClientTlsConfig | undefined])[] = [
    ...upstreams.map(({ tls }, index) => [['upstreams', index, 'tls'], tls] as const),
    [['cache', 'redis', 'tls'], cache.redis?.tls],
    [['access', 'redis', 'tls'], access?.redis?.tls],
  ];
  return all.flatMap(([path, tls]) => (tls === undefined ? [] : [[path, tls] as const]));
}

/** Why these contents must not replace others, whose `expiries` these are; `undefined`: they may. */
function refusalOf(
  { material, problems, expiries: next, warnings }: InspectedClientTls,
  expiries: InspectedClientTls['expiries'],
  nowMs: number,
): string | undefined {
  if (material === undefined) return faultsOf(problems);
  const isEnded = (ends: Iterable<number>): boolean => [...ends].some((expiresMs) => expiresMs <= nowMs);
  // Expired ones must not replace valid ones.
  return isEnded(next.values()) && !isEnded(expiries.values()) ? warnings.join('; ') : undefined;
}

function faultsOf(problems: readonly TlsFault[]): string {
  return problems.map(({ at, message }) => `tls.${at}: ${message}`).join('; ');
}

/** End of the last certificate of a bundle to expire, Unix time in ms; `undefined`: one of them is unreadable. */
function lastExpiryOf(bundle: string): number | undefined {
  const texts = bundle.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  try {
    const ends = texts.map((text) => new X509Certificate(text).validToDate.getTime());
    return ends.length === 0 ? undefined : Math.max(...ends);
  } catch {
    return undefined;
  }
}
