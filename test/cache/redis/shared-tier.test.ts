/** Answers on their way to a real redis-server. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import type { AnswerContent } from '../../../src/cache/record.ts';
import { AnswerNames } from '../../../src/cache/redis/redis-keys.ts';
import { SharedTier } from '../../../src/cache/redis/shared-tier.ts';
import type { WriteOutcome } from '../../../src/cache/write-behind.ts';
import { answerOf, anyEpoch, keyAt } from '../../support/answers.ts';
import { linkTo } from '../../support/redis-link.ts';
import { until } from '../../support/redis-replica.ts';
import { noRedis, redisServer } from '../../support/redis-server.ts';

const mebibyte = 1024 * 1024;
const names = new AnswerNames('lg', 'test', anyEpoch);
const head = anyEpoch.checkpoint.version;

/** A tier before a real server. */
async function writing(t: TestContext, timeoutMs: number) {
  const server = await redisServer(t);
  const link = await linkTo(t, server, { timeoutMs });
  const outcomes = { written: 0, failed: 0, dropped: 0 };
  const times = { timeoutMs, ttlMs: 60_000, followMs: 0 };
  const wrote = (outcome: WriteOutcome, answers: number) => (outcomes[outcome] += answers);
  const counts = { wrote, lookedUp: () => {}, turned: () => {} };
  const tier = new SharedTier(
    link,
    times,
    () => names,
    () => undefined,
    counts,
  );
  const readable: (boolean | undefined)[] = [];
  const addBody = (body: Buffer, changes: Partial<AnswerContent> = {}): void => {
    const added = readable.push(undefined);
    const onDone = (isReadable: boolean) => (readable[added - 1] = isReadable);
    tier.store(keyAt(BigInt(added)), answerOf('', { body, ...changes }), { head, onDone });
  };
  return {
    server,
    tier,
    outcomes,
    addBody,
    /** Adds an answer of so many bytes. */
    add: (bytes: number) => addBody(Buffer.from(`${readable.length + 1}`.padEnd(bytes, 'x'))),
    /** Writes whose `onDone` was called. */
    done: () => readable.filter((isReadable) => isReadable !== undefined).length,
    /** Whether others find it, of each in the order in which they were added. */
    readable,
  };
}

test(
  'a server that does not answer: waiting writes are bounded in number and in bytes',
  { skip: noRedis },
  async (t) => {
    const { server, tier, outcomes, add, done } = await writing(t, 60_000);
    server.pause();
    for (let count = 0; count < 5_000; count += 1) add(10);
    assert.deepEqual([tier.size.writes, outcomes], [1_024, { written: 0, failed: 0, dropped: 5_000 - 1_024 }]);
    assert.equal(done(), outcomes.dropped);
    server.resume();
    await until('all are written', () => tier.size.writes === 0);
    assert.deepEqual([outcomes.written, done(), tier.size.bytes], [1_024, 5_000, 0]);

    server.pause();
    // No more than are needed: a server that is silent for longer than a few seconds has gone.
    for (let count = 0; count < 40; count += 1) add(mebibyte);
    assert.ok(tier.size.bytes <= 32 * mebibyte && tier.size.bytes > 31 * mebibyte, `${tier.size.bytes} bytes`);
    server.resume();
    await until('all are written', () => tier.size.writes === 0);
    assert.equal(done(), 5_040);
  },
);

test(
  'an answer that the connection does not carry in a part of the time-out is not shared',
  { skip: noRedis },
  async (t) => {
    const { server, tier, outcomes, readable, addBody } = await writing(t, 50);
    // A body of one repeated byte is small when it is compressed.
    for (const body of [randomBytes(2 * mebibyte), Buffer.alloc(2 * mebibyte, 'x'), randomBytes(900_000)])
      addBody(body);
    await until('all have ended', () => tier.size.writes === 0);
    assert.deepEqual(outcomes, { written: 2, failed: 0, dropped: 1 });
    assert.deepEqual(readable, [false, true, true]);
    const [page = '', ...pages] = await server.run((client) => client.keys('lg:*:4|*'));
    assert.deepEqual([pages, (await server.run((client) => client.hkeys(page))).toSorted()], [[], ['2', '3']]);
    assert.equal((await server.run((client) => client.keys('lg:*:=*'))).length, 2);
  },
);

test('an answer that cannot be encoded is a failure, and keeps no place', { skip: noRedis }, async (t) => {
  const { tier, outcomes, readable, addBody, add } = await writing(t, 1_000);
  addBody(Buffer.alloc(10), { status: 70_000 });
  add(10);
  await until('all have ended', () => tier.size.writes === 0);
  assert.deepEqual(outcomes, { written: 1, failed: 1, dropped: 0 });
  assert.deepEqual([readable, tier.size.bytes], [[false, true], 0]);
});

test('writes to a server behind an open circuit fail at once', { skip: noRedis }, async (t) => {
  const { server, tier, outcomes, add, done } = await writing(t, 50);
  server.pause();
  for (let count = 0; count < 1_000; count += 1) add(2_000);
  await until('nothing waits', () => tier.size.writes === 0, 1_000);
  assert.deepEqual([outcomes.written, outcomes.failed, done()], [0, 1_000, 1_000]);
  server.resume();
});

test(
  'writes that a purge covers leave no reference in Redis, and the others are written',
  { skip: noRedis },
  async (t) => {
    const { server, tier, outcomes } = await writing(t, 1_000);
    const add = (version: bigint, subject: string): Promise<boolean> =>
      new Promise((onDone) =>
        tier.store(keyAt(version, subject), answerOf(`${subject} at ${version}`), { head, onDone }),
      );
    const done = Array.from({ length: 60 }, (_, index) => [add(BigInt(index), '0x1/a'), add(BigInt(index), '0x2/a')]);

    await tier.drop(({ page }) => page.includes('0x1/'));
    const left = await server.run((client) => client.keys('*0x1/*'));
    await Promise.all(done.flat());

    assert.deepEqual([left, await server.run((client) => client.keys('*0x1/*'))], [[], []]);
    assert.equal(await server.run((client) => client.hlen(names.page(keyAt(0n, '0x2/a')))), 60);
    assert.equal(outcomes.written, 60);
    assert.equal(outcomes.written + outcomes.failed + outcomes.dropped, 120);
    assert.deepEqual(tier.size, { writes: 0, bytes: 0 });
  },
);
