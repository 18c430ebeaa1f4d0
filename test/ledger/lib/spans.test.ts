import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Spans } from '../../../src/ledger/lib/spans.ts';
import { fc } from '../../support/fast-check.ts';

const spanMs = 1_000;

test('what was added within the last span counts, and nothing of three spans ago', () => {
  const steps = fc.array(fc.record({ afterMs: fc.nat(1_500), amount: fc.nat(9), counter: fc.nat(1) }));
  fc.assert(
    fc.property(steps, fc.nat(5_000), (added, laterMs) => {
      const spans = new Spans(spanMs, 2);
      let nowMs = 0;
      const all = added.map(({ afterMs, ...rest }) => ({ atMs: (nowMs += afterMs), ...rest }));
      for (const { atMs, amount, counter } of all) spans.at(atMs).add(counter, amount);
      nowMs += laterMs;
      for (const counter of [0, 1]) {
        const within = (ms: number): number =>
          all.reduce((sum, each) => sum + (each.counter === counter && nowMs - each.atMs < ms ? each.amount : 0), 0);
        const [sum, most] = [spans.at(nowMs).sum(counter), spans.at(nowMs).most(counter)];
        assert.ok(sum >= within(spanMs) && sum <= within(3 * spanMs), `${sum} in all`);
        assert.ok(most <= sum && most >= sum / 2, `${most} of ${sum}`);
      }
    }),
  );
});

test('a count stays until the end of the span after its own', () => {
  const spans = new Spans(spanMs);
  spans.at(500).add();
  spans.at(1_499).add(0, 2);
  const counts = [1_499, 1_500, 2_499, 2_500].map((nowMs) => [spans.at(nowMs).sum(), spans.at(nowMs).most()]);
  assert.deepEqual(counts, [
    [3, 3],
    [3, 3],
    [3, 3],
    [0, 0],
  ]);
});

test('the counts of two spans are apart: their sum, and the larger one', () => {
  const spans = new Spans(spanMs, 2);
  spans.at(0).add(1, 5);
  spans.at(1_000).add(1, 3);
  assert.deepEqual([spans.sum(1), spans.most(1), spans.sum(0)], [8, 5, 0]);
  spans.at(2_000).add(1);
  assert.deepEqual([spans.sum(1), spans.most(1)], [4, 3]);
});

test('after two spans without a look nothing is left, and none is after `clear`', () => {
  const spans = new Spans(spanMs);
  spans.at(0).add();
  assert.deepEqual([spans.at(1_999).sum(), spans.at(3_999).sum()], [1, 0]);
  spans.add();
  assert.equal(spans.at(5_998).sum(), 1);
  spans.add();
  spans.clear();
  assert.deepEqual([spans.sum(), spans.most()], [0, 0]);
});
