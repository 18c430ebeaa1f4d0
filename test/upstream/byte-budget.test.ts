import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ByteBudget, OverBudgetError } from '../../src/upstream/byte-budget.ts';

test('one answer takes no more than the largest, all together no more than all', () => {
  const budget = new ByteBudget({ largest: 10, all: 15 });
  const [one, other] = [budget.open(), budget.open()];
  one.take(10);
  assert.throws(() => one.take(1), OverBudgetError);
  other.take(5);
  assert.throws(() => other.take(1), OverBudgetError);
  one.close();
  one.close();
  assert.equal(budget.left, 10);
  other.take(5);
  other.close();
  assert.equal(budget.left, 15);
});
