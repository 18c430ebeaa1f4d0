/** Ledger versions: u64, one per transaction. */
import { GatewayError, quote } from './errors.ts';

declare const brand: unique symbol;

/** A u64. Always bigint, because a JavaScript number loses digits above 2^53. */
export type LedgerVersion = bigint & { readonly [brand]: 'LedgerVersion' };

/** The largest u64. */
export const maxU64 = 2n ** 64n - 1n;

/** Makes versions of texts and numbers. */
export const LedgerVersion = {
  /** Parses a u64 as nodes do: decimal, an optional leading `+`, leading zeros allowed (protocol 4.3). Throws `GatewayError` 400. */
  parse(text: string): LedgerVersion {
    const version = findU64(text);
    if (version !== undefined) return version as LedgerVersion;
    throw new GatewayError('malformed', `failed to parse parameter ledger_version: ${quote(text)} is not a u64`);
  },

  /** For versions that are u64 by construction (a minimum of two versions, a prediction). Throws `RangeError`. */
  of(value: bigint): LedgerVersion {
    if (value < 0n || value > maxU64) throw new RangeError(`not a u64: ${value}`);
    return value as LedgerVersion;
  },
} as const;

/** The u64 that `text` spells, or `undefined`. */
export function findU64(text: string): bigint | undefined {
  // Most are below 2^53, where a number keeps every digit, and costs a third.
  if (text.length <= safeDigits && onlyDigits.test(text)) return BigInt(Number(text));
  // A first digit that is no zero leaves one way to read the zeros: megabytes of them cost no seconds.
  const significant = /^\+?0*([1-9]\d{0,19}|0)$/.exec(text)?.[1];
  if (significant === undefined) return undefined;
  const value = BigInt(significant);
  return value <= maxU64 ? value : undefined;
}

/** Every number of so many digits is a safe integer. */
const safeDigits = 15;
const onlyDigits = /^\d+$/;

/** `path`, which may have a query, pinned to `version`. */
export function withVersion(path: string, version: LedgerVersion | undefined): string {
  if (version === undefined) return path;
  return `${path}${path.includes('?') ? '&' : '?'}ledger_version=${version}`;
}
