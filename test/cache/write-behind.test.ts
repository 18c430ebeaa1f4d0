/** The queue of answers on their way to a tier, before one that answers when the test says so. */
import assert from 'node:assert/strict';
import { mock, test, type TestContext } from 'node:test';
import type { CacheKey } from '../../src/cache/key.ts';
import { WriteBehind, type QueuedWrite, type WriteOutcome } from '../../src/cache/write-behind.ts';
import { keyAt } from '../support/answers.ts';

type Bounds = ConstructorParameters<typeof WriteBehind>[0];

/** A batch that the tier has received. */
interface Sent {
  readonly versions: readonly number[];
  answer(outcome: WriteOutcome): void;
  fail(): void;
}

interface Write extends QueuedWrite {
  readonly version: number;
}

/** Keeps the batches that it is sent. */
class Tier extends WriteBehind<Write> {
  readonly sent: Sent[] = [];
  /** Versions that a purge covered, of each batch at its end. */
  readonly unwanted: number[][] = [];

  protected override async send(batch: readonly Write[]): Promise<WriteOutcome> {
    const { promise, resolve, reject } = Promise.withResolvers<WriteOutcome>();
    const fail = () => reject(new Error('no memory'));
    this.sent.push({ versions: batch.map(({ version }) => version), answer: resolve, fail });
    const outcome = await promise;
    this.unwanted.push(batch.filter((write) => this.isUnwanted(write)).map(({ version }) => version));
    return outcome;
  }
}

const bounds: Bounds = { writes: 10, bytes: 1_000, batch: { writes: 1, bytes: 1_000 }, concurrent: 2, gatherMs: 0 };

function scene(changes: Partial<Bounds> = {}) {
  const outcomes = { written: 0, failed: 0, dropped: 0 };
  const tier = new Tier({ ...bounds, ...changes }, (outcome, answers) => (outcomes[outcome] += answers));
  const readable = new Map<number, boolean>();
  let added = 0;
  return {
    tier,
    outcomes,
    /** By version, once the write has ended. */
    readable,
    /** Adds an answer of so many bytes, at the next version. */
    add: (bytes = 10): void => {
      const version = (added += 1);
      const onDone = (isReadable: boolean) => {
        assert.ok(!readable.has(version), `${version} has ended before`);
        readable.set(version, isReadable);
      };
      tier.add({ key: keyAt(BigInt(version)), bytes, version, onDone });
    },
  };
}

const isAt =
  (...versions: readonly number[]) =>
  ({ slot }: CacheKey): boolean =>
    versions.includes(slot);

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

function mockTimers(t: TestContext): void {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
}

test('answers beyond the number, those in flight included, are dropped at once', async () => {
  const { tier, add, outcomes, readable } = scene();
  for (let count = 0; count < 15; count += 1) add();
  assert.deepEqual([tier.sent.length, tier.size, outcomes.dropped], [2, { writes: 10, bytes: 100 }, 5]);
  assert.deepEqual([...readable.keys()], [11, 12, 13, 14, 15]);

  tier.sent[0]?.answer('written');
  await settled();
  assert.deepEqual(tier.size, { writes: 9, bytes: 90 });
  add();
  add();
  assert.deepEqual([tier.size.writes, outcomes], [10, { written: 1, failed: 0, dropped: 6 }]);
});

test('answers beyond the bytes are dropped, and so is one that is too large by itself', () => {
  const { tier, add, outcomes } = scene({ largest: 600 });
  add(600);
  add(401);
  add(400);
  add(1);
  assert.deepEqual([tier.size, outcomes.dropped], [{ writes: 2, bytes: 1_000 }, 2]);
  const other = scene({ largest: 600 });
  other.add(601);
  assert.deepEqual([other.tier.size, other.readable.get(1)], [{ writes: 0, bytes: 0 }, false]);
});

test('a batch has its bounds, and a larger answer goes alone', async (t) => {
  mockTimers(t);
  const { tier, add } = scene({ batch: { writes: 3, bytes: 100 }, concurrent: 1, gatherMs: 2 });
  for (const bytes of [10, 10, 10, 10, 95, 150, 50, 50]) add(bytes);
  assert.equal(tier.sent.length, 0);
  mock.timers.tick(2);
  for (let batch = 0; batch < 5; batch += 1) {
    assert.equal(tier.sent.length, batch + 1);
    tier.sent[batch]?.answer('written');
    await settled();
  }
  assert.deepEqual(
    tier.sent.map(({ versions }) => versions),
    [[1, 2, 3], [4], [5], [6], [7, 8]],
  );
  assert.deepEqual(tier.size, { writes: 0, bytes: 0 });
});

test('answers gather while a batch is in flight, and for a moment once none is', async (t) => {
  mockTimers(t);
  const { tier, add } = scene({ batch: { writes: 10, bytes: 1_000 }, concurrent: 1, gatherMs: 2 });
  add();
  mock.timers.tick(2);
  add();
  add();
  mock.timers.tick(100);
  assert.equal(tier.sent.length, 1);
  tier.sent[0]?.answer('written');
  await settled();
  assert.deepEqual(tier.sent[1]?.versions, [2, 3]);
  tier.sent[1]?.answer('written');
  await settled();
  add();
  mock.timers.tick(1);
  assert.equal(tier.sent.length, 2);
  mock.timers.tick(1);
  assert.deepEqual(tier.sent[2]?.versions, [4]);
});

test('a purge drops what waits, tells what is in flight, and waits for that alone', async () => {
  const { tier, add, outcomes, readable } = scene();
  for (let count = 0; count < 5; count += 1) add();
  let isOver = false;
  const dropped = tier.drop(isAt(1, 3, 5)).then(() => (isOver = true));
  assert.deepEqual([outcomes.dropped, tier.size], [2, { writes: 3, bytes: 30 }]);

  await settled();
  assert.equal(isOver, false);
  tier.sent[0]?.answer('failed');
  await dropped;
  tier.sent[1]?.answer('written');
  await settled();
  assert.deepEqual(tier.unwanted, [[1], []]);
  tier.sent[2]?.answer('written');
  await settled();
  assert.deepEqual(outcomes, { written: 2, failed: 1, dropped: 2 });
  assert.deepEqual(
    [...readable].filter(([, isReadable]) => isReadable).map(([version]) => version),
    [2, 4],
  );
  await tier.drop(() => true);
});

test('a batch that cannot be sent has failed, and keeps no place', async () => {
  const { tier, add, outcomes, readable } = scene();
  add();
  tier.sent[0]?.fail();
  await settled();
  assert.deepEqual([outcomes.failed, readable.get(1), tier.size], [1, false, { writes: 0, bytes: 0 }]);
});

test('at the end what waits is written, and what comes is dropped', async () => {
  const { tier, add, outcomes } = scene({ concurrent: 1, gatherMs: 60_000 });
  add();
  add();
  const closed = tier.close();
  add();
  assert.equal(outcomes.dropped, 1);
  for (const batch of [0, 1]) {
    tier.sent[batch]?.answer('written');
    await settled();
  }
  await closed;
  assert.deepEqual(outcomes, { written: 2, failed: 0, dropped: 1 });
});

test('a tier that does not answer delays the end for a second', async (t) => {
  mockTimers(t);
  const { tier, add, outcomes } = scene({ concurrent: 1 });
  add();
  add();
  const closed = tier.close();
  let isOver = false;
  void closed.then(() => (isOver = true));
  mock.timers.tick(900);
  await settled();
  assert.equal(isOver, false);
  mock.timers.tick(100);
  await closed;
  assert.deepEqual([outcomes.dropped, tier.size.writes], [1, 1]);
});
