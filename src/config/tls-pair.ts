/** Whether a certificate and a private key are fit to be served with. */
import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import type { TlsFiles } from './config.ts';
import { readText } from './source/text-file.ts';

/** PEM texts. */
export interface TlsPair {
  readonly cert: string;
  readonly key: string;
}

export interface TlsProblem {
  readonly at: keyof TlsFiles;
  readonly message: string;
}

export interface InspectedPair {
  /** Missing when there is a problem. */
  readonly pair?: TlsPair;
  /** When the certificate ends, Unix time in milliseconds; where it can be read. */
  readonly expiresMs?: number;
  readonly problems: readonly TlsProblem[];
  /** Of a pair that can be served with, and that clients refuse, or soon will. */
  readonly warnings: readonly string[];
}

const dayMs = 24 * 60 * 60 * 1000;
/** Renewals happen weeks before the end: who is this near has none that works. */
const soonMs = 7 * dayMs;

/** Reads both files and says what is wrong with them. Never throws. */
export function readTlsPair(files: TlsFiles, nowMs: number): InspectedPair {
  const problems: TlsProblem[] = [];
  const read = (at: keyof TlsFiles): string => {
    try {
      return readText(files[at]);
    } catch (error) {
      problems.push({ at, message: error instanceof Error ? error.message : String(error) });
      return '';
    }
  };
  const pair = { cert: read('cert'), key: read('key') };
  return problems.length > 0 ? { problems, warnings: [] } : inspectTlsPair(pair, nowMs);
}

/** Without I/O. Texts never come back in a message: one of them is a secret. */
export function inspectTlsPair(pair: TlsPair, nowMs: number): InspectedPair {
  const cert = findCertificate(pair.cert);
  const key = findKey(pair.key);
  const problems: TlsProblem[] = [];
  if (cert === undefined) problems.push({ at: 'cert', message: 'holds no certificate in PEM form' });
  if (key === undefined) problems.push({ at: 'key', message: 'holds no private key in PEM form without a passphrase' });
  if (cert === undefined || key === undefined) return { problems, warnings: [] };
  const expiresMs = cert.validToDate.getTime();
  if (!cert.checkPrivateKey(key)) {
    const message = "is not the key of listen.tls.cert's first certificate";
    return { expiresMs, problems: [{ at: 'key', message }], warnings: [] };
  }
  const fault = faultOfContext(pair);
  if (fault !== undefined) return { expiresMs, problems: [{ at: 'cert', message: fault }], warnings: [] };
  return { pair, expiresMs, problems: [], warnings: warningsOf(cert, nowMs) };
}

function warningsOf({ validFromDate, validToDate }: X509Certificate, nowMs: number): readonly string[] {
  const leftMs = validToDate.getTime() - nowMs;
  if (leftMs <= 0) return [`listen.tls.cert expired at ${validToDate.toISOString()}`];
  if (validFromDate.getTime() > nowMs) return [`listen.tls.cert is not valid before ${validFromDate.toISOString()}`];
  if (leftMs > soonMs) return [];
  return [`listen.tls.cert expires at ${validToDate.toISOString()}, in less than ${Math.ceil(leftMs / dayMs)} day(s)`];
}

function findCertificate(text: string): X509Certificate | undefined {
  try {
    // DER would be read as well, and refused later by TLS.
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

/** What TLS itself refuses: a key that is too short, a broken certificate behind the first. */
function faultOfContext({ cert, key }: TlsPair): string | undefined {
  try {
    createSecureContext({ cert, key });
    return undefined;
  } catch (error) {
    return `cannot be served with: ${(error as NodeJS.ErrnoException).code ?? 'TLS refuses it'}`;
  }
}
