/** Tables as they stand in RESULTS.md: a line for each server, most figures the median of all rounds. */
import type { Standing, Titled } from './contest.ts';
import { median, spread, timesAsMany } from './figures.ts';
import type { Measured } from './load.ts';
import type { BenchOptions } from './options.ts';

/** A cell of a server, beside all servers of the same load. */
export type Column = (standing: Standing, all: readonly Standing[]) => string;

/** Requests a second. */
export const rate: Column = ({ measured }) =>
  Math.round(median(measured.map((round) => round.requestsPerSecond))).toLocaleString('en');
export const p50: Column = ({ measured }) => median(measured.map((round) => round.p50Ms)).toFixed(2);
export const p99: Column = ({ measured }) => median(measured.map((round) => round.p99Ms)).toFixed(2);
/** Processor time per request in microseconds. */
export const cpu: Column = ({ measured }) => spread(measured.map(cpuOf), 1);
/** The processor time per request of the cheapest of `others` divided by the row's: above 1, the row's is cheaper. */
export const cpuBeside =
  (...others: readonly string[]): Column =>
  (standing, all) =>
    spread(timesAsMany(standing, all, others), 2);
/** p99 of the row divided by that of another server: below 1, the row's is shorter. */
export const p99Beside = (other: string): Column => beside(other, (own, theirs) => own.p99Ms / theirs.p99Ms, 2);
/** Microseconds of processor time that a request takes beyond one of another server. */
export const cpuAbove = (other: string): Column => beside(other, (own, theirs) => cpuOf(own) - cpuOf(theirs), 1);
/** Milliseconds of the median beyond another server's. */
export const p50Above =
  (other: string): Column =>
  (standing, all) =>
    median(besideOf(standing, all, other, (own, theirs) => own.p50Ms - theirs.p50Ms)).toFixed(2);
export const readsPerRequest: Column = ({ measured }) =>
  median(measured.map(({ upstreamReads = 0, requests }) => upstreamReads / requests)).toFixed(2);

/** All loads in one table, `columns` by their heads after those of the load and the server. */
export function standingsTable(
  standings: ReadonlyMap<Titled, readonly Standing[]>,
  columns: Readonly<Record<string, Column>>,
): string {
  const rows = [...standings].flatMap(([{ title }, servers]) =>
    servers.map((server) => [title, server.name, ...Object.values(columns).map((show) => show(server, servers))]),
  );
  return table(['load', 'server', ...Object.keys(columns)], rows, 2);
}

/** How the figures were taken, for the words before a table. */
export function howTaken({ starts, rounds, seconds }: BenchOptions): string {
  const started = starts === 1 ? '' : `${starts} starts of `;
  return `${started}${rounds} ${rounds === 1 ? 'round' : 'rounds'} of ${seconds} s, interleaved: median (least-most)`;
}

/** The first columns are words, the others numbers. */
export function table(heads: readonly string[], rows: readonly (readonly (string | number)[])[], words = 1): string {
  const rule = `|${'---|'.repeat(words)}${'--:|'.repeat(heads.length - words)}\n`;
  return `${line(heads)}${rule}${rows.map(line).join('')}`;
}

function line(cells: readonly (string | number)[]): string {
  return `| ${cells.join(' | ')} |\n`;
}

type Comparison = (own: Measured, theirs: Measured) => number;

function beside(other: string, compare: Comparison, digits: number): Column {
  return (standing, all) => spread(besideOf(standing, all, other, compare), digits);
}

/** Each round of the row beside the same round of the other server. */
function besideOf({ measured }: Standing, all: readonly Standing[], other: string, compare: Comparison) {
  const rounds = all.find(({ name }) => name === other)?.measured ?? [];
  return measured.flatMap((own, at) => {
    const theirs = rounds[at];
    return theirs === undefined ? [] : [compare(own, theirs)];
  });
}

function cpuOf(round: Measured): number {
  return round.cpuMicrosPerRequest;
}
