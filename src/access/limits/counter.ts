/** What is asked of those who count, here, in the primary or in Redis, and what they say. Plain data where it can be. */

/** Bounds of a plan, as in `Plan`. */
export interface Bounds {
  /** Span of `requests` and `cost`. */
  readonly windowMs: number;
  readonly requests?: number | undefined;
  readonly cost?: number | undefined;
  /** Requests within a second. */
  readonly burst?: number | undefined;
  readonly concurrency?: number | undefined;
}

export type BoundName = 'requests' | 'cost' | 'burst' | 'concurrency';

/** One request, before it is served. */
export interface Charge {
  /** Who is counted together, under one plan. */
  readonly subject: string;
  /** Who has no key is counted apart, so that any number of addresses pushes no key out of memory. */
  readonly hasKey: boolean;
  readonly bounds: Bounds;
  /** What it costs at least. */
  readonly cost: number;
}

/** Where a bound over time stands. */
export interface BoundStanding {
  readonly name: Exclude<BoundName, 'concurrency'>;
  readonly remaining: number;
  /** Until there is more again; `undefined`: nothing is used. */
  readonly freeInMs: number | undefined;
}

export type LimitCount =
  | { readonly isAdmitted: true; readonly standings: readonly BoundStanding[] }
  | {
      readonly isAdmitted: false;
      readonly over: BoundName;
      /** Not sooner, where that is known; 0 where it is not, since requests under way end when they end. */
      readonly freeInMs: number;
      readonly standings: readonly BoundStanding[];
    };

/** `unavailable`: nobody can count now, and that is a reason to refuse. */
export type CountResult =
  | {
      readonly kind: 'counted';
      readonly count: LimitCount;
      /** Ends what was admitted: `extraCost` is what it cost beyond its charge. To be called once. */
      readonly settle: (extraCost: number) => void;
    }
  | { readonly kind: 'unavailable' };

export interface LimitCounter {
  /** Never rejects. */
  take(charge: Charge): CountResult | Promise<CountResult>;
  close(): void;
}

/** Whether anything is counted at all. */
export function isBounded({ requests, cost, burst, concurrency }: Bounds): boolean {
  return (requests ?? cost ?? burst ?? concurrency) !== undefined;
}

/** A part of the bounds for each of `processes` that do not know of each other. */
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
