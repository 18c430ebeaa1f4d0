/**
 * A month of old reads: how many reach the archive, with memory alone, with Redis, and with a store. Each tier drops the
 * answer that was used longest ago, so it holds what was read within the time in which new answers fill it.
 */
import { pathToFileURL } from 'node:url';
import { exponential, randomOf, zipfOf } from './random.ts';
import { usualTraffic } from './shape.ts';
import { requestShapes } from './shapes.ts';

/** Requests a second of one process of the mix. */
const requestsPerSecond = 10_000;
/** Bytes a second of new answers: what a Redis of ten such processes is written (docs/scaling.md), for one of them. */
const filledPerSecond = 1.59e6;
const monthSeconds = 30 * 86_400;

/** A cache by its size, or by the longest life of an answer. */
export interface MonthlyTier {
  readonly name: string;
  readonly bytes: number;
  readonly ttlSeconds: number;
}

/** Share of all requests that read below every full node's window. */
const deepShare = requestShapes.reduce((sum, { share, subjects }) => {
  return sum + (subjects.kind === 'state' ? share * subjects.deep : 0);
}, 0);

const tiers: readonly MonthlyTier[] = [
  { name: 'memory, 256 MiB', bytes: 2 ** 28, ttlSeconds: Infinity },
  { name: 'Redis, 4 GB', bytes: 4e9, ttlSeconds: 7 * 86_400 },
  { name: 'Redis, 64 GB', bytes: 64e9, ttlSeconds: 7 * 86_400 },
  { name: 'store, 100 GB', bytes: 1e11, ttlSeconds: Infinity },
  { name: 'store, 1 TB', bytes: 1e12, ttlSeconds: Infinity },
];

/** The part of the month's old reads that each tier leaves to the archive. `links`: distinct old reads. */
export function archiveShares(
  among: readonly MonthlyTier[],
  { links, skew, readsPerSecond, seconds }: Readonly<Record<'links' | 'skew' | 'readsPerSecond' | 'seconds', number>>,
): readonly number[] {
  const random = randomOf(1);
  const zipf = zipfOf(links, skew);
  const used = new Float64Array(links).fill(-Infinity);
  const written = among.map(() => new Float64Array(links).fill(-Infinity));
  const heldFor = among.map(({ bytes }) => bytes / filledPerSecond);
  const asked = among.map(() => 0);
  let reads = 0;
  for (let at = 0; at < seconds; at += exponential(random()) / readsPerSecond) {
    const link = zipf.draw(random);
    const idle = at - (used[link] ?? -Infinity);
    for (const [index, { ttlSeconds }] of among.entries()) {
      const age = at - (written[index]?.[link] ?? -Infinity);
      const isKnown = idle < Infinity;
      if (isKnown && idle <= (heldFor[index] ?? 0) && age <= ttlSeconds) continue;
      asked[index] = (asked[index] ?? 0) + 1;
      (written[index] as Float64Array)[link] = at;
    }
    used[link] = at;
    reads += 1;
  }
  return asked.map((count) => count / reads);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const readsPerSecond = requestsPerSecond * deepShare;
  const many = [usualTraffic.links, 10_000_000];
  console.log(
    `| ${readsPerSecond.toFixed(0)} old reads a second | ${many.map((links) => `${links.toLocaleString('en')} distinct`).join(' | ')} |`,
  );
  console.log('|---|--:|--:|');
  const shares = many.map((links) => {
    return archiveShares(tiers, { links, skew: usualTraffic.linkSkew, readsPerSecond, seconds: monthSeconds });
  });
  for (const [index, { name }] of tiers.entries()) {
    const cells = shares.map((of) => `${((of[index] ?? 1) * 100).toPrecision(2)} %`);
    console.log(`| ${name} | ${cells.join(' | ')} |`);
  }
}
