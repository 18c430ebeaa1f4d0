/** TLS ciphers by their OpenSSL names. */
import { getCiphers } from 'node:tls';

/** Ciphers with forward secrecy and authenticated encryption (RFC 9325 4.2), best first; no CBC, no RSA key exchange. */
export const defaultCiphers: readonly string[] = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
];

/** Whether this build of OpenSSL has a cipher of that name. */
export function isCipher(name: string): boolean {
  known ??= new Set(getCiphers());
  return known.has(name.toLowerCase());
}

/** Lower case; filled by the first check. */
let known: ReadonlySet<string> | undefined;

/** A warning for each cipher without forward secrecy or authenticated encryption. */
export function weaknessesOf(ciphers: readonly string[]): readonly string[] {
  return ciphers.flatMap((name) => {
    const lacks: string[] = [];
    if (!/^(?:TLS_|ECDHE-|DHE-)/i.test(name)) lacks.push('forward secrecy');
    if (!/GCM|POLY1305|CCM/i.test(name)) lacks.push('authenticated encryption');
    return lacks.length === 0 ? [] : [`listen.tls.ciphers: ${name} has no ${lacks.join(' and no ')}`];
  });
}
