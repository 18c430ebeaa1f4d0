/** The first 32 bytes of a signing message: they name the kind of the signed message, and the ledger's domain. */
import { hash } from 'node:crypto';

/** The prefixes of one signing domain, each `sha3_256("{domain}::{label}")`, 32 bytes (protocol 5.7). */
export interface SigningPrefixes {
  /** Before a RawTransaction. */
  readonly plain: Uint8Array;
  /** Before a RawTransactionWithData: multi-agent. */
  readonly withData: Uint8Array;
}

/** Computes both; do it once for a domain, requests need no hash. Aptos ledgers use the domain `APTOS`. */
export function signingPrefixes(domain: string): SigningPrefixes {
  return { plain: sha3(`${domain}::RawTransaction`), withData: sha3(`${domain}::RawTransactionWithData`) };
}

function sha3(label: string): Uint8Array {
  return hash('sha3-256', label, 'buffer');
}
