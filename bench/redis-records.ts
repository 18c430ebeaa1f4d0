/**
 * The cost of an answer on its way to Redis and back, with its body as it is and compressed, and what it takes there.
 *
 *     npm run bench:redis-records -- [--rounds N]
 *
 * Bodies are recorded ones, the nearest in size. Processor time of all threads, median of the rounds; Redis is a
 * redis-server of its own on a free port, and its figures are MEMORY USAGE of the answer and of a page with one read.
 */
import { parseArgs, promisify } from 'node:util';
import { constants, zstdCompress, zstdCompressSync, zstdDecompress, zstdDecompressSync } from 'node:zlib';
import { Redis } from 'ioredis';
import { cacheKey } from '../src/cache/key.ts';
import { type CachedResponse, decodeRecord, encodeRecord, encodeReference } from '../src/cache/record.ts';
import { AnswerNames } from '../src/cache/redis/redis-keys.ts';
import { LedgerVersion } from '../src/ledger/version.ts';
import modules from '../src/sample/data/modules.json' with { type: 'json' };
import resources from '../src/sample/data/resources.json' with { type: 'json' };
import { answerOf } from './support/cache-data.ts';
import { loadCpu } from './support/contest.ts';
import { median } from './support/figures.ts';
import { startRedis } from './support/process-under-test.ts';

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '7' } } });
const rounds = Number(values.rounds);
const sizes = [400, 1_000, 2_000, 4_000, 8_000, 16_000, 60_000];
const bodies = [...modules, ...resources].map(({ body }) => Buffer.from(body));

const server = await startRedis(loadCpu);
const client = new Redis({ port: Number(new URL(server.url).port) });
console.log('| body | form | stored B | encode µs | decode µs | answer in Redis B | with a page of one read B |');
console.log('|--:|---|--:|--:|--:|--:|--:|');
for (const size of sizes) {
  const body = bodies.reduce((best, one) => (gap(one, size) < gap(best, size) ? one : best));
  for (const [form, from] of [
    ['as it is', Infinity],
    ['zstd', 0],
  ] as const) {
    const answer = answerOf(body);
    const record = (await encodeRecord(answer, from))!;
    const encode = await micros(() => encodeRecord(answer, from));
    const decode = await micros(() => decodeRecord(record, answer.digest));
    const [alone, withPage] = await bytesInRedis(answer, record);
    console.log(row([body.length, form, record.length, encode, decode, alone, withPage]));
  }
}

console.log('\n| body | compress in place µs | in a thread µs | expand in place µs | in a thread µs |');
console.log('|--:|--:|--:|--:|--:|');
const [compress, expand] = [promisify(zstdCompress), promisify(zstdDecompress)];
for (const size of [4_000, 16_000, 64_000, 256_000]) {
  const body = Buffer.concat(bodies).subarray(0, size);
  const options = { params: { [constants.ZSTD_c_compressionLevel]: 1 }, pledgedSrcSize: size };
  const packed = zstdCompressSync(body, options);
  console.log(
    row([
      size,
      await micros(() => zstdCompressSync(body, options)),
      await micros(() => compress(body, options)),
      await micros(() => zstdDecompressSync(packed)),
      await micros(() => expand(packed)),
    ]),
  );
}
client.disconnect();
server.stop();

function gap(body: Buffer, size: number): number {
  return Math.abs(body.length - size);
}

/** Processor time of one call, all threads: the median of the rounds, each of at least 100 ms. */
async function micros(work: () => unknown): Promise<number> {
  const results: number[] = [];
  for (let round = -1; round < rounds; round += 1) {
    const before = process.cpuUsage();
    let calls = 0;
    for (const end = performance.now() + 100; performance.now() < end; calls += 20) {
      for (let count = 0; count < 20; count += 1) await work();
    }
    const { user, system } = process.cpuUsage(before);
    // The first round lets the compiler settle.
    if (round >= 0) results.push((user + system) / calls);
  }
  return median(results);
}

async function bytesInRedis(answer: CachedResponse, record: Buffer): Promise<readonly [number, number]> {
  const subject = `0x${'5a'.repeat(32)}/0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>`;
  const version = LedgerVersion.of(500_000_000n);
  const key = cacheKey({ chainId: 1, operation: 'resource', subject, version, form: 'json' });
  const keys = new AnswerNames('lg', '1a2b3c4d', { id: '00000000', before: [], checkpoint: { version: 0n, root: '' } });
  const [page, name] = [keys.page(key), keys.answer(answer.digest)];
  await client.set(name, record, 'PX', 60_000);
  await client.hset(page, String(key.slot), encodeReference(key, { digest: answer.digest, expiresAt: undefined }));
  await client.pexpire(page, 60_000);
  const [alone, ofPage] = [await client.memory('USAGE', name), await client.memory('USAGE', page)];
  await client.flushall();
  return [alone ?? 0, (alone ?? 0) + (ofPage ?? 0)];
}

function row(cells: readonly (string | number)[]): string {
  const shown = cells.map((cell) => {
    if (typeof cell === 'string') return cell;
    return Number.isInteger(cell) ? cell.toLocaleString('en') : cell.toFixed(1);
  });
  return `| ${shown.join(' | ')} |`;
}
