import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Allowance } from '../../../src/upstream/node/allowance.ts';
import { Semaphore } from '../../../src/upstream/node/limits.ts';

test('extra requests are a share of the traffic plus the saved balance', () => {
  const budget = new Allowance(0, 5);
  let given = 0;
  for (let request = 0; request < 1_000; request += 1) {
    budget.deposit(0.2);
    for (let asked = 0; asked < 3; asked += 1) if (budget.withdraw(0)) given += 1;
  }
  assert.ok(given >= 200 && given <= 205, String(given));
});

test('an unused balance is saved up to a bound', () => {
  const budget = new Allowance(0, 3);
  for (let request = 0; request < 100; request += 1) budget.deposit(1);
  assert.deepEqual(
    [1, 2, 3, 4].map(() => budget.withdraw(0)),
    [true, true, true, false],
  );
});

test('time adds to the balance when configured', () => {
  const budget = new Allowance(10, 2);
  assert.deepEqual([budget.withdraw(0), budget.withdraw(0), budget.withdraw(0)], [true, true, false]);
  assert.deepEqual([budget.withdraw(99), budget.withdraw(101)], [false, true]);
  assert.deepEqual([budget.withdraw(60_000), budget.withdraw(60_000), budget.withdraw(60_000)], [true, true, false]);
});

test('a semaphore gives out its limit, more where that is forced, and all again once released', () => {
  const semaphore = new Semaphore(2);
  assert.deepEqual([semaphore.tryAcquire(), semaphore.tryAcquire(), semaphore.tryAcquire()], [true, true, false]);
  semaphore.acquireUnbounded();
  semaphore.release();
  assert.deepEqual([semaphore.taken, semaphore.isFull], [2, true]);
  semaphore.release();
  assert.deepEqual([semaphore.isFull, semaphore.tryAcquire(), semaphore.taken], [false, true, 2]);
});
