/**
 * The demand of a client on the age and the version of "latest": by its headers, and else the bound of its plan, of an
 * override, or of the config (docs/consistency.md).
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { AdmittedRequest } from '../../access/index.ts';
import { type StalenessOverride, StalenessOverrides } from '../../config/index.ts';
import { findU64, GatewayError, type LedgerVersion, quote } from '../../ledger/index.ts';
import type { Demand } from '../../upstream/index.ts';

/** Bounds of the config, live: a reload replaces the list of overrides. */
export interface StalenessSettings {
  /** The bound where no plan and no override has one. */
  readonly maxStalenessMs: number;
  readonly overrides: readonly StalenessOverride[];
  /** Limits of `Ledgergate-Max-Staleness`. */
  readonly minClientStalenessMs: number;
  readonly maxClientStalenessMs: number;
}

/** A plan as far as it bounds staleness. */
export type BoundingPlan = Pick<AdmittedRequest['principal']['plan'], 'name' | 'maxStalenessMs'>;

/** A read, or another request for the latest state. */
export interface BoundedRead {
  /** Name of its route, as metrics label it; reads of state have it as their operation. */
  readonly operation: string;
  /** Canonical; that of a view in JSON begins with its function. Absent: the body was not read. */
  readonly subject?: string | undefined;
  /** The override that matches, stored here because a cached target's requests share one read. */
  matched?: { readonly list: readonly StalenessOverride[]; readonly override: StalenessOverride | undefined };
}

/** A bound and its origin, such as `access.plans.free`. */
export interface ExplainedBound {
  readonly maxStalenessMs: number;
  readonly by: string;
}

type HeaderLimits = Pick<StalenessSettings, 'minClientStalenessMs' | 'maxClientStalenessMs'>;

/** `seen`: by the connection. `usualMs`: without a header. Throws `GatewayError` 400 for malformed headers. */
export function parseDemand(
  headers: IncomingHttpHeaders,
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

/** In ms, without a header: the smaller of the plan's and the override's, or the default. */
export function usualBound(
  { overrides, maxStalenessMs }: StalenessSettings,
  read: BoundedRead | undefined,
  plan: BoundingPlan | undefined,
): number {
  const ofPlan = plan?.maxStalenessMs;
  const ofRead = overrides.length === 0 || read === undefined ? undefined : overrideOf(read, overrides)?.maxStalenessMs;
  if (ofRead === undefined) return ofPlan ?? maxStalenessMs;
  return ofPlan === undefined || ofRead < ofPlan ? ofRead : ofPlan;
}

/** `usualBound`, with the key of the config that it comes from. */
export function explainBound(
  settings: StalenessSettings,
  read: BoundedRead,
  plan: BoundingPlan | undefined,
): ExplainedBound {
  const { overrides } = settings;
  const maxStalenessMs = usualBound(settings, read, plan);
  if (plan?.maxStalenessMs === maxStalenessMs) return { maxStalenessMs, by: `access.plans.${plan.name}` };
  const override = overrideOf(read, overrides);
  const by = override === undefined ? 'latest.maxStaleness' : StalenessOverrides.textOf(overrides, override);
  return { maxStalenessMs, by };
}

function overrideOf(read: BoundedRead, list: readonly StalenessOverride[]): StalenessOverride | undefined {
  const { matched, operation, subject } = read;
  if (matched?.list === list) return matched.override;
  const called = operation === 'view' && subject !== undefined ? calledIn.exec(subject)?.[1] : undefined;
  const override = StalenessOverrides.find(list, operation, called);
  read.matched = { list, override };
  return override;
}

/** The function of a canonical view (proxy/routes: canonical-body.ts); other views have a digest as their subject. */
const calledIn = /^json:\{"function":"([^"]+)"/;
