import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Spans } from '../../../src/ledger/lib/spans.ts';
import { fc } from '../../support/fast-check.ts';
import { runScript, scriptsIn, type Steps } from '../../support/script.ts';

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

const scripts = `
a count stays until the end of the span after its own | add 500, add 1499 0 2, sum 1499 = 3, most 1499 = 3, sum 1500 = 3, most 1500 = 3, sum 2499 = 3, most 2499 = 3, sum 2500 = 0, most 2500 = 0
the counts of two spans are apart: their sum, and the larger one | add 0 1 5, add 1000 1 3, sum 1000 1 = 8, most 1000 1 = 5, sum 1000 0 = 0, add 2000 1, sum 2000 1 = 4, most 2000 1 = 3
after two spans without a look nothing is left, and none is after a clearance | add 0, sum 1999 = 1, sum 3999 = 0, add 3999, sum 5998 = 1, add 5998, clear, sum 5998 = 0, most 5998 = 0
`;

for (const [claim, script] of scriptsIn(scripts)) {
  test(claim, () => {
    const spans = new Spans(spanMs, 2);
    const steps: Steps = {
      add: (nowMs: number, counter?: number, amount?: number) => spans.at(nowMs).add(counter, amount),
      sum: (nowMs: number, counter?: number) => spans.at(nowMs).sum(counter),
      most: (nowMs: number, counter?: number) => spans.at(nowMs).most(counter),
      clear: () => spans.clear(),
    };
    return runScript(steps, script);
  });
}
