/**
 * Long runs of the store: `npm run store:proof -- kills|writes|start-up|reads [--number N] [--bytes N] [--seconds N]`.
 *
 * kills: SIGKILL at random moments under load, each body compared. writes: ten times the bound, with the bytes on the disk
 * and the delay of the event loop. start-up: with a store of so many entries, an empty one, and none. reads: a look-up in
 * memory, in the store, and in Redis. Exit code 1 where a body is wrong, a read fails, or the disk holds more than the bound.
 */
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { request } from 'undici';
import { startCheapNode, readPath } from '../bench/support/cheap-node.ts';
import { median, spread } from '../bench/support/figures.ts';
import { gatewayCommand } from '../bench/support/gateway.ts';
import { startProgram } from '../bench/support/process-under-test.ts';
import { MemoryCache } from '../src/cache/memory/memory.ts';
import { AnswerNames } from '../src/cache/redis/redis-keys.ts';
import { SharedTier } from '../src/cache/redis/shared-tier.ts';
import { anyEpoch } from '../test/support/answers.ts';
import { until } from '../test/support/eventually.ts';
import { fakeNode } from '../test/support/fake-node.ts';
import { freePort } from '../test/support/free-port.ts';
import { gatewayProcess } from '../test/support/gateway-process.ts';
import { linkTo } from '../test/support/redis-link.ts';
import { redisServer } from '../test/support/redis-server.ts';
import { openStore } from '../test/support/stores.ts';
import { CleanUp } from './ops/clean-up.ts';
import { bodyOf, fill, keyOf } from './store/fill.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    number: { type: 'string', default: '100' },
    bytes: { type: 'string', default: '400' },
    seconds: { type: 'string', default: '300' },
  },
});
const [number, bytes, seconds] = [Number(values.number), Number(values.bytes), Number(values.seconds)];
const mebibyte = 2 ** 20;
const leastBound = 64 * mebibyte;
/** Bytes of an answer on the disk beside its body: two rows, and their entries in the indices. */
const rowBytes = 350;
const cleanUp = new CleanUp();

async function kills(): Promise<void> {
  const t = cleanUp.asTest;
  const node = await fakeNode(t, { head: 100_000n });
  const store = { path: cleanUp.folder(), maxBytes: '64MiB' };
  const cache = { memory: { maxBytes: '1MiB' }, store };
  const gateway = await gatewayProcess(t, { full: [node], config: { cache, workers: 2 } });
  const expected = new Map<string, string>();
  const counts = { answers: 0, store: 0, memory: 0, wrong: 0, failed: 0, cut: 0 };
  const sizes = ['Probe', 'Padded4000', 'Padded60000'];
  const nextPath = (): string => {
    const index = Math.floor(1_500 * Math.random() ** 2);
    return `/accounts/0x1/resource/0x1::ledgergate_sample::${sizes[index % 3]}?ledger_version=${index}`;
  };
  let isUp = true;
  const ask = async (): Promise<void> => {
    const path = nextPath();
    const wasUp = isUp;
    try {
      const want = expected.get(path) ?? (await (await request(node.url + path)).body.text());
      expected.set(path, want);
      const { statusCode, headers, body } = await request(gateway.url + path);
      const text = await body.text();
      counts.answers += 1;
      const source = /store|memory/.exec(String(headers['cache-status']))?.[0];
      if (source === 'store' || source === 'memory') counts[source] += 1;
      if (statusCode !== 200) counts.failed += 1;
      else if (text !== want) counts.wrong += 1;
    } catch {
      if (isUp && wasUp) counts.failed += 1;
      else counts.cut += 1;
      await sleep(5);
    }
  };
  const over = new AbortController();
  const client = async (): Promise<void> => {
    while (!over.signal.aborted) await (isUp ? ask() : sleep(5));
  };
  const clients = Array.from({ length: 8 }, client);
  for (let round = 1; round <= number; round += 1) {
    await sleep(Math.random() * 1_500);
    isUp = false;
    await gateway.kill();
    await gateway.restart();
    isUp = true;
    if (round % 10 === 0) console.log(`${round} kills: ${JSON.stringify(counts)}`);
  }
  over.abort();
  await Promise.all(clients);
  console.log(JSON.stringify(counts));
  if (counts.wrong + counts.failed > 0) process.exitCode = 1;
}

async function writes(): Promise<void> {
  const maxBytes = Math.max(leastBound, Math.floor((number * (bytes + rowBytes)) / 10));
  const result = await fill(cleanUp.asTest, cleanUp.folder(), { maxBytes, writes: number, bytes, seconds });
  console.log({ maxBytes, ...result, perSecond: Math.round(result.writes / result.seconds) });
  if (result.mostBytes > maxBytes) process.exitCode = 1;
}

async function startUp(): Promise<void> {
  const [full, empty] = [cleanUp.folder(), cleanUp.folder()];
  const maxBytes = Math.max(leastBound, number * (bytes + 2 * rowBytes));
  const { writes: entries, mostBytes } = await fill(cleanUp.asTest, full, { maxBytes, writes: number, bytes, seconds });
  console.log(`${entries} entries, ${Math.round(mostBytes / mebibyte)} MiB`);
  const node = await startCheapNode({ cpu: 0 });
  cleanUp.after(() => node.server.stop());
  const path = readPath(400, '2400000000').replace('%A', '0x5a');
  const stores = { none: undefined, empty, full };
  const took = new Map<string, number[]>(Object.keys(stores).map((name) => [name, []]));
  for (let round = 0; round <= 9; round += 1) {
    for (const [name, folder] of Object.entries(stores)) {
      const cache =
        folder === undefined ? {} : { store: { path: folder, maxBytes: `${Math.ceil(maxBytes / mebibyte)}MiB` } };
      const port = await freePort();
      const args = gatewayCommand({ name, nodeUrl: node.urls, cpu: 1, port, config: { cache } });
      const startMs = performance.now();
      const server = await startProgram({ name, command: process.execPath, args, cpu: 1, port });
      while ((await request(server.url + path)).statusCode !== 200) await sleep(2);
      // The first round reads the files of all from the disk.
      if (round > 0) took.get(name)?.push(performance.now() - startMs);
      server.stop();
    }
  }
  for (const [name, times] of took) console.log(`${name}: ${spread(times, 0)} ms to the first answer`);
}

async function reads(): Promise<void> {
  const count = 10_000;
  const server = await redisServer(cleanUp.asTest);
  const link = await linkTo(cleanUp.asTest, server);
  const names = new AnswerNames('lg', 'proof', anyEpoch);
  for (const size of [400, 4_000, 60_000]) {
    const memory = new MemoryCache(2 ** 30);
    const { store } = await openStore(cleanUp.asTest, { folder: cleanUp.folder(), maxBytes: 2 ** 31 });
    let left = 0;
    const times = { timeoutMs: 1_000, ttlMs: 600_000, followMs: 0 };
    const counts = { wrote: () => (left -= 1), lookedUp: () => {}, turned: () => {} };
    const tier = new SharedTier(
      link,
      times,
      () => names,
      () => undefined,
      counts,
    );
    for (let index = 0; index < count; index += 1) {
      const [key, answer] = [keyOf(index), bodyOf(index, size)];
      memory.store(key, answer);
      left += 2;
      store.store(key, answer, { head: 1n, onDone: () => (left -= 1) });
      tier.store(key, answer, { head: anyEpoch.checkpoint.version });
      await until(() => left <= 64);
    }
    await until(() => left === 0);
    const finders = {
      memory: async (index: number) => memory.find(keyOf(index)),
      store: async (index: number) => store.find(keyOf(index)),
      redis: async (index: number) => tier.find(keyOf(index), performance.now() + 1_000),
    };
    for (const [name, find] of Object.entries(finders)) console.log(`${size} B, ${name}: ${await costOf(count, find)}`);
    await store.close();
    await server.run((redis) => redis.flushall());
  }
}

/** CPU of this process and latency of one look-up after another, in microseconds: the medians of rounds. */
async function costOf(count: number, find: (index: number) => Promise<unknown>): Promise<string> {
  const [cpu, p50, p99]: number[][] = [[], [], []];
  for (let round = 0; round < 6; round += 1) {
    const took: number[] = [];
    const before = process.cpuUsage();
    for (let index = 0; index < count; index += 1) {
      const startMs = performance.now();
      const found = await find((index * 7_919) % count);
      const tookUs = (performance.now() - startMs) * 1_000;
      const isMiss = typeof found === 'object' && found !== null && 'miss' in found;
      // After a slow look-up the store leaves the disk alone.
      if (isMiss && found.miss === 'unavailable') {
        await sleep(5);
        continue;
      }
      if (found === undefined || isMiss) throw new Error('a miss');
      took.push(tookUs);
    }
    const { user, system } = process.cpuUsage(before);
    took.sort((one, other) => one - other);
    // The first round compiles.
    if (round === 0) continue;
    cpu?.push((user + system) / took.length);
    p50?.push(took[Math.floor(took.length / 2)] ?? 0);
    p99?.push(took[Math.floor(took.length * 0.99)] ?? 0);
  }
  const [cpuUs, p50Us, p99Us] = [cpu, p50, p99].map((figures = []) => median(figures).toFixed(1));
  return `CPU ${cpuUs} us, p50 ${p50Us} us, p99 ${p99Us} us`;
}

const parts = { kills, writes, 'start-up': startUp, reads };
const part = parts[positionals[0] as keyof typeof parts];
if (part === undefined) throw new Error(`expected one of ${Object.keys(parts).join(', ')}`);
try {
  await part();
} finally {
  await cleanUp.run();
}
