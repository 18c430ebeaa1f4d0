/** The PEM files that a section of the config names: read, inspected, and their problems placed in the config file. */
import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { ExpiringFile, FileTexts, SharedFiles } from '../metrics/index.ts';
import type { ClientTlsConfig, Config } from './config.ts';
import type { LoadedConfig } from './source/load.ts';
import { ConfigError, type KeyPath, type Problem } from './source/problem.ts';
import { WatchedFiles } from './source/watched-files.ts';

/** Options of a TLS connection. `servername`: asked for and checked; absent: the host of the address. */
export interface TlsMaterial {
  readonly secureContext: SecureContext;
  readonly servername?: string;
}

/** A fault of a file, by its key in the section of the config. */
interface TlsFault {
  readonly at: 'ca' | 'cert' | 'key';
  readonly message: string;
}

interface InspectedTls {
  /** Absent when there is a problem. */
  readonly material?: TlsMaterial;
  /** Unix time in ms. */
  readonly expiries: ReadonlyMap<ExpiringFile, number>;
  readonly problems: readonly TlsFault[];
  readonly texts: FileTexts;
  /** The files work, and the other side refuses them, or fails their check, now or soon. */
  readonly warnings: readonly string[];
}

type UsableTls = InspectedTls & Required<Pick<InspectedTls, 'material'>>;

const dayMs = 24 * 60 * 60 * 1000;
/** Renewals run weeks before expiry: one this near has failed. */
const soonMs = 7 * dayMs;

/** Files of one section. `section`: its name in messages, which quote nothing of the files; `nowMs`: Unix time. */
export const TlsFiles = {
  /** Reads and inspects the files. Never throws. */
  read(config: ClientTlsConfig, nowMs: number, section: string): InspectedTls {
    const problems: TlsFault[] = [];
    const read = (at: TlsFault['at']): string | undefined => {
      const name = config[at];
      try {
        return name === undefined ? undefined : WatchedFiles.read(name);
      } catch (error) {
        problems.push({ at, message: error instanceof Error ? error.message : String(error) });
        return undefined;
      }
    };
    return inspect(config, { ca: read('ca'), cert: read('cert'), key: read('key') }, nowMs, section, problems);
  },

  /**
   * The files at the start. `used`: the contents of the other processes, with the reason, where those of the files must not
   * replace them. Throws when neither can be used.
   */
  open(config: ClientTlsConfig, shared: SharedFiles | undefined, nowMs: number, section: string) {
    const found = TlsFiles.read(config, nowMs, section);
    const texts = shared?.find(config);
    const kept = texts && inspect(config, texts, nowMs, section);
    const refusal = kept?.material && TlsFiles.refusalOf(found, kept.expiries, nowMs, section);
    const used = kept === undefined || refusal === undefined ? found : kept;
    if (!isUsable(used)) throw new Error(faultsOf(found, section));
    return { used, refusal };
  },

  /** Why these contents must not replace others, whose `expiries` these are; `undefined`: they may. */
  refusalOf(
    next: InspectedTls,
    expiries: InspectedTls['expiries'],
    nowMs: number,
    section: string,
  ): string | undefined {
    if (!isUsable(next)) return faultsOf(next, section);
    const isEnded = (ends: Iterable<number>): boolean => [...ends].some((expiresMs) => expiresMs <= nowMs);
    // Expired ones must not replace valid ones.
    return isEnded(next.expiries.values()) && !isEnded(expiries.values()) ? next.warnings.join('; ') : undefined;
  },

  /**
   * Problems and warnings about the certificate and the ciphers for clients (`listen`), or about all files toward nodes and
   * Redis (`servers`). `expired`: certificates that are used all the same, and that the other side refuses.
   */
  check({ config, whereIs }: Pick<LoadedConfig, 'config' | 'whereIs'>, of: 'listen' | 'servers') {
    const nowMs = Date.now();
    const inspected = sectionsOf(config, of).map(([section, files]) => {
      const { material, problems, warnings, expiries } = TlsFiles.read(files, nowMs, ConfigError.formatPath(section));
      const place = ({ at, message }: TlsFault): Problem => {
        const path = [...section, at];
        return { path, message, where: whereIs(path) };
      };
      const expiresMs = expiries.get('cert') ?? Infinity;
      const expired: TlsFault[] =
        material === undefined || expiresMs > nowMs
          ? []
          : [{ at: 'cert', message: `expired at ${new Date(expiresMs).toISOString()}` }];
      return { problems: problems.map(place), warnings, expired: expired.map(place) };
    });
    const weaknesses = of === 'servers' ? [] : weaknessesOf(config.listen.tls?.ciphers ?? []);
    return {
      problems: inspected.flatMap(({ problems }) => problems),
      warnings: [...inspected.flatMap(({ warnings }) => warnings), ...weaknesses],
      expired: inspected.flatMap(({ expired }) => expired),
    };
  },
} as const;

function isUsable(inspected: InspectedTls): inspected is UsableTls {
  return inspected.material !== undefined;
}

function faultsOf({ problems }: InspectedTls, section: string): string {
  return problems.map(({ at, message }) => `${section}.${at}: ${message}`).join('; ');
}

function sectionsOf({ listen, upstreams, cache, access }: Config, of: 'listen' | 'servers') {
  const servers: readonly (readonly [KeyPath, ClientTlsConfig | undefined])[] = [
    ...upstreams.map(({ tls }, index) => [['upstreams', index, 'tls'], tls] as const),
    [['cache', 'redis', 'tls'], cache.redis?.tls],
    [['access', 'redis', 'tls'], access?.redis?.tls],
  ];
  const all = of === 'servers' ? servers : [[['listen', 'tls'], listen.tls] as const];
  return all.flatMap(([path, tls]) => (tls === undefined ? [] : [[path, tls] as const]));
}

function weaknessesOf(ciphers: readonly string[]): readonly string[] {
  return ciphers.flatMap((name) => {
    const lacks: string[] = [];
    if (!/^(?:TLS_|ECDHE-|DHE-)/i.test(name)) lacks.push('forward secrecy');
    if (!/GCM|POLY1305|CCM/i.test(name)) lacks.push('authenticated encryption');
    return lacks.length === 0 ? [] : [`listen.tls.ciphers: ${name} has no ${lacks.join(' and no ')}`];
  });
}

/** Inspects the contents of the files, without I/O. `problems`: of those that could not be read. */
function inspect(
  { serverName }: ClientTlsConfig,
  texts: FileTexts,
  nowMs: number,
  section: string,
  problems: TlsFault[] = [],
): InspectedTls {
  const { ca, cert, key } = texts;
  const expiries = new Map<ExpiringFile, number>();
  const warnings: string[] = [];
  if (cert !== undefined && key !== undefined) {
    const pair = inspectPair(cert, key, nowMs, section);
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
    // Detects a short key, and a broken chain behind the first certificate.
    const secureContext = createSecureContext({ ca, cert, key, minVersion: 'TLSv1.2' });
    const material = { secureContext, ...(serverName === undefined ? {} : { servername: serverName }) };
    return { material, expiries, problems, texts, warnings };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'TLS refuses it';
    const fault: TlsFault =
      cert === undefined
        ? { at: 'ca', message: `cannot be used: ${code}` }
        : { at: 'cert', message: `cannot be served with: ${code}` };
    return { expiries, problems: [fault], texts, warnings: [] };
  }
}

function inspectPair(certText: string, keyText: string, nowMs: number, section: string) {
  const cert = findCertificate(certText);
  const key = findKey(keyText);
  const problems: TlsFault[] = [];
  if (cert === undefined) problems.push({ at: 'cert', message: 'holds no certificate in PEM form' });
  if (key === undefined) problems.push({ at: 'key', message: 'holds no private key in PEM form without a passphrase' });
  if (cert === undefined || key === undefined) return { problems, warnings: [] };
  const expiresMs = cert.validToDate.getTime();
  if (cert.checkPrivateKey(key)) return { expiresMs, problems, warnings: warningsOf(cert, nowMs, `${section}.cert`) };
  problems.push({ at: 'key', message: `is not the key of ${section}.cert's first certificate` });
  return { expiresMs, problems, warnings: [] };
}

/** `name`: the certificate's key in the config. */
function warningsOf({ validFromDate, validToDate }: X509Certificate, nowMs: number, name: string): readonly string[] {
  if (validFromDate.getTime() > nowMs && validToDate.getTime() > nowMs)
    return [`${name} is not valid before ${validFromDate.toISOString()}`];
  return expiryWarnings(validToDate.getTime(), nowMs, name);
}

/** A warning about an end that has passed, or comes within a week; none otherwise. `name`: key in the config. */
export function expiryWarnings(expiresMs: number, nowMs: number, name: string): readonly string[] {
  const leftMs = expiresMs - nowMs;
  const ends = new Date(expiresMs).toISOString();
  if (leftMs <= 0) return [`${name} expired at ${ends}`];
  if (leftMs > soonMs) return [];
  return [`${name} expires at ${ends}, in less than ${Math.ceil(leftMs / dayMs)} day(s)`];
}

function findCertificate(text: string): X509Certificate | undefined {
  try {
    // X509Certificate also accepts DER, which TLS refuses later.
    return text.includes('-----BEGIN') ? new X509Certificate(text) : undefined;
  } catch {
    return undefined;
  }
}

function findKey(text: string): KeyObject | undefined {
  try {
    return createPrivateKey(text);
  } catch {
    return undefined;
  }
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
