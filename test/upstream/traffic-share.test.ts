import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TrafficShare } from '../../src/upstream/traffic-share.ts';

test('however many ask, what is given is a share of the traffic and what was saved', () => {
  const budget = new TrafficShare({ share: 0.2, most: 5 });
  let given = 0;
  for (let request = 0; request < 1_000; request += 1) {
    budget.earn();
    for (let asked = 0; asked < 3; asked += 1) if (budget.spend(0)) given += 1;
  }
  assert.ok(given >= 200 && given <= 205, String(given));
});

test('what nobody asks for is saved up to a bound', () => {
  const budget = new TrafficShare({ share: 1, most: 3 });
  for (let request = 0; request < 100; request += 1) budget.earn();
  assert.deepEqual(
    [1, 2, 3, 4].map(() => budget.spend(0)),
    [true, true, true, false],
  );
});

test('time earns as well, where it is told to', () => {
  const budget = new TrafficShare({ share: 0, perSecond: 10, most: 2 });
  assert.deepEqual([budget.spend(0), budget.spend(0), budget.spend(0)], [true, true, false]);
  assert.deepEqual([budget.spend(99), budget.spend(101)], [false, true]);
  assert.deepEqual([budget.spend(60_000), budget.spend(60_000), budget.spend(60_000)], [true, true, false]);
});
