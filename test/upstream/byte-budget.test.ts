import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ByteBudget, OverBudgetError, type Share } from '../../src/upstream/byte-budget.ts';

const kib = 1024;

/** A share that notes when it is revoked. */
function openShare(budget: ByteBudget): { share: Share; isRevoked(): boolean } {
  let revoked = false;
  const share = budget.open(() => {
    revoked = true;
  });
  return { share, isRevoked: () => revoked };
}

test('one answer takes no more than the largest, all together no more than all', () => {
  const budget = new ByteBudget({ largest: 1_000 * kib, all: 1_500 * kib });
  const [one, other] = [openShare(budget).share, openShare(budget).share];
  one.take(1_000 * kib);
  assert.throws(() => one.take(1), OverBudgetError);
  other.take(500 * kib);
  assert.throws(() => other.take(1), OverBudgetError);
  one.close();
  one.close();
  assert.equal(budget.left, 1_000 * kib);
  other.take(500 * kib);
  other.close();
  assert.equal(budget.left, 1_500 * kib);
});

test('when answers do not fit together, the oldest is read to its end', () => {
  const budget = new ByteBudget({ largest: 1_000 * kib, all: 1_000 * kib });
  const [oldest, middle, youngest] = [openShare(budget), openShare(budget), openShare(budget)];
  for (const { share } of [oldest, middle, youngest]) share.take(300 * kib);

  oldest.share.take(300 * kib);

  assert.deepEqual([oldest.isRevoked(), middle.isRevoked(), youngest.isRevoked()], [false, false, true]);
  assert.throws(() => youngest.share.take(1), OverBudgetError);
  assert.equal(budget.held, 900 * kib);
});

test('an answer that is short is never refused, and counted', () => {
  const budget = new ByteBudget({ largest: 1_000 * kib, all: 1_000 * kib });
  openShare(budget).share.take(1_000 * kib);

  openShare(budget).share.take(64 * kib);

  assert.equal(budget.left, -64 * kib);
});

test('onShort is called before an answer is refused or revoked', () => {
  const budget = new ByteBudget({ largest: 1_000 * kib, all: 1_000 * kib });
  const release = budget.hold(900 * kib);
  const asked: number[] = [];
  budget.onShort = (bytes) => {
    asked.push(bytes);
    release();
  };
  const { share } = openShare(budget);

  share.take(300 * kib);

  assert.deepEqual(asked, [200 * kib]);
  assert.equal(budget.held, 300 * kib);
});
