/** Tables as they stand in RESULTS.md: a line for each server, most figures the median of all rounds. */
import type { Standing } from './contest.ts';
import type { Measured } from './load.ts';
import type { BenchOptions } from './options.ts';

export type Column = (standing: Standing) => string;

/** Requests a second. */
export const rate: Column = ({ measured }) => middle(measured, (round) => round.requestsPerSecond, 0);
export const p50: Column = ({ measured }) => middle(measured, (round) => round.p50Ms, 2);
export const p99: Column = ({ measured }) => middle(measured, (round) => round.p99Ms, 2);
/** Processor time per request in microseconds. */
export const cpu: Column = ({ measured }) => spread(measured.map(cpuOf), 1);
/** Processor time per request as a multiple of the first server's. */
export const cpuToFirst: Column = ({ cpuRatios }) => spread(cpuRatios, 2);
/** The first server's processor time per request as a part of this one's. */
export const cpuOfFirst: Column = ({ cpuRatios }) =>
  spread(
    cpuRatios.map((ratio) => 1 / ratio),
    2,
  );

/** Prints `columns` by their heads, after one with the servers' names. */
export function printStandings(
  title: string,
  standings: readonly Standing[],
  table: { readonly options: BenchOptions; readonly columns: Readonly<Record<string, Column>> },
): void {
  const { options, columns } = table;
  const { starts, rounds, seconds, connections } = options;
  const heads = Object.keys(columns);
  const cells = standings.map((standing) => [standing.name, ...Object.values(columns).map((show) => show(standing))]);
  const how = `${connections} connections, ${starts} starts of ${rounds} rounds of ${seconds} s`;
  process.stdout.write(`\n${title}, ${how}: median (least-most)\n\n`);
  process.stdout.write(`${line(['server', ...heads])}|---|${'--:|'.repeat(heads.length)}\n`);
  process.stdout.write(cells.map(line).join(''));
}

function line(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |\n`;
}

function cpuOf(round: Measured): number {
  return round.cpuMicrosPerRequest;
}

function middle(measured: readonly Measured[], pick: (round: Measured) => number, digits: number): string {
  return median(measured.map(pick)).toFixed(digits);
}

/** `1.25 (1.21-1.33)`: median, least and most. */
function spread(values: readonly number[], digits: number): string {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return `${median(values).toFixed(digits)} (${least.toFixed(digits)}-${most.toFixed(digits)})`;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length / 2;
  const [low = Number.NaN, high = low] = sorted.slice(Math.ceil(half) - 1, Math.floor(half) + 1);
  return (low + high) / 2;
}
