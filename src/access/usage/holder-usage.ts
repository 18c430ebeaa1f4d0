/** The usage of one key, as its holder sees it: of the day, of the month, and of the one before. Pure. */
import { rounded } from '../limits/cost.ts';
import { type DaySums, usageOutcomes } from './usage-store.ts';

/** Amounts of requests. */
interface Amounts {
  readonly requests: number;
  /** Bytes of the answers' bodies. */
  readonly bytes: number;
  /** In the units of `access.costs`. */
  readonly cost: number;
}

/** The use of a day or month. */
interface PeriodUsage extends Amounts {
  /** `2026-11-28`, or `2026-11`. */
  readonly period: string;
  /** By outcome; absent ones had no request. */
  readonly outcomes: Readonly<Record<string, Amounts>>;
}

/** The use of a key. */
export interface HolderUsage {
  readonly day: PeriodUsage;
  readonly month: PeriodUsage;
  readonly lastMonth: PeriodUsage;
  /** Days of the month with requests, oldest first. */
  readonly days: readonly PeriodUsage[];
}

/** The use at `today`, such as `2026-11-28`, from the days of its month and of the month before. */
export function holderUsageOf(
  today: string,
  lastMonth: string,
  days: readonly DaySums[],
  lastDays: readonly DaySums[],
): HolderUsage {
  const isToday = ({ day }: DaySums): boolean => day === today;
  return {
    day: usageOf(today, days.filter(isToday)),
    month: usageOf(today.slice(0, 7), days),
    lastMonth: usageOf(lastMonth, lastDays),
    days: days.map((one) => usageOf(one.day, [one])),
  };
}

function usageOf(period: string, days: readonly DaySums[]): PeriodUsage {
  const sums = days.flatMap((one) => one.sums);
  const outcomes = usageOutcomes.flatMap((outcome) => {
    const own = sums.filter(([name]) => name === outcome).map(([, amounts]) => amounts);
    return own.length === 0 ? [] : [[outcome, sumOf(own)] as const];
  });
  return { period, ...sumOf(outcomes.map(([, amounts]) => amounts)), outcomes: Object.fromEntries(outcomes) };
}

function sumOf(all: readonly Amounts[]): Amounts {
  const sum = { requests: 0, bytes: 0, cost: 0 };
  for (const { requests, bytes, cost } of all) {
    sum.requests += requests;
    sum.bytes += bytes;
    sum.cost = rounded(sum.cost + cost);
  }
  return sum;
}
