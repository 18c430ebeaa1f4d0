/** Memory, a real redis-server, answers on their way to it, and a load behind them. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { type CachedResponse, encodeRecord, encodeReference } from '../../src/cache/record.ts';
import { MemoryCache } from '../../src/cache/memory/memory.ts';
import { type AnswerLoad, ReadThrough } from '../../src/cache/read-through.ts';
import { AnswerNames } from '../../src/cache/redis/redis-keys.ts';
import { SharedTier } from '../../src/cache/redis/shared-tier.ts';
import type { WriteOutcome } from '../../src/cache/write-behind.ts';
import { until } from '../support/eventually.ts';
import { answerOf, anyEpoch, keyAt, loadThrough } from '../support/answers.ts';
import { linkTo } from '../support/redis-link.ts';
import { noRedis, redisServer, type RedisServer } from '../support/redis-server.ts';
import { watchStalls } from '../support/stalls.ts';

const key = keyAt(7n);
const mebibyte = 1024 * 1024;
const keys = new AnswerNames('lg', 'test', anyEpoch);
const head = anyEpoch.checkpoint.version;
const origin = { upstream: 'node', tookMs: 1, version: undefined, retryAfter: undefined };

/** A process before a real server. `server`: another replica's. */
async function tiers(t: TestContext, timeoutMs = 1_000, server?: RedisServer) {
  server ??= await redisServer(t);
  const link = await linkTo(t, server, { timeoutMs });
  const memory = new MemoryCache(64 * mebibyte);
  const outcomes = { written: 0, failed: 0, dropped: 0 };
  const lookups: string[] = [];
  const counts = {
    wrote: (outcome: WriteOutcome, answers: number) => (outcomes[outcome] += answers),
    lookedUp: (outcome: string) => lookups.push(outcome),
    turned: () => {},
  };
  const times = { timeoutMs, ttlMs: 60_000, followMs: 10_000 };
  const tier = new SharedTier(
    link,
    times,
    () => keys,
    (digest) => memory.findAnswer(digest),
    counts,
  );
  /** Whether others find it, of each answer in the order in which they were added. */
  const readable: (boolean | undefined)[] = [];
  const addBody = (body: Buffer): void => {
    const added = readable.push(undefined);
    const onDone = (isReadable: boolean) => (readable[added - 1] = isReadable);
    tier.store(keyAt(BigInt(added)), answerOf('', { body }), { head, onDone });
  };
  return {
    server,
    memory,
    outcomes,
    lookups,
    tier,
    reads: new ReadThrough(memory, undefined, tier),
    addBody,
    /** Adds an answer of so many bytes. */
    add: (bytes: number) => addBody(Buffer.from(`${readable.length + 1}`.padEnd(bytes, 'x'))),
    /** Writes whose `onDone` was called. */
    done: () => readable.filter((isReadable) => isReadable !== undefined).length,
    readable,
  };
}

/** The mark that replaces the lease, which lives for half a second; `null`: none, or this process saw it too late. */
async function markAfterLease(server: RedisServer): Promise<string | null> {
  let mark: string | null = 'held';
  await until(async () => (mark = await server.run((client) => client.get(keys.lease(key)))) !== 'held');
  return mark;
}

function nodeWith(answer: CachedResponse, head = anyEpoch.checkpoint.version): AnswerLoad {
  return () => Promise.resolve({ answer, origin, head });
}

test('an entry that another replica leaves damaged is overwritten by its follower', { skip: noRedis }, async (t) => {
  const { server, reads, lookups, outcomes } = await tiers(t);
  const answer = answerOf(2_000);
  const record = await encodeRecord(answer);
  assert.ok(record !== undefined);
  await server.run((client) => client.set(keys.lease(key), 'another'));
  const load = loadThrough(reads, key, nodeWith(answer));
  await until(() => lookups.length === 1);
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
  await until(() => outcomes.written === 1);
  assert.deepEqual(lookups, ['absent']);
  assert.deepEqual(await server.run((client) => client.getBuffer(name)), record);
});

test('an answer that is kept without a load is shared as well', { skip: noRedis }, async (t) => {
  const { server, reads, outcomes } = await tiers(t);
  const answer = answerOf(2_000);
  reads.keep(key, { answer, origin, head }, 60_000);
  await until(() => outcomes.written === 1);
  const other = await tiers(t, 1_000, server);
  assert.equal((await loadThrough(other.reads, key, nodeWith(answer))).origin, 'redis');
});

test('no replica waits for an answer that is too large to be shared', { skip: noRedis }, async (t) => {
  const { server, reads, outcomes } = await tiers(t, 50);
  const stalls = watchStalls(t);
  const answer = answerOf('', { body: randomBytes(1_100_000) });
  await loadThrough(reads, key, nodeWith(answer));
  const mark = await markAfterLease(server);
  stalls.judge(mark === 'nothing', `${mark} after the lease`);
  await until(() => outcomes.dropped === 1);
});

test('an answer of a node below the last checkpoint is not shared', { skip: noRedis }, async (t) => {
  const { server, memory, reads, outcomes } = await tiers(t);
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
  await until(async () => (await server.run((client) => client.exists(keys.lease(key)))) === 0);
  await loadThrough(reads, key, nodeWith(answer, version));
  await until(() => outcomes.written === 1);
  assert.equal(await server.run((client) => client.exists(keys.page(key))), 1);
});

const unasked = () => Promise.reject(new Error('a node was asked'));

test('a provisional answer is in Redis once a second head has passed it', { skip: noRedis }, async (t) => {
  const one = await tiers(t);
  const other = await tiers(t, 1_000, one.server);
  const awaited = { version: 7n, isNear: true, withinMs: 10_000, head: () => anyEpoch.checkpoint.version };
  const ahead = () => Promise.resolve({ answer: answerOf(2_000), origin, awaited } as const);

  await loadThrough(one.reads, key, ahead);
  assert.deepEqual([one.outcomes.written, one.reads.isProvisional(key)], [0, true]);
  one.reads.settle(7n);
  await until(() => one.outcomes.written === 1);

  assert.equal((await loadThrough(other.reads, key, unasked)).origin, 'redis');
  assert.deepEqual([one.outcomes.written, one.reads.isProvisional(key)], [1, false]);
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
  assert.equal(one.outcomes.written, 0);
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
    await until(async () => (await held()) === lease);
  });
}

test(
  'a server that does not answer: waiting writes are bounded in number and in bytes',
  { skip: noRedis },
  async (t) => {
    const { server, tier, outcomes, add, done } = await tiers(t, 60_000);
    server.pause();
    for (let count = 0; count < 5_000; count += 1) add(10);
    assert.deepEqual([tier.size.writes, outcomes], [1_024, { written: 0, failed: 0, dropped: 5_000 - 1_024 }]);
    assert.equal(done(), outcomes.dropped);
    server.resume();
    await until(() => tier.size.writes === 0);
    assert.deepEqual([outcomes.written, done(), tier.size.bytes], [1_024, 5_000, 0]);

    server.pause();
    // No more than are needed: a server that is silent for longer than a few seconds has gone.
    for (let count = 0; count < 40; count += 1) add(mebibyte);
    assert.ok(tier.size.bytes <= 32 * mebibyte && tier.size.bytes > 31 * mebibyte, `${tier.size.bytes} bytes`);
    server.resume();
    await until(() => tier.size.writes === 0);
    assert.equal(done(), 5_040);
  },
);

test(
  'an answer that the connection does not carry in a part of the time-out is not shared',
  { skip: noRedis },
  async (t) => {
    const { server, tier, outcomes, readable, addBody } = await tiers(t, 500);
    // A body of one repeated byte is small when it is compressed.
    for (const body of [randomBytes(11 * mebibyte), Buffer.alloc(11 * mebibyte, 'x'), randomBytes(9 * mebibyte)])
      addBody(body);
    await until(() => tier.size.writes === 0);
    assert.deepEqual(outcomes, { written: 2, failed: 0, dropped: 1 });
    assert.deepEqual(readable, [false, true, true]);
    const [page = '', ...pages] = await server.run((client) => client.keys('lg:*:4|*'));
    assert.deepEqual([pages, (await server.run((client) => client.hkeys(page))).toSorted()], [[], ['2', '3']]);
    assert.equal((await server.run((client) => client.keys('lg:*:=*'))).length, 2);
  },
);

test('writes to a server behind an open circuit fail at once', { skip: noRedis }, async (t) => {
  const { server, tier, outcomes, add, done } = await tiers(t, 50);
  server.pause();
  for (let count = 0; count < 1_000; count += 1) add(2_000);
  await until(() => tier.size.writes === 0);
  assert.deepEqual([outcomes.written, outcomes.failed, done()], [0, 1_000, 1_000]);
  server.resume();
});

test(
  'writes that a purge covers leave no reference in Redis, and the others are written',
  { skip: noRedis },
  async (t) => {
    const { server, tier, outcomes } = await tiers(t, 1_000);
    const add = (version: bigint, subject: string): Promise<boolean> =>
      new Promise((onDone) =>
        tier.store(keyAt(version, subject), answerOf(`${subject} at ${version}`), { head, onDone }),
      );
    const done = Array.from({ length: 60 }, (_, index) => [add(BigInt(index), '0x1/a'), add(BigInt(index), '0x2/a')]);

    await tier.drop(({ page }) => page.includes('0x1/'));
    const left = await server.run((client) => client.keys('*0x1/*'));
    await Promise.all(done.flat());

    assert.deepEqual([left, await server.run((client) => client.keys('*0x1/*'))], [[], []]);
    assert.equal(await server.run((client) => client.hlen(keys.page(keyAt(0n, '0x2/a')))), 60);
    assert.equal(outcomes.written, 60);
    assert.equal(outcomes.written + outcomes.failed + outcomes.dropped, 120);
    assert.deepEqual(tier.size, { writes: 0, bytes: 0 });
  },
);
