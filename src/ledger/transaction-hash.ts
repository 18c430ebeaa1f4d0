/** Hashes of transactions: 32 bytes in hexadecimal digits. */
import { GatewayError, quote } from './errors.ts';

const written = /^0x[\da-f]{64}$/;

/** A hash is a text: as nodes write it, and as clients may. */
export const TransactionHash = {
  /** Whether it has the form in which nodes write hashes: lowercase with prefix. */
  isWritten(value: unknown): value is string {
    return typeof value === 'string' && written.test(value);
  },

  /** Parses a path's hash: `0x` optional, 64 hex digits in any case; as nodes write it. Throws `GatewayError` 400. */
  parse(text: string): string {
    const hex = /^(?:0x)?([\da-fA-F]{64})$/.exec(text)?.[1];
    if (hex !== undefined) return `0x${hex.toLowerCase()}`;
    throw new GatewayError('malformed', `failed to parse path txn_hash: ${quote(text)} is not 64 hex digits`);
  },
} as const;
