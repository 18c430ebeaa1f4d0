/** Counts as plain data: what counters in this process, in the primary and in Redis are asked, and reply. */
import type { AccessConfig } from '../../config/index.ts';
import { type CalendarDay, periods } from './calendar.ts';

/** Quotas of a plan by calendar; absent ones do not limit. */
export type Quota = NonNullable<AccessConfig['plans'][string]['quota']>;

/** The bounds of a `Plan`, plain data for IPC; absent ones do not limit. */
export interface Bounds {
  /** Span of `requests` and `cost`. */
  readonly windowMs: number;
  readonly requests?: number | undefined;
  readonly cost?: number | undefined;
  /** Requests within a second. */
  readonly burst?: number | undefined;
  /** Requests in flight at once. */
  readonly concurrency?: number | undefined;
  /** Requests of each address within an account, in a window of its own. */
  readonly perAddress?: { readonly requests: number; readonly windowMs: number } | undefined;
  readonly quota?: Quota | undefined;
}

/** The bounds by name. `address`: `perAddress`; `day` and `month`: the quota's. */
export const boundNames = ['requests', 'cost', 'burst', 'concurrency', 'address', 'day', 'month'] as const;
/** One of them. */
export type BoundName = (typeof boundNames)[number];

/** A bound without room. */
export interface ExceededBound {
  readonly name: BoundName;
  /** Ms until it may have room; 0: unknown, because it depends on requests in flight. */
  readonly freeInMs: number;
}

/** The one of two that takes longer to have room. */
export function laterOf(one: ExceededBound | undefined, other: ExceededBound | undefined): ExceededBound | undefined {
  return other !== undefined && (one === undefined || other.freeInMs > one.freeInMs) ? other : one;
}

/** One request, before it is served. */
export interface Charge {
  /** The account: plan and tenant. */
  readonly subject: string;
  /** Requests without a key have accounts apart: addresses, however many, evict no key's account. */
  readonly hasKey: boolean;
  readonly bounds: Bounds;
  /** The least cost of its operation. */
  readonly cost: number;
  /** The client's `countedNetwork`, for `perAddress`. */
  readonly address?: string | undefined;
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
export function isBounded({ requests, cost, burst, concurrency, perAddress, quota }: Bounds): boolean {
  return (requests ?? cost ?? burst ?? concurrency ?? perAddress ?? quota) !== undefined;
}

/** The share of the bounds for each of `processes` that count apart; of quotas, see `Quotas`. */
export function shareOf(bounds: Bounds, processes: number): Bounds {
  if (processes === 1) return bounds;
  const part = (whole: number | undefined): number | undefined =>
    whole === undefined ? undefined : Math.max(1, Math.floor(whole / processes));
  const { windowMs, requests, cost, burst, concurrency, perAddress, quota } = bounds;
  return {
    windowMs,
    requests: part(requests),
    cost: part(cost),
    burst: part(burst),
    concurrency: part(concurrency),
    perAddress: perAddress && { ...perAddress, requests: part(perAddress.requests) ?? 1 },
    quota,
  };
}

/** The span of the bound `burst`. */
export const burstMs = 1_000;

/**
 * `RateLimit` and `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-10, a policy for each bound over time: flat
 * name-value pairs, as in Node's raw headers; empty without such a bound. `today`: for bounds with a quota.
 */
export function limitHeaders(
  bounds: Bounds,
  standings: readonly BoundStanding[],
  today?: CalendarDay,
): readonly string[] {
  if (standings.length === 0) return [];
  let items = '';
  for (const standing of standings) items += items === '' ? itemOf(standing) : `, ${itemOf(standing)}`;
  return ['RateLimit', items, 'RateLimit-Policy', policyOf(bounds, today)];
}

/** A bound over time. */
export interface TimedBound {
  readonly name: BoundStanding['name'];
  readonly limit: number;
  /** The whole length of a day or month. */
  readonly windowMs: number;
  /** The end of a day or month, Unix time in ms. */
  readonly endsAtMs?: number;
}

/** The bounds over time, in the order of standings. `today`: for bounds with a quota. */
export function timedBoundsOf(bounds: Bounds, today: CalendarDay | undefined): readonly TimedBound[] {
  const { windowMs, requests, cost, burst, perAddress, quota } = bounds;
  const timed: TimedBound[] = [];
  const add = (name: TimedBound['name'], limit: number | undefined, spanMs: number): void => {
    if (limit !== undefined) timed.push({ name, limit, windowMs: spanMs });
  };
  add('requests', requests, windowMs);
  add('cost', cost, windowMs);
  add('burst', burst, burstMs);
  add('address', perAddress?.requests, perAddress?.windowMs ?? 0);
  if (today === undefined) return timed;
  for (const name of periods) {
    const [limit, endsAtMs] = [quota?.[name], today.toMs[name]];
    if (limit !== undefined) timed.push({ name, limit, windowMs: endsAtMs - today.fromMs[name], endsAtMs });
  }
  return timed;
}

/** Rounded up: a client that waits this long has waited long enough. */
function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1_000));
}

/** Policies, with the month of those with a quota: months differ in length. */
const policies = new WeakMap<Bounds, { readonly month: string | undefined; readonly text: string }>();

function policyOf(bounds: Bounds, today: CalendarDay | undefined): string {
  const known = policies.get(bounds);
  if (known !== undefined && known.month === today?.month) return known.text;
  // No registered unit (`qu`) fits a cost.
  const items = timedBoundsOf(bounds, today).map((it) => `"${it.name}";q=${it.limit};w=${wholeSeconds(it.windowMs)}`);
  const text = items.join(', ');
  policies.set(bounds, { month: today?.month, text });
  return text;
}

function itemOf({ name, remaining, freeInMs }: BoundStanding): string {
  return `"${name}";r=${remaining}${freeInMs === undefined ? '' : `;t=${wholeSeconds(freeInMs)}`}`;
}
