/**
 * Memory and time of a cache, each in a process of its own:
 *
 *     node --expose-gc bench/support/cache-process.ts fill|churn LAYOUT COUNT
 *
 * `fill` prints bytes per entry; `churn` median, p99, p99.9 and the longest step in ms.
 */
import { LRUCache } from 'lru-cache';
import { keyText, type CacheKey } from '../../src/cache/key.ts';
import type { CachedResponse } from '../../src/cache/record.ts';
import { MemoryCache } from '../../src/cache/memory/memory.ts';
import { answerOf, bodyOf, keyOf } from './cache-data.ts';

type Spread = Parameters<typeof keyOf>[1];

/** Different bodies for different accounts, equal ones for versions. */
const bodyAt = (index: number, spread: Spread): Buffer => bodyOf(spread === 'accounts' ? index : 0);

function fillPlain(count: number, spread: Spread): unknown {
  const cache = new LRUCache<string, Buffer>({ maxSize: 2 ** 40, sizeCalculation: (body) => body.length });
  for (let index = 0; index < count; index += 1) cache.set(keyText(keyOf(index, spread)), bodyAt(index, spread));
  return cache;
}

function fillMemory(count: number, spread: Spread): unknown {
  const memory = new MemoryCache(2 ** 40);
  for (let index = 0; index < count; index += 1) memory.store(keyOf(index, spread), answerOf(bodyAt(index, spread)));
  return memory;
}

const fills: Readonly<Record<string, (count: number) => unknown>> = {
  plain: (count) => fillPlain(count, 'accounts'),
  accounts: (count) => fillMemory(count, 'accounts'),
  'versions plain': (count) => fillPlain(count, 'versions'),
  versions: (count) => fillMemory(count, 'versions'),
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

/** Time of one call of a cache. */
function calculate(): void {
  for (let turn = 0; turn < 340; turn += 1) number = (Math.imul(number, 1_103_515_245) + 12_345) >>> 0;
}
let number = 1;

/**
 * Full caches of the same bytes, in which every new answer pushes out an old one; and `none`, arithmetic instead of a
 * cache: what the machine takes away from whoever works.
 */
const churns: Readonly<Record<string, (count: number) => Churned>> = {
  none: () => ({
    prepare,
    store: calculate,
    has: () => {
      calculate();
      return number >= 0;
    },
  }),
  plain: (count) => {
    const cache = new LRUCache<string, Buffer>({ max: count });
    return {
      prepare,
      store: (key, { body }) => void cache.set(keyText(key), body),
      has: (key) => cache.get(keyText(key)) !== undefined,
    };
  },
  accounts: (count) => {
    const memory = new MemoryCache(2 ** 40);
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
      // A used entry stays: as many may have passed a read as were stored and found since.
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

/** The resident size of few entries is noise: the heap and its buffers are counted. */
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
  if (held === undefined) throw new Error(`no layout ${layout}`);
  process.stdout.write(bytes.toFixed(0));
}

const [, , task, layout = '', count = ''] = process.argv;
if (task === 'fill') runFill(layout, Number(count));
else runChurn(layout, Number(count));
