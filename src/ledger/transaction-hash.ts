/** Transaction hashes: 32 bytes, always written in full (protocol 4.3). */
import { GatewayError, quote } from './errors.ts';

declare const brand: unique symbol;

/** `0x` and 64 lowercase hex digits. */
export type TransactionHash = string & { readonly [brand]: 'TransactionHash' };

/** Parses a path's hash: `0x` optional, exactly 64 hex digits in any case. */
export function parseTransactionHash(text: string): TransactionHash {
  const hex = /^(?:0x)?([0-9a-fA-F]{64})$/.exec(text)?.[1];
  if (hex === undefined) {
    throw new GatewayError('malformed', `failed to parse path txn_hash: ${quote(text)} is not 64 hex digits`);
  }
  return `0x${hex.toLowerCase()}` as TransactionHash;
}
