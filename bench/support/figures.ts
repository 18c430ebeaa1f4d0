/** How figures of rounds are summed up. */
import type { Standing } from './contest.ts';

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length / 2;
  const [low = Number.NaN, high = low] = sorted.slice(Math.ceil(half) - 1, Math.floor(half) + 1);
  return (low + high) / 2;
}

/** The value that so great a share of `values` does not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** `1.25 (1.21-1.33)`: median, least and most; one value alone. */
export function spread(values: readonly number[], digits: number): string {
  if (values.length === 0) return '';
  const shown = median(values).toFixed(digits);
  if (values.length === 1) return shown;
  return `${shown} (${Math.min(...values).toFixed(digits)}-${Math.max(...values).toFixed(digits)})`;
}

/** The spread of a figure of the rounds. */
export function spreadOf<R>(rounds: readonly R[], pick: (round: R) => number, digits: number): string {
  return spread(rounds.map(pick), digits);
}

/** The median of a figure of the rounds. */
export function medianOf<R>(rounds: readonly R[], pick: (round: R) => number, digits: number): string {
  return median(rounds.map(pick)).toFixed(digits);
}

/** `0.4 / 1.2 / 3.0`: the median, the 99th percentile, and the largest. */
export function quantiles(values: readonly number[]): string {
  return [0.5, 0.99, 1].map((share) => quantile(values, share).toFixed(1)).join(' / ');
}

/**
 * How many times the requests of the other a server answers with the same processor time, round by round: the other's
 * time per request divided by its own. Above 1 it is the cheaper one. Of several others the one that is cheapest here.
 */
export function timesAsMany(
  own: Standing,
  standings: readonly Standing[],
  others: readonly string[],
): readonly number[] {
  const [other] = standings.filter(({ name }) => others.includes(name)).sort((a, b) => costOf(a) - costOf(b));
  return own.measured.flatMap(({ cpuMicrosPerRequest }, round) => {
    const against = other?.measured[round]?.cpuMicrosPerRequest;
    return against === undefined ? [] : against / cpuMicrosPerRequest;
  });
}

function costOf({ measured }: Standing): number {
  return median(measured.map((round) => round.cpuMicrosPerRequest));
}
