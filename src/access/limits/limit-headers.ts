/** `RateLimit` and `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-10, a policy for each bound over time. */
import { burstMs } from './account.ts';
import type { Bounds, BoundStanding } from './counter.ts';

/** Flat name-value pairs, as in Node's raw headers; empty without a bound over time. */
export function limitHeaders(bounds: Bounds, standings: readonly BoundStanding[]): readonly string[] {
  if (standings.length === 0) return [];
  let items = '';
  for (const standing of standings) items += items === '' ? itemOf(standing) : `, ${itemOf(standing)}`;
  return ['RateLimit', items, 'RateLimit-Policy', policyOf(bounds)];
}

/** Rounded up: a client that waits this long has waited long enough. */
function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1_000));
}

const policies = new WeakMap<Bounds, string>();

function policyOf(bounds: Bounds): string {
  const known = policies.get(bounds);
  if (known !== undefined) return known;
  const { windowMs, requests, cost, burst } = bounds;
  const items: string[] = [];
  if (requests !== undefined) items.push(`"requests";q=${requests};w=${wholeSeconds(windowMs)}`);
  // No registered unit (`qu`) fits.
  if (cost !== undefined) items.push(`"cost";q=${cost};w=${wholeSeconds(windowMs)}`);
  if (burst !== undefined) items.push(`"burst";q=${burst};w=${wholeSeconds(burstMs)}`);
  const policy = items.join(', ');
  policies.set(bounds, policy);
  return policy;
}

function itemOf({ name, remaining, freeInMs }: BoundStanding): string {
  return `"${name}";r=${remaining}${freeInMs === undefined ? '' : `;t=${wholeSeconds(freeInMs)}`}`;
}
