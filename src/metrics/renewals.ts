/**
 * Renewals of what the gateway's own connections show and trust: headers of nodes, users of Redis, certificates. New ones
 * are tried before they are used, and the ones before stay in use meanwhile.
 */
import type { Registry } from 'prom-client';
import { Counter, Gauge } from './family.ts';
import type { Journal } from './journal.ts';

/** `files`: PEM files, as they were read. `credentials`: a trial at the server, with new headers, user or certificate. */
type RenewalStep = 'files' | 'credentials';
/** A PEM file with an end: the client certificate, or the last of the authorities to expire. */
export type ExpiringFile = 'cert' | 'ca';

const servers = 'name of an upstream, `cache.redis` or `access.redis`';

/** Contents of files, by their keys in the section of the config that names them; `jwks`: also from an address. */
export type FileTexts = Readonly<Partial<Record<'ca' | 'cert' | 'key' | 'keys' | 'jwks', string | undefined>>>;

/** The files of a gateway's processes: one that starts while a file cannot be used has the contents of the others. */
export class SharedFiles {
  readonly #kept: Map<string, FileTexts>;
  readonly #publish: (section: string, texts: FileTexts) => void;

  /** `kept`: contents that were in use when this process started, by the section that names the files, as JSON. */
  constructor(kept: Map<string, FileTexts>, publish: (section: string, texts: FileTexts) => void) {
    this.#kept = kept;
    this.#publish = publish;
  }

  /** Contents that other processes used at the start of the files that this section of the config names. */
  find(section: object): FileTexts | undefined {
    return this.#kept.get(JSON.stringify(section));
  }

  /** These contents of the files are in use: earlier ones must not come back. */
  keep(section: object, texts: FileTexts): void {
    const name = JSON.stringify(section);
    this.#kept.delete(name);
    this.#publish(name, texts);
  }
}

/** The record of renewals. `toward`: the name of an upstream, `cache.redis` or `access.redis`. */
export class Renewals {
  /** Absent in a single process. */
  readonly files: SharedFiles | undefined;
  readonly #journal: Journal;
  readonly #renewed: Counter<{ readonly toward: string; readonly result: readonly ['applied', 'refused'] }>;
  /** Reasons of renewals that are not in use, by server and step. */
  readonly #pending = new Map<string, Map<RenewalStep, string>>();
  /** Unix time in ms, by server and file. */
  readonly #expiries = new Map<string, ReadonlyMap<ExpiringFile, number>>();

  constructor(registry: Registry, journal: Journal, files?: SharedFiles) {
    this.files = files;
    this.#journal = journal;
    this.#renewed = new Counter(registry, {
      name: 'ledgergate_renewals_total',
      help: 'Renewed headers, users and certificates of the own connections, by result: applied, refused (the ones before stay in use).',
      labels: { toward: servers, result: ['applied', 'refused'] },
    });
    new Gauge(registry, {
      name: 'ledgergate_renewal_pending',
      help: '1 while renewed headers, users or certificates toward this server cannot be used, and the ones before are; 0 otherwise.',
      labels: { toward: servers },
      join: 'max',
      read: () => [...this.#pending].map(([toward, steps]) => [{ toward }, Number(steps.size > 0)] as const),
    });
    new Gauge(registry, {
      name: 'ledgergate_client_certificate_expiry_timestamp_seconds',
      help: 'When the certificate that this server is shown (cert), or the last authority trusted for it (ca), ends, Unix time; the earliest of all workers.',
      labels: { toward: servers, file: ['cert', 'ca'] },
      join: 'min',
      read: () =>
        [...this.#expiries].flatMap(([toward, files]) =>
          [...files].map(([file, ms]) => [{ toward, file }, ms / 1000] as const),
        ),
    });
  }

  /** A server whose credentials or certificates may be renewed; its series begin. */
  add(toward: string): void {
    if (!this.#pending.has(toward)) this.#pending.set(toward, new Map());
  }

  /** The server is left; its series end. */
  forget(toward: string): void {
    this.#pending.delete(toward);
    this.#expiries.delete(toward);
    this.#renewed.remove((labels) => labels.toward === toward);
  }

  /** Servers whose renewals are not in use, each with the reasons. */
  get pending(): readonly string[] {
    return [...this.#pending].flatMap(([toward, steps]) =>
      steps.size === 0 ? [] : [`${toward}: ${[...steps.values()].join('; ')}`],
    );
  }

  /**
   * Contents are in use, or the config names no files. `expiries`: ends of certificates, Unix time in ms. `refusal`: see
   * `refuse`; without one, a refusal is over.
   */
  useFiles(toward: string, expiries: ReadonlyMap<ExpiringFile, number> = new Map(), refusal?: string): void {
    this.#expiries.set(toward, expiries);
    if (refusal === undefined) this.#pending.get(toward)?.delete('files');
    else this.refuse(toward, 'files', refusal);
  }

  /** New ones are not used: `why` names no secret. Each reason is recorded once. */
  refuse(toward: string, step: RenewalStep, why: string): void {
    this.add(toward);
    const steps = this.#pending.get(toward);
    if (steps === undefined || steps.get(step) === why) return;
    steps.set(step, why);
    this.#renewed.inc({ toward, result: 'refused' });
    this.#journal.record(
      'renewal refused',
      { toward, why },
      'renewed credentials refused: the ones before stay in use',
    );
  }

  /** A trial has succeeded, and the new ones are in use. */
  take(toward: string): void {
    this.add(toward);
    this.#pending.get(toward)?.delete('credentials');
    this.#renewed.inc({ toward, result: 'applied' });
    this.#journal.record('renewed', { toward }, 'renewed credentials are in use');
  }
}
