import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { answerBytes, type AnswerContent } from '../../../src/cache/entry.ts';
import { connectRedis } from '../../../src/cache/redis/redis-client.ts';
import { RedisLink } from '../../../src/cache/redis/redis-link.ts';
import { RedisWrites } from '../../../src/cache/redis/redis-writes.ts';
import type { WriteOutcome } from '../../../src/cache/write-behind.ts';
import { answerOf, keyAt } from '../../support/answers.ts';
import { until } from '../../support/redis-replica.ts';
import { noRedis, redisServer, type RedisServer } from '../../support/redis-server.ts';

const mebibyte = 1024 * 1024;

interface Writing {
  readonly server: RedisServer;
  readonly queue: RedisWrites;
  readonly outcomes: Record<WriteOutcome, number>;
  /** Adds an answer of so many bytes. */
  readonly add: (bytes: number) => void;
  readonly addBody: (body: Buffer, changes?: Partial<AnswerContent>) => void;
  /** Writes whose `onDone` was called. */
  readonly done: () => number;
  /** Whether others find it, of each in the order in which they were added. */
  readonly readable: () => readonly (boolean | undefined)[];
}

/** A queue before a real server. */
async function writing(t: TestContext, timeoutMs: number): Promise<Writing> {
  const server = await redisServer(t);
  const link = new RedisLink((onError) => connectRedis({ kind: 'single', url: server.url }, onError), {
    timeoutMs,
    trialKey: 'trial',
    onFailure: () => {},
    onTrouble: () => {},
  });
  t.after(() => link.close());
  await until('the link is up', () => link.trouble('circuit open') === undefined);
  const outcomes = { written: 0, failed: 0, dropped: 0 };
  const queue = new RedisWrites(link, (outcome, answers) => (outcomes[outcome] += answers));
  const readable: (boolean | undefined)[] = [];
  const addBody = (body: Buffer, changes: Partial<AnswerContent> = {}): void => {
    const answer = answerOf('', { body, ...changes });
    const added = readable.push(undefined);
    const names = { page: `page${added}`, answer: `answer${added}` };
    const reference = { digest: answer.digest, expiresAt: undefined };
    const write = {
      key: keyAt(1n),
      bytes: answerBytes(answer),
      answer,
      reference,
      names,
      ttlMs: 60_000,
      overwrite: false,
    };
    queue.add({ ...write, onDone: (isReadable) => (readable[added - 1] = isReadable) });
  };
  return {
    server,
    queue,
    outcomes,
    addBody,
    add: (bytes) => addBody(Buffer.from(`${readable.length + 1}`.padEnd(bytes, 'x'))),
    done: () => readable.filter((isReadable) => isReadable !== undefined).length,
    readable: () => readable,
  };
}

test('a server that does not answer: waiting writes are bounded in number', { skip: noRedis }, async (t) => {
  const { server, queue, outcomes, add, done } = await writing(t, 60_000);
  server.pause();
  for (let count = 0; count < 5_000; count += 1) add(10);
  assert.equal(queue.size.writes, 1_024);
  assert.deepEqual(outcomes, { written: 0, failed: 0, dropped: 5_000 - 1_024 });
  assert.equal(done(), outcomes.dropped);

  server.resume();
  await until('all are written', () => queue.size.writes === 0);
  assert.deepEqual([outcomes.written, done(), queue.size.bytes], [1_024, 5_000, 0]);
});

test('a server that does not answer: waiting writes are bounded in bytes', { skip: noRedis }, async (t) => {
  const { server, queue, outcomes, add } = await writing(t, 60_000);
  server.pause();
  // No more than are needed: a server that is silent for longer than a few seconds has gone.
  for (let count = 0; count < 40; count += 1) add(mebibyte);
  assert.ok(queue.size.bytes <= 32 * mebibyte && queue.size.bytes > 31 * mebibyte, `${queue.size.bytes} bytes`);
  assert.equal(outcomes.dropped, 40 - queue.size.writes);
  server.resume();
  await until('all are written', () => queue.size.writes === 0);
  assert.equal(outcomes.written + outcomes.dropped, 40);
});

test(
  'an answer that the connection does not carry in a part of the time-out is not shared',
  { skip: noRedis },
  async (t) => {
    const { server, queue, outcomes, readable, addBody } = await writing(t, 50);
    // A body of one repeated byte is small when it is compressed.
    for (const body of [randomBytes(2 * mebibyte), Buffer.alloc(2 * mebibyte, 'x'), randomBytes(900_000)])
      addBody(body);
    await until('all have ended', () => queue.size.writes === 0);
    assert.deepEqual(outcomes, { written: 2, failed: 0, dropped: 1 });
    assert.deepEqual(readable(), [false, true, true]);
    assert.deepEqual((await server.run((client) => client.keys('*'))).toSorted(), [
      'answer2',
      'answer3',
      'page2',
      'page3',
    ]);
  },
);

test('an answer that cannot be encoded is a failure, and keeps no place', { skip: noRedis }, async (t) => {
  const { queue, outcomes, readable, addBody, add } = await writing(t, 1_000);
  addBody(Buffer.alloc(10), { status: 70_000 });
  add(10);
  await until('all have ended', () => queue.size.writes === 0);
  assert.deepEqual(outcomes, { written: 1, failed: 1, dropped: 0 });
  assert.deepEqual([readable(), queue.size.bytes], [[false, true], 0]);
});

test('writes to a server behind an open circuit fail at once', { skip: noRedis }, async (t) => {
  const { server, queue, outcomes, add, done } = await writing(t, 50);
  server.pause();
  for (let count = 0; count < 1_000; count += 1) add(2_000);
  await until('nothing waits', () => queue.size.writes === 0, 1_000);
  assert.deepEqual([outcomes.written, outcomes.failed, done()], [0, 1_000, 1_000]);
  server.resume();
});
