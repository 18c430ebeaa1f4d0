/** The interface of counters in this process, in the primary and in Redis. Requests and answers are plain data. */

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
      readonly over: BoundName;
      /** Ms until the bound may have room; 0: unknown, because it depends on requests in flight. */
      readonly freeInMs: number;
      readonly standings: readonly BoundStanding[];
    };

/** The outcome of `take`. `unavailable`: no counter is available, and the config refuses requests then. */
export type CountResult =
  | {
      readonly kind: 'counted';
      readonly count: LimitCount;
      /** Ends an admitted request, to be called once. `extraCost`: its cost beyond its charge. */
      readonly settle: (extraCost: number) => void;
    }
  | { readonly kind: 'unavailable' };

/** Counts requests against bounds. */
export interface LimitCounter {
  /** Counts the request if there is room. Never rejects. */
  take(charge: Charge): CountResult | Promise<CountResult>;
}

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
