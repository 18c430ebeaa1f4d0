import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Allowance } from '../../../src/ledger/lib/allowance.ts';
import { fc } from '../../support/fast-check.ts';
import { runScript, type Steps } from '../../support/script.ts';
import { rowsIn } from '../../support/tables.ts';

function stepsOf(allowance: Allowance): Steps {
  return {
    /** Tokens that can be taken now. */
    all: (nowMs: number) => {
      let taken = 0;
      while (taken < 1_000 && allowance.withdraw(nowMs)) taken += 1;
      return taken;
    },
    spare: (nowMs: number) => {
      let taken = 0;
      while (allowance.hasToSpare(nowMs) && allowance.withdraw(nowMs)) taken += 1;
      return taken;
    },
    withdraw: (nowMs: number) => allowance.withdraw(nowMs),
    spend: (nowMs: number) => allowance.spend(nowMs),
    deposit: (tokens: number) => allowance.deposit(tokens),
    refuse: (nowMs: number) => allowance.refuse(nowMs),
    /** `none`: without a rate. */
    change: (rate: number | 'none', nowMs: number) => allowance.change(rate === 'none' ? undefined : rate, nowMs),
    tokens: (nowMs: number) => allowance.tokens(nowMs),
    freeIn: (nowMs: number) => allowance.freeInMs(nowMs),
    isSpent: (nowMs: number) => allowance.isSpent(nowMs),
    hasToSpare: (nowMs: number) => allowance.hasToSpare(nowMs),
  };
}

/** Claim, tokens a second, burst where it is not that of one second, and script. */
const scripts = `
a burst of one second is there at the start, and then the rate | 20 | | all 0 = 20, all 0 = 0, all 50 = 1, all 149 = 1, all 150 = 1, all 650 = 10, all 10000 = 20
a rate below one a second saves one token | 0.25 | | all 0 = 1, all 3999 = 0, all 4000 = 1, all 60000 = 1
without a rate every token is there, and none is reported | none | | all 0 = 1000, tokens 0 = undefined, isSpent 0 = false, hasToSpare 0 = true, freeIn 0 = 0
a probe is sent without a token and leaves a debt of at most one burst | 10 | | all 0 = 10, 3x spend 0, tokens 0 = -3, freeIn 0 = 400, withdraw 399 = false, withdraw 400 = true, 100x spend 400, tokens 400 = -10
a request that was not sent returns its token, up to the burst | 2 | | all 0 = 2, deposit 1, all 0 = 1, 5x deposit 1, all 0 = 2
a burst of its own is the most that time saves | 10 | 2 | all 0 = 2, all 99 = 0, all 101 = 1, all 60000 = 2
requests that no client waits for leave half of the burst | 10 | | spare 0 = 5, tokens 0 = 5
and the only token | 0.5 | | hasToSpare 0 = false
a changed rate counts at once: saved tokens stay, up to the new burst | 10 | | 8x withdraw 0, change 40 0, tokens 0 = 2, tokens 100 = 6, change 3 100, tokens 100 = 3, change none 100, isSpent 100 = false, change 5 200, tokens 200 = 5
a used-up allowance is news once, and again after a minute without a refused request | 1 | | refuse 0 = true, refuse 1 = false, refuse 60000 = false, refuse 120000 = false, refuse 180001 = true
`;

for (const [claim = '', rate = '', burst, script = ''] of rowsIn(scripts)) {
  test(claim, () => {
    const allowance = new Allowance(rate === 'none' ? undefined : Number(rate), burst ? Number(burst) : undefined);
    return runScript(stepsOf(allowance), script);
  });
}

test('without a rate, deposits alone add tokens: a share of the requests, and what was saved', () => {
  const allowance = new Allowance(0, 5);
  let taken = 0;
  for (let request = 0; request < 1_000; request += 1) {
    allowance.deposit(0.2);
    for (let asked = 0; asked < 3; asked += 1) taken += Number(allowance.withdraw(request));
  }
  assert.equal(taken, 204);
  assert.equal(allowance.freeInMs(1_000), Infinity);
});

test('requests at any times: within any span no more are sent than its length and one burst allow', () => {
  const steps = fc.array(fc.record({ afterMs: fc.nat(2_000), count: fc.nat(30) }));
  fc.assert(
    fc.property(fc.double({ min: 0.1, max: 50, noNaN: true }), steps, (perSecond, taken) => {
      const allowance = new Allowance(perSecond);
      const burst = Math.max(1, perSecond);
      const sentMs: number[] = [];
      let nowMs = 0;
      for (const { afterMs, count } of taken) {
        nowMs += afterMs;
        for (let index = 0; index < count; index += 1) if (allowance.withdraw(nowMs)) sentMs.push(nowMs);
      }
      for (const [first, fromMs] of sentMs.entries()) {
        for (let last = first; last < sentMs.length; last += 1) {
          const seconds = ((sentMs[last] ?? 0) - fromMs) / 1_000;
          assert.ok(last - first + 1 <= seconds * perSecond + burst + 1e-6);
        }
      }
    }),
  );
});
