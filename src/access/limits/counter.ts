/** Counts as plain data: what counters in this process, in the primary and in Redis are asked, and reply. */

/** The bounds of a `Plan`; absent ones do not limit. */
export interface Bounds {
  /** Span of `requests` and `cost`. */
  readonly windowMs: number;
  readonly requests?: number | undefined;
  readonly cost?: number | undefined;
  /** Requests within a second. */
  readonly burst?: number | undefined;
  /** Requests in flight at once. */
  readonly concurrency?: number | undefined;
}

/** The bounds by name. */
export type BoundName = 'requests' | 'cost' | 'burst' | 'concurrency';

/** One request, before it is served. */
export interface Charge {
  /** The account: plan and tenant. */
  readonly subject: string;
  /** Requests without a key have accounts apart: addresses, however many, evict no key's account. */
  readonly hasKey: boolean;
  readonly bounds: Bounds;
  /** The least cost of its operation. */
  readonly cost: number;
}

/** The state of a bound over time. */
export interface BoundStanding {
  readonly name: Exclude<BoundName, 'concurrency'>;
  readonly remaining: number;
  /** Ms until some of it is free again; `undefined`: nothing is used. */
  readonly freeInMs: number | undefined;
}

/** The decision of a counter. */
export type LimitCount =
  | { readonly isAdmitted: true; readonly standings: readonly BoundStanding[] }
  | {
      readonly isAdmitted: false;
      /** `unavailable`: no counter is available, and the config refuses requests then. */
      readonly over: BoundName | 'unavailable';
      /** Ms until the bound may have room; 0: unknown, because it depends on requests in flight. */
      readonly freeInMs: number;
      readonly standings: readonly BoundStanding[];
    };

/** A count, with the end of its request. */
export interface Counted {
  readonly count: LimitCount;
  /** Ends an admitted request, to be called once. `extraCost`: its cost beyond its charge. */
  readonly settle: (extraCost: number) => void;
}

/** The `settle` of a request that nothing counted. */
export const noSettlement = (): void => undefined;

/** Whether any bound is set. */
export function isBounded({ requests, cost, burst, concurrency }: Bounds): boolean {
  return (requests ?? cost ?? burst ?? concurrency) !== undefined;
}

/** The share of the bounds for each of `processes` that count apart. */
export function shareOf(bounds: Bounds, processes: number): Bounds {
  if (processes === 1) return bounds;
  const part = (whole: number | undefined): number | undefined =>
    whole === undefined ? undefined : Math.max(1, Math.floor(whole / processes));
  const { windowMs, requests, cost, burst, concurrency } = bounds;
  return {
    windowMs,
    requests: part(requests),
    cost: part(cost),
    burst: part(burst),
    concurrency: part(concurrency),
  };
}

/** The span of the bound `burst`. */
export const burstMs = 1_000;

/**
 * `RateLimit` and `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-10, a policy for each bound over time: flat
 * name-value pairs, as in Node's raw headers; empty without such a bound.
 */
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
