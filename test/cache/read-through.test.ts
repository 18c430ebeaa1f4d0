/** Memory, a real redis-server and a load behind them. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { type CachedResponse, encodeRecord, encodeReference } from '../../src/cache/record.ts';
import { MemoryCache } from '../../src/cache/memory/memory.ts';
import { type AnswerLoad, ReadThrough } from '../../src/cache/read-through.ts';
import { AnswerNames } from '../../src/cache/redis/redis-keys.ts';
import { SharedTier } from '../../src/cache/redis/shared-tier.ts';
import type { WriteOutcome } from '../../src/cache/write-behind.ts';
import { answerOf, anyEpoch, keyAt, loadThrough } from '../support/answers.ts';
import { linkTo } from '../support/redis-link.ts';
import { until } from '../support/redis-replica.ts';
import { noRedis, redisServer } from '../support/redis-server.ts';
import { watchStalls } from '../support/stalls.ts';

const key = keyAt(7n);
const keys = new AnswerNames('lg', 'test', anyEpoch);
const origin = { upstream: 'node', tookMs: 1, version: undefined, retryAfter: undefined };

/** `server`: another replica's. */
async function tiers(t: TestContext, timeoutMs = 1_000, server?: Awaited<ReturnType<typeof redisServer>>) {
  server ??= await redisServer(t);
  const link = await linkTo(t, server, { timeoutMs });
  const memory = new MemoryCache(64 * 1024 * 1024);
  const written: WriteOutcome[] = [];
  const lookups: string[] = [];
  const times = { timeoutMs, ttlMs: 60_000, followMs: 10_000 };
  const counts = {
    wrote: (outcome: WriteOutcome) => written.push(outcome),
    lookedUp: (outcome: string) => lookups.push(outcome),
    turned: () => {},
  };
  const shared = new SharedTier(
    link,
    times,
    () => keys,
    (digest) => memory.findAnswer(digest),
    counts,
  );
  return { server, memory, written, lookups, reads: new ReadThrough(memory, undefined, shared) };
}

/** The mark that replaces the lease, which lives for half a second; `null`: none, or this process saw it too late. */
async function markAfterLease(server: Awaited<ReturnType<typeof redisServer>>): Promise<string | null> {
  let mark: string | null = 'held';
  await until(
    'the lease ends',
    async () => (mark = await server.run((client) => client.get(keys.lease(key)))) !== 'held',
  );
  return mark;
}

function nodeWith(answer: CachedResponse, head = anyEpoch.checkpoint.version): AnswerLoad {
  return () => Promise.resolve({ answer, origin, head });
}

test('an entry that another replica leaves damaged is overwritten by its follower', { skip: noRedis }, async (t) => {
  const { server, reads, lookups, written } = await tiers(t);
  const answer = answerOf(2_000);
  const record = await encodeRecord(answer);
  assert.ok(record !== undefined);
  await server.run((client) => client.set(keys.lease(key), 'another'));
  const load = loadThrough(reads, key, nodeWith(answer));
  await until('it has looked', () => lookups.length === 1);
  const name = keys.answer(answer.digest);
  await server.run(async (client) => {
    await client.set(name, record.subarray(1));
    await client.hset(
      keys.page(key),
      String(key.slot),
      encodeReference(key, { digest: answer.digest, expiresAt: undefined }),
    );
    await client.unlink(keys.lease(key));
  });

  assert.equal((await load).origin, origin);
  await until('it is written', () => written.length === 1);
  assert.deepEqual(lookups, ['absent']);
  assert.deepEqual(await server.run((client) => client.getBuffer(name)), record);
});

test('no replica waits for an answer that is too large to be shared', { skip: noRedis }, async (t) => {
  const { server, reads, written } = await tiers(t, 50);
  const stalls = watchStalls(t);
  const answer = answerOf('', { body: randomBytes(1_100_000) });
  await loadThrough(reads, key, nodeWith(answer));
  const mark = await markAfterLease(server);
  stalls.judge(mark === 'nothing', `${mark} after the lease`);
  await until('it is given up', () => written.length === 1);
  assert.deepEqual(written, ['dropped']);
});

test('an answer of a node below the last checkpoint is not shared', { skip: noRedis }, async (t) => {
  const { server, memory, reads, written } = await tiers(t);
  const stalls = watchStalls(t);
  const { version } = anyEpoch.checkpoint;
  const answer = answerOf('of a node that may have gone back');
  await loadThrough(reads, key, nodeWith(answer, version - 1n));
  assert.deepEqual(memory.find(key)?.body, answer.body);
  // No replica waits for it either.
  const mark = await markAfterLease(server);
  stalls.judge(mark === 'nothing', `${mark} after the lease`);
  assert.equal(await server.run((client) => client.exists(keys.page(key))), 0);

  memory.clear();
  await until('its lease ends', async () => (await server.run((client) => client.exists(keys.lease(key)))) === 0);
  await loadThrough(reads, key, nodeWith(answer, version));
  await until('it is written', () => written.length === 1);
  assert.equal(await server.run((client) => client.exists(keys.page(key))), 1);
});

const unasked = () => Promise.reject(new Error('a node was asked'));

test('a provisional answer is in Redis once a second head has passed it', { skip: noRedis }, async (t) => {
  const one = await tiers(t);
  const other = await tiers(t, 1_000, one.server);
  const awaited = { version: 7n, isNear: true, withinMs: 10_000, head: () => anyEpoch.checkpoint.version };
  const ahead = () => Promise.resolve({ answer: answerOf(2_000), origin, awaited } as const);

  await loadThrough(one.reads, key, ahead);
  assert.deepEqual([one.written, one.reads.isProvisional(key)], [[], true]);
  one.reads.settle(7n);
  await until('it is written', () => one.written.length === 1);

  assert.equal((await loadThrough(other.reads, key, unasked)).origin, 'redis');
  assert.deepEqual([one.written, one.reads.isProvisional(key)], [['written'], false]);
});

test('another replica that no second head helps reads for itself', { skip: noRedis }, async (t) => {
  const one = await tiers(t);
  const other = await tiers(t, 1_000, one.server);
  const answer = answerOf(2_000);
  for (const [version, isNear] of [
    [8n, true],
    [9n, false],
  ] as const) {
    const awaited = { version, isNear, withinMs: 10_000, head: () => anyEpoch.checkpoint.version };
    const ahead = () => Promise.resolve({ answer, origin, awaited } as const);
    await loadThrough(one.reads, keyAt(version), ahead);

    const value = await loadThrough(other.reads, keyAt(version), nodeWith(answer));

    assert.equal(value.origin, origin);
  }
  assert.deepEqual(one.written, []);
});

for (const [end, lease] of [
  ['fails', 'nothing'],
  ['is abandoned by its last caller', null],
] as const) {
  test(`a load that ${end} leaves no lease that other replicas wait for`, { skip: noRedis }, async (t) => {
    const { server, reads } = await tiers(t);
    const caller = new AbortController();
    const begun = Promise.withResolvers<void>();
    const load: AnswerLoad = (signal) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new Error('aborted')), { once: true });
        begun.resolve();
        if (end === 'fails') reject(new Error('no node answered'));
      });
    const read = reads.load(key, '', { signal: caller.signal, client: 'a client' }, load, true, () => undefined);
    const failed = assert.rejects(read);
    await begun.promise;
    if (end !== 'fails') caller.abort(new Error('gone'));
    await failed;
    const held = () => server.run((client) => client.get(keys.lease(key)));
    await until('the lease has ended', async () => (await held()) === lease);
  });
}
