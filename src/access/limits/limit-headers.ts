/**
 * `RateLimit` and `RateLimit-Policy` as in draft-ietf-httpapi-ratelimit-headers (structured fields; written to -10): a
 * policy for each bound over time, under the bound's name. Both are on answers and on refusals.
 */
import { burstMs } from './account.ts';
import type { Bounds, BoundStanding } from './counter.ts';

/** Flat, as Node takes them. Empty where nothing over time is bounded. */
export function limitHeaders(bounds: Bounds, standings: readonly BoundStanding[]): readonly string[] {
  if (standings.length === 0) return [];
  return ['RateLimit', standings.map(itemOf).join(', '), 'RateLimit-Policy', policyOf(bounds)];
}

/** Whole seconds, rounded up: a client that waits so long has waited long enough. */
function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1_000));
}

const policies = new WeakMap<Bounds, string>();

/** Made once per plan. */
function policyOf(bounds: Bounds): string {
  const known = policies.get(bounds);
  if (known !== undefined) return known;
  const { windowMs, requests, cost, burst } = bounds;
  const items: string[] = [];
  if (requests !== undefined) items.push(`"requests";q=${requests};w=${wholeSeconds(windowMs)}`);
  // None of the registered units (`qu`) is this one.
  if (cost !== undefined) items.push(`"cost";q=${cost};w=${wholeSeconds(windowMs)}`);
  if (burst !== undefined) items.push(`"burst";q=${burst};w=${wholeSeconds(burstMs)}`);
  const policy = items.join(', ');
  policies.set(bounds, policy);
  return policy;
}

function itemOf({ name, remaining, freeInMs }: BoundStanding): string {
  return `"${name}";r=${remaining}${freeInMs === undefined ? '' : `;t=${wholeSeconds(freeInMs)}`}`;
}
