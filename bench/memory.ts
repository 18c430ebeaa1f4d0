/**
 * The cost of an entry: bytes of memory per entry in the memory tier beside a plain lru-cache of Buffers, bytes per version
 * of one resource that has equal bytes at many versions, in memory and in Redis, and the cache's own work while it is
 * full. Each figure is taken in a process, and a redis-server, of its own.
 */
import { execFileSync } from 'node:child_process';
import { Redis } from 'ioredis';
import { keyText } from '../src/cache/key.ts';
import { encodeRecord, encodeReference } from '../src/cache/record.ts';
import { answerOf, bodyBytes, bodyOf, keyOf } from './support/cache-data.ts';
import { spreadOf } from './support/figures.ts';
import type { Flags, Part } from './support/options.ts';
import { loadCpu } from './support/contest.ts';
import { requirePrograms, startRedis } from './support/process-under-test.ts';
import { table } from './support/report.ts';

const [own, plain] = ['memory tier', 'plain lru-cache of Buffers'];

/** The output of cache-process.ts, in parts. */
function runCache(task: 'fill' | 'churn', layout: string, count: number): readonly string[] {
  const args = ['--expose-gc', 'bench/support/cache-process.ts', task, layout, String(count)];
  return execFileSync(process.execPath, args).toString().split(' ');
}

/** Bytes of Redis per version, for one write per version. */
async function measureRedis(
  count: number,
  write: (client: Redis, index: number, record: Buffer) => Promise<unknown>,
): Promise<number> {
  const server = await startRedis(loadCpu);
  const client = new Redis({ port: Number(new URL(server.url).port), enableAutoPipelining: true });
  try {
    const record = await encodeRecord(answerOf(bodyOf(0)));
    if (record === undefined) throw new Error('the answer has no record');
    const usedBytes = async () => Number(/used_memory:(\d+)/.exec(await client.info('memory'))?.[1]);
    const before = await usedBytes();
    for (let from = 0; from < count; from += 1_000) {
      const indexes = Array.from({ length: Math.min(1_000, count - from) }, (_, offset) => from + offset);
      await Promise.all(indexes.map((index) => write(client, index, record)));
    }
    return ((await usedBytes()) - before) / count;
  } finally {
    client.disconnect();
    server.stop();
  }
}

async function measureShared(versions: number): Promise<number> {
  const { digest } = answerOf(bodyOf(0));
  return measureRedis(versions, async (client, index, record) => {
    const key = keyOf(index, 'versions');
    const name = `lg:1:nogenesis:${key.page}`;
    if (index === 0) await client.set(`lg:1:nogenesis:=${digest}`, record, 'EX', 600);
    await client.hset(name, String(key.slot), encodeReference(key, { digest, expiresAt: undefined }));
    await client.expire(name, 600);
  });
}

function measureStrings(versions: number): Promise<number> {
  return measureRedis(versions, (client, index, record) =>
    client.set(`lg:1:nogenesis:${keyText(keyOf(index, 'versions'))}`, record, 'EX', 600),
  );
}

/** A row for each cache: its name, median, p99, p99.9 and longest step. */
function measureChurn(entries: number, rounds: number): string[][] {
  const layouts = new Map([
    [own, 'accounts'],
    [plain, 'plain'],
    ['arithmetic', 'none'],
  ]);
  const taken = new Map([...layouts.keys()].map((name) => [name, [] as number[][]]));
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, layout] of layouts) taken.get(name)?.push(runCache('churn', layout, entries).map(Number));
  }
  return [...taken].map(([name, all]) =>
    [name].concat([0, 1, 2, 3].map((at) => spreadOf(all, (one) => one[at] ?? NaN, 2))),
  );
}

function filledBytes(layout: string, count: number): string {
  return `${runCache('fill', layout, count)[0]} B`;
}

export const memory: Part = {
  name: 'memory',
  heading: 'Memory',
  async run({ isQuick }: Flags) {
    requirePrograms('redis-server');
    const [entries, versions] = isQuick ? [100_000, 1_000] : [1_000_000, 10_000];
    const [perRead, perReadPlain] = [filledBytes('accounts', entries), filledBytes('plain', entries)];
    const [perVersion, perVersionPlain] = [filledBytes('versions', versions), filledBytes('versions plain', versions)];
    const [shared, strings] = [await measureShared(versions), await measureStrings(versions)];
    const redis = [shared, strings].map((one) => `${one.toFixed(0)} B`);
    const churned = measureChurn(entries, isQuick ? 1 : 5);
    const text = `Bytes for each entry, in a process of its own: resident memory for ${entries.toLocaleString('en')} reads of ${bodyBytes} B with different answers; heap and buffers for one resource at ${versions.toLocaleString('en')} neighbouring versions with equal bytes, where the plain cache is what keeping each version for itself costs. The plain cache is an lru-cache of Buffers without headers, digests or versions.

${table(
  ['what', own, plain, 'Redis, as it is kept', 'Redis, one string for each'],
  [
    [`a read of ${bodyBytes} B, all different`, perRead, perReadPlain, '', ''],
    ['a version with equal bytes', perVersion, perVersionPlain, ...redis],
  ],
)}
The cache's own work on a full cache of ${entries.toLocaleString('en')} such reads, in steps of 20 answers stored, each of which pushes out another, and 20 found; 8 s, pauses of the garbage collector included; medians of ${isQuick ? 1 : 5} rounds, interleaved (least-most). Arithmetic in place of the cache shows what the machine takes from anybody:

${table(['cache', 'p50 ms', 'p99 ms', 'p99.9 ms', 'longest ms'], churned)}`;
    return text;
  },
};
