/**
 * What an entry costs: bytes of memory per entry in the memory tier beside a plain lru-cache of Buffers, and bytes per
 * version of one resource that has equal bytes at many versions, in memory and in Redis, beside keeping it once per
 * version. Each figure is taken in a process (and a redis-server) of its own.
 *
 * `npm run bench:memory [ENTRIES] [VERSIONS]`, by default 1000000 and 10000.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { LRUCache } from 'lru-cache';
import { cacheKey, keyText, type CacheKey } from '../src/cache/key.ts';
import type { CachedResponse } from '../src/cache/entry.ts';
import { MemoryCache } from '../src/cache/memory.ts';
import { encodeRecord, encodeReference } from '../src/cache/record.ts';
import type { LedgerVersion } from '../src/ledger/version.ts';
import { answerOf } from './support/answer.ts';

const bodyBytes = 400;

/** Reads of different accounts at one version, or of one account at different versions. */
function keyOf(index: number, spread: 'accounts' | 'versions'): CacheKey {
  const account = (spread === 'accounts' ? index : 0).toString(16).padStart(64, '0');
  const version = (spread === 'accounts' ? 5_000_000_000n : 5_000_000_000n + BigInt(index)) as LedgerVersion;
  const subject = `0x${account}/0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>`;
  return cacheKey({ chainId: 1, operation: 'resource', subject, version, form: 'json' });
}

function bodyOf(index: number): Buffer {
  return Buffer.from(`{"number":"${index}"}`.padEnd(bodyBytes, ' '));
}

/** Fills run in a process of their own: `node bench/memory.ts --fill LAYOUT COUNT` prints bytes per entry. */
const fills: Readonly<Record<string, (count: number) => unknown>> = {
  plain: (count) => {
    const cache = new LRUCache<string, Buffer>({ maxSize: 2 ** 40, sizeCalculation: (body) => body.length });
    for (let index = 0; index < count; index += 1) cache.set(keyText(keyOf(index, 'accounts')), bodyOf(index));
    return cache;
  },
  accounts: (count) => {
    const memory = new MemoryCache({ maxBytes: 2 ** 40, onEvict: () => undefined });
    for (let index = 0; index < count; index += 1) memory.store(keyOf(index, 'accounts'), answerOf(bodyOf(index)));
    return memory;
  },
  'versions plain': (count) => {
    const cache = new LRUCache<string, Buffer>({ maxSize: 2 ** 40, sizeCalculation: (body) => body.length });
    for (let index = 0; index < count; index += 1) cache.set(keyText(keyOf(index, 'versions')), bodyOf(0));
    return cache;
  },
  versions: (count) => {
    const memory = new MemoryCache({ maxBytes: 2 ** 40, onEvict: () => undefined });
    for (let index = 0; index < count; index += 1) memory.store(keyOf(index, 'versions'), answerOf(bodyOf(0)));
    return memory;
  },
};

/** Steps of work between which others have their turn: each stores 20 new answers and looks 20 up that are there. */
const stepReads = 20;
const churnMs = 8_000;

interface Churned {
  /** Makes what is stored: no work of the cache. */
  prepare(index: number): { readonly key: CacheKey; readonly answer: CachedResponse };
  store(key: CacheKey, answer: CachedResponse): void;
  has(key: CacheKey): boolean;
}

const prepare: Churned['prepare'] = (index) => ({ key: keyOf(index, 'accounts'), answer: answerOf(bodyOf(index)) });

/** Full caches of the same bytes, in which every new answer pushes out an old one. */
const churns: Readonly<Record<string, (count: number) => Churned>> = {
  plain: (count) => {
    const cache = new LRUCache<string, Buffer>({ max: count });
    return {
      prepare,
      store: (key, { body }) => void cache.set(keyText(key), body),
      has: (key) => cache.get(keyText(key)) !== undefined,
    };
  },
  accounts: (count) => {
    const memory = new MemoryCache({ maxBytes: 2 ** 40, onEvict: () => undefined });
    let stored = 0;
    return {
      prepare,
      store: (key, answer) => {
        memory.store(key, answer);
        stored += 1;
        if (stored === count) void memory.resize(memory.fill.bytes);
      },
      has: (key) => memory.find(key) !== undefined,
    };
  },
};

/** Prints median, p99, p99.9 and the longest step in ms. */
function runChurn(layout: string, count: number): void {
  const churned = churns[layout]?.(count);
  if (churned === undefined) throw new Error(`no layout ${layout}`);
  for (let index = 0; index < count; index += 1) {
    const { key, answer } = churned.prepare(index);
    churned.store(key, answer);
  }
  let next = count;
  const steps: number[] = [];
  let seed = 1;
  for (const endMs = performance.now() + churnMs; performance.now() < endMs;) {
    const stored = Array.from({ length: stepReads }, () => churned.prepare(next++));
    const found = stored.map(() => {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
      // Whatever is used stays: as many may have passed a read as were stored and found since.
      return keyOf(next - 1 - stepReads - (seed % Math.floor(count * 0.45)), 'accounts');
    });
    const startMs = performance.now();
    for (const { key, answer } of stored) churned.store(key, answer);
    const hits = found.filter((key) => churned.has(key)).length;
    steps.push(performance.now() - startMs);
    if (hits < stepReads) throw new Error('what was stored is not there');
  }
  steps.sort((one, other) => one - other);
  const at = (part: number) => (steps[Math.floor(steps.length * part)] ?? NaN).toFixed(3);
  process.stdout.write([at(0.5), at(0.99), at(0.999), (steps.at(-1) ?? NaN).toFixed(1)].join(' '));
}

function measureChurn(layout: string, count: number): readonly string[] {
  const script = fileURLToPath(import.meta.url);
  return execFileSync(process.execPath, [script, '--churn', layout, String(count)])
    .toString()
    .split(' ');
}

/** Of few entries the resident size says nothing: what the heap and its buffers hold is counted. */
function settledBytes(count: number): number {
  for (let round = 0; round < 4; round += 1) globalThis.gc?.();
  const { rss, heapUsed, external } = process.memoryUsage();
  return count < 100_000 ? heapUsed + external : rss;
}

function runFill(layout: string, count: number): void {
  fills[layout]?.(1_000);
  const before = settledBytes(count);
  const held = fills[layout]?.(count);
  const bytes = (settledBytes(count) - before) / count;
  process.stdout.write(`${bytes.toFixed(0)} ${held === undefined ? '' : 'held'}`);
}

function measureFill(layout: string, count: number): number {
  const script = fileURLToPath(import.meta.url);
  const output = execFileSync(process.execPath, ['--expose-gc', script, '--fill', layout, String(count)]);
  return Number(output.toString().split(' ', 1)[0]);
}

/** Bytes of Redis per version, for one write per version. */
async function measureRedis(
  count: number,
  write: (client: Redis, index: number, record: Buffer) => Promise<unknown>,
): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'ledgergate-bench-'));
  const path = join(folder, 'socket');
  const server = spawn('redis-server', ['--port', '0', '--unixsocket', path, '--save', '', '--dir', folder]);
  for await (const chunk of server.stdout) if (/ready to accept/i.test(String(chunk))) break;
  const client = new Redis({ path, enableAutoPipelining: true });
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
    server.kill();
    await once(server, 'exit');
    rmSync(folder, { recursive: true, force: true });
  }
}

function line(text: string, bytes: number): void {
  process.stdout.write(`${text.padEnd(66)}${bytes.toFixed(0)} B\n`);
}

async function main(entries: number, versions: number): Promise<void> {
  for (const [layout, name] of [
    ['accounts', 'memory tier'],
    ['plain', 'plain lru-cache of Buffers'],
  ] as const) {
    const [p50, p99, p999, longest] = measureChurn(layout, entries);
    const text = `${name}, ${entries} reads, ${stepReads} stored and ${stepReads} found in a step`;
    process.stdout.write(`${text}: p50 ${p50}, p99 ${p99}, p99.9 ${p999}, longest ${longest} ms\n`);
  }
  line(`${entries} reads of ${bodyBytes} B, all different: memory tier, per read`, measureFill('accounts', entries));
  line(`${entries} reads of ${bodyBytes} B: plain lru-cache of Buffers, per read`, measureFill('plain', entries));
  line(`${versions} versions with equal bytes: memory tier, per version`, measureFill('versions', versions));
  line(`${versions} versions: plain lru-cache of Buffers, per version`, measureFill('versions plain', versions));
  const digest = answerOf(bodyOf(0)).digest;
  const shared = await measureRedis(versions, async (client, index, record) => {
    const key = keyOf(index, 'versions');
    const name = `lg:1:nogenesis:${key.page}`;
    if (index === 0) await client.set(`lg:1:nogenesis:=${digest}`, record, 'EX', 600);
    await client.hset(name, String(key.slot), encodeReference(key, { digest, expiresAt: undefined }));
    await client.expire(name, 600);
  });
  line(`${versions} versions with equal bytes: Redis, per version`, shared);
  const plain = await measureRedis(versions, (client, index, record) =>
    client.set(`lg:1:nogenesis:${keyText(keyOf(index, 'versions'))}`, record, 'EX', 600),
  );
  line(`${versions} versions: one string for each in Redis, per version`, plain);
}

const [first, second, third] = process.argv.slice(2);
if (first === '--fill') runFill(second ?? '', Number(third));
else if (first === '--churn') runChurn(second ?? '', Number(third));
else await main(Number(first ?? 1_000_000), Number(second ?? 10_000));
