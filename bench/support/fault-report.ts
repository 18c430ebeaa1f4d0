/** Observations of a gateway under a fault, as lines of tables: all rounds of a variant together. */
import { quantile } from './figures.ts';
import type { Sample } from './open-loop.ts';

export interface Observed {
  /** Times begin with the fault. */
  readonly samples: readonly Sample[];
  /** Reads that had come to each node by then; the fault is the first one's. */
  readonly watched: readonly { readonly atMs: number; readonly reads: readonly number[] }[];
  /** Reads that came to each node under the fault. */
  readonly nodeReads: readonly number[];
  readonly seconds: number;
  readonly residentMiB: { readonly before: number; readonly most: number; readonly after: number };
}

export const faultHeads = [
  'nodes',
  'when',
  'p50 ms',
  'p99 ms',
  'p99.9 ms',
  'hits p99 ms',
  'sent late p99 ms',
  'errors %',
  'wrong',
  'share of the first node %',
  'below 1 % after s',
  'extra load %',
];

/** A fault shows in its first moments and is dealt with after them. */
const earlyMs = 2_000;

/** Two lines: the first two seconds, and the rest. */
export function faultLine(title: string, rounds: readonly Observed[]): (readonly (string | number)[])[] {
  const samples = rounds.flatMap((round) => round.samples);
  const early = samples.filter(({ atMs }) => atMs < earlyMs);
  const late = samples.filter(({ atMs }) => atMs >= earlyMs);
  const shares = rounds.map(({ watched }) => [shareOfFirst(watched, 0, earlyMs), shareOfFirst(watched, earlyMs)]);
  const at = (index: number): string => mean(shares.map((share) => share[index] ?? 0)).toFixed(1);
  return [
    [title, 'first 2 s', ...figures(early), at(0), rounds.map(leftAloneAfter).join(', '), ''],
    ['', 'after', ...figures(late), at(1), '', mean(rounds.map(extraLoad)).toFixed(1)],
  ];
}

function figures(samples: readonly Sample[]): readonly (string | number)[] {
  const misses = samples.filter(({ kind }) => kind === 'miss');
  const tookMs = misses.map((sample) => sample.tookMs);
  const hitMs = samples.filter(({ kind }) => kind === 'hit').map((sample) => sample.tookMs);
  const failed = misses.filter(({ status }) => status !== 200).length;
  return [
    quantile(tookMs, 0.5).toFixed(1),
    quantile(tookMs, 0.99).toFixed(0),
    quantile(tookMs, 0.999).toFixed(0),
    quantile(hitMs, 0.99).toFixed(1),
    quantile(
      samples.map(({ lateMs }) => lateMs),
      0.99,
    ).toFixed(0),
    ((failed / misses.length) * 100).toFixed(2),
    samples.filter(({ isRight }) => !isRight).length,
  ];
}

type Watched = Observed['watched'];

/** In percent of what came to all nodes. */
function shareOfFirst(watched: Watched, fromMs: number, toMs = Infinity): number {
  const within = watched.filter(({ atMs }) => atMs >= fromMs && atMs <= toMs);
  const [first, last] = [within[0]?.reads ?? [], within.at(-1)?.reads ?? []];
  const came = last.map((reads, index) => reads - (first[index] ?? 0));
  const all = came.reduce((sum, reads) => sum + reads, 0);
  return all === 0 ? 0 : ((came[0] ?? 0) / all) * 100;
}

const windowMs = 500;

/** When the half second begins in which the first node got less than 1 % of the reads; `-`: never. */
function leftAloneAfter({ watched }: Observed): string {
  const lastMs = watched.at(-1)?.atMs ?? 0;
  const found = watched.find(
    ({ atMs }) => atMs + windowMs <= lastMs && shareOfFirst(watched, atMs, atMs + windowMs) < 1,
  );
  return found === undefined ? '-' : (found.atMs / 1000).toFixed(1);
}

function extraLoad({ nodeReads, samples }: Observed): number {
  const asked = samples.filter(({ kind }) => kind === 'miss').length;
  const came = nodeReads.reduce((sum, reads) => sum + reads, 0);
  return (came / asked - 1) * 100;
}

export const overloadHeads = [
  'offered',
  'goodput % of capacity',
  'goodput p99 ms',
  'hits p99 ms',
  'shed (503) %',
  '503 p50 ms',
  '503 p99 ms',
  'other failures %',
  'RSS MiB before, most, after',
];

export function overloadLine(
  title: string,
  rounds: readonly Observed[],
  capacity: number,
): readonly (string | number)[] {
  const samples = rounds.flatMap((round) => round.samples);
  const misses = samples.filter(({ kind }) => kind === 'miss');
  const [good, shed] = [200, 503].map((status) => misses.filter((sample) => sample.status === status));
  const hitMs = samples.filter(({ kind }) => kind === 'hit').map((sample) => sample.tookMs);
  const seconds = rounds.reduce((sum, round) => sum + round.seconds, 0);
  const [goodCount, shedCount] = [good?.length ?? 0, shed?.length ?? 0];
  // The fleet did not carry answers that came after the end of the load.
  const endMs = (rounds[0]?.seconds ?? 0) * 1000;
  const inTime = good?.filter(({ atMs, tookMs }) => atMs + tookMs <= endMs);
  const percent = (count: number): string => ((count / misses.length) * 100).toFixed(1);
  const rss = rounds.map(({ residentMiB: { before, most, after } }) =>
    [before, most, after].map((mib) => mib.toFixed(0)).join(', '),
  );
  return [
    title,
    (((inTime?.length ?? 0) / seconds / capacity) * 100).toFixed(0),
    quantile(times(good), 0.99).toFixed(0),
    quantile(hitMs, 0.99).toFixed(1),
    percent(shedCount),
    quantile(times(shed), 0.5).toFixed(0),
    quantile(times(shed), 0.99).toFixed(0),
    percent(misses.length - goodCount - shedCount),
    rss.join('; '),
  ];
}

function times(samples: readonly Sample[] = []): readonly number[] {
  return samples.map(({ tookMs }) => tookMs);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
