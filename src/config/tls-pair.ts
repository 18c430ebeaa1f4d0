/** The certificate and its key: read, inspected, and their problems placed in the config file. */
import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import type { FileTexts } from '../metrics/index.ts';
import type { Config } from './config.ts';
import type { LoadedConfig } from './source/load.ts';
import type { KeyPath, Problem } from './source/problem.ts';
import { WatchedFiles } from './source/watched-files.ts';

/** PEM texts. */
export interface TlsPair {
  readonly cert: string;
  readonly key: string;
}

/** Absolute names of PEM files. */
type TlsFiles = Pick<NonNullable<Config['listen']['tls']>, 'cert' | 'key'>;

/** A fault of a file, by its key in the section of the config. */
export interface TlsFault {
  readonly at: 'ca' | 'cert' | 'key';
  readonly message: string;
}

interface InspectedPair {
  /** Absent when there is a problem. */
  readonly pair?: TlsPair;
  /** Expiry of the certificate, Unix time in ms; absent when it is unreadable. */
  readonly expiresMs?: number;
  readonly problems: readonly TlsFault[];
  /** The pair works, and clients refuse it now or soon. */
  readonly warnings: readonly string[];
}

const dayMs = 24 * 60 * 60 * 1000;
/** Renewals run weeks before expiry: one this near has failed. */
const soonMs = 7 * dayMs;

/** Reads and inspects pairs. */
export const TlsPair = {
  /** Reads and inspects both files. Never throws. `nowMs`: Unix time. */
  read(files: TlsFiles, nowMs: number): InspectedPair {
    const { cert = '', key = '', problems } = readPem({ cert: files.cert, key: files.key });
    return problems.length > 0 ? { problems, warnings: [] } : inspectTlsPair({ cert, key }, nowMs);
  },

  /** Inspects the contents of both files, which a process that serves them has published. */
  inspect({ cert = '', key = '' }: FileTexts, nowMs: number): InspectedPair {
    return inspectTlsPair({ cert, key }, nowMs);
  },

  /** Problems and warnings about the certificate and the ciphers that the config names; none without TLS. */
  check({ config, whereIs }: Pick<LoadedConfig, 'config' | 'whereIs'>): {
    readonly problems: readonly Problem[];
    readonly warnings: readonly string[];
    /** The gateway serves an expired certificate, and clients refuse it. */
    readonly expired: readonly Problem[];
  } {
    const { tls } = config.listen;
    if (tls === undefined) return { problems: [], warnings: [], expired: [] };
    const nowMs = Date.now();
    const { problems, warnings, expiresMs = nowMs + 1 } = TlsPair.read(tls, nowMs);
    const isExpired = problems.length === 0 && expiresMs <= nowMs;
    const expired: TlsFault = { at: 'cert', message: `expired at ${new Date(expiresMs).toISOString()}` };
    return {
      problems: placeFaults(problems, ['listen', 'tls'], whereIs),
      warnings: [...warnings, ...weaknessesOf(tls.ciphers)],
      expired: placeFaults(isExpired ? [expired] : [], ['listen', 'tls'], whereIs),
    };
  },
} as const;

/** The texts of PEM files, by their keys in the config, and faults of those that cannot be read. */
export function readPem(files: { readonly [At in TlsFault['at']]?: string | undefined }) {
  const problems: TlsFault[] = [];
  const read = (at: TlsFault['at']): string | undefined => {
    const name = files[at];
    try {
      return name === undefined ? undefined : WatchedFiles.read(name);
    } catch (error) {
      problems.push({ at, message: error instanceof Error ? error.message : String(error) });
      return undefined;
    }
  };
  return { ca: read('ca'), cert: read('cert'), key: read('key'), problems };
}

/** The faults of a section's files as problems of the config. */
export function placeFaults(faults: readonly TlsFault[], section: KeyPath, whereIs: LoadedConfig['whereIs']) {
  return faults.map(({ at, message }): Problem => {
    const path = [...section, at];
    return { path, message, where: whereIs(path) };
  });
}

function weaknessesOf(ciphers: readonly string[]): readonly string[] {
  return ciphers.flatMap((name) => {
    const lacks: string[] = [];
    if (!/^(?:TLS_|ECDHE-|DHE-)/i.test(name)) lacks.push('forward secrecy');
    if (!/GCM|POLY1305|CCM/i.test(name)) lacks.push('authenticated encryption');
    return lacks.length === 0 ? [] : [`listen.tls.ciphers: ${name} has no ${lacks.join(' and no ')}`];
  });
}

/** Inspects PEM texts, without I/O. No message quotes them: the key is a secret. `section`: of the config. */
export function inspectTlsPair(pair: TlsPair, nowMs: number, section = 'listen.tls'): InspectedPair {
  const cert = findCertificate(pair.cert);
  const key = findKey(pair.key);
  const problems: TlsFault[] = [];
  if (cert === undefined) problems.push({ at: 'cert', message: 'holds no certificate in PEM form' });
  if (key === undefined) problems.push({ at: 'key', message: 'holds no private key in PEM form without a passphrase' });
  if (cert === undefined || key === undefined) return { problems, warnings: [] };
  const expiresMs = cert.validToDate.getTime();
  if (!cert.checkPrivateKey(key)) {
    const message = `is not the key of ${section}.cert's first certificate`;
    return { expiresMs, problems: [{ at: 'key', message }], warnings: [] };
  }
  const fault = faultOfContext(pair);
  if (fault !== undefined) return { expiresMs, problems: [{ at: 'cert', message: fault }], warnings: [] };
  return { pair, expiresMs, problems: [], warnings: warningsOf(cert, nowMs, `${section}.cert`) };
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

/** Faults that TLS alone detects: a short key, a broken chain behind the first certificate. */
function faultOfContext({ cert, key }: TlsPair): string | undefined {
  try {
    createSecureContext({ cert, key });
    return undefined;
  } catch (error) {
    return `cannot be served with: ${(error as NodeJS.ErrnoException).code ?? 'TLS refuses it'}`;
  }
}
