/** The demand of a client on the age and the version of "latest", by its headers (docs/consistency.md). */
import { findU64, GatewayError, type LedgerVersion, quote } from '../../ledger/index.ts';
import type { Demand } from '../../upstream/index.ts';
import type { DemandSource } from './read.ts';
import type { StalenessSettings } from './staleness.ts';

type HeaderLimits = Pick<StalenessSettings, 'minClientStalenessMs' | 'maxClientStalenessMs'>;

/**
 * Parses the demand of a connection that received version `seen`, of a client with this floor. `usualMs`: the bound where
 * the headers have none. Throws `GatewayError` 400 for malformed headers.
 */
export function parseDemand(
  headers: DemandSource['headers'],
  limits: HeaderLimits,
  usualMs: number,
  seen: LedgerVersion | undefined,
  floor?: LedgerVersion,
): Demand {
  const version = headers['ledgergate-min-version'];
  const staleness = headers['ledgergate-max-staleness'];
  const asked = version === undefined ? undefined : parseMinVersion(String(version));
  return {
    maxStalenessMs: staleness === undefined ? usualMs : parseBound(String(staleness), limits),
    min: asked === undefined || (seen !== undefined && seen > asked) ? seen : asked,
    floor,
  };
}

const unitMs = { ms: 1, s: 1_000, m: 60_000 } as const;

/** Parses `0`, `200ms`, `2s`, `1m`, and clamps it to the config's limits. Throws `GatewayError` 400. */
export function parseBound(text: string, { minClientStalenessMs, maxClientStalenessMs }: HeaderLimits): number {
  const [, number = '', unit] = /^(\d{1,9})(ms|s|m)?$/.exec(text.trim()) ?? [];
  if (number === '' || (unit === undefined && Number(number) !== 0)) {
    const fault = `Ledgergate-Max-Staleness is no duration such as 200ms or 2s: ${quote(text)}`;
    throw new GatewayError('invalidInput', fault);
  }
  const boundMs = Number(number) * (unit === undefined ? 1 : unitMs[unit as keyof typeof unitMs]);
  return Math.min(Math.max(boundMs, minClientStalenessMs), maxClientStalenessMs);
}

function parseMinVersion(text: string): LedgerVersion {
  const version = findU64(text);
  if (version !== undefined) return version as LedgerVersion;
  throw new GatewayError('invalidInput', `Ledgergate-Min-Version is not a u64: ${quote(text)}`);
}
