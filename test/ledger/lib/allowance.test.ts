import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Allowance } from '../../../src/ledger/lib/allowance.ts';
import { fc } from '../../support/fast-check.ts';

/** Tokens that can be taken at `nowMs`. */
function takeAll(allowance: Allowance, nowMs: number): number {
  let taken = 0;
  while (taken < 1_000 && allowance.withdraw(nowMs)) taken += 1;
  return taken;
}

test('a burst of one second is there at the start, and then the rate', () => {
  const allowance = new Allowance(20);

  assert.deepEqual(
    [0, 0, 50, 149, 150, 650, 10_000].map((nowMs) => takeAll(allowance, nowMs)),
    [20, 0, 1, 1, 1, 10, 20],
  );
});

test('a rate below one a second saves one token', () => {
  const allowance = new Allowance(0.25);

  assert.deepEqual(
    [0, 3_999, 4_000, 60_000].map((nowMs) => takeAll(allowance, nowMs)),
    [1, 0, 1, 1],
  );
});

test('without a rate every token is there, and none is reported', () => {
  const allowance = new Allowance(undefined);

  assert.equal(takeAll(allowance, 0), 1_000);
  assert.equal(allowance.tokens(0), undefined);
  assert.deepEqual([allowance.isSpent(0), allowance.hasToSpare(0), allowance.freeInMs(0)], [false, true, 0]);
});

test('a probe is sent without a token and leaves a debt of at most one burst', () => {
  const allowance = new Allowance(10);
  takeAll(allowance, 0);
  for (let probes = 0; probes < 3; probes += 1) allowance.spend(0);

  assert.equal(allowance.tokens(0), -3);
  assert.equal(allowance.freeInMs(0), 400);
  assert.deepEqual([allowance.withdraw(399), allowance.withdraw(400)], [false, true]);
  for (let probes = 0; probes < 100; probes += 1) allowance.spend(400);
  assert.equal(allowance.tokens(400), -10);
});

test('a request that was not sent returns its token, up to the burst', () => {
  const allowance = new Allowance(2);
  takeAll(allowance, 0);
  allowance.deposit(1);
  assert.equal(takeAll(allowance, 0), 1);
  for (let times = 0; times < 5; times += 1) allowance.deposit(1);
  assert.equal(takeAll(allowance, 0), 2);
});

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

test('a burst of its own is the most that time saves', () => {
  const allowance = new Allowance(10, 2);

  assert.deepEqual(
    [0, 99, 101, 60_000].map((nowMs) => takeAll(allowance, nowMs)),
    [2, 0, 1, 2],
  );
});

test('requests that no client waits for leave half of the burst, and the only token', () => {
  const allowance = new Allowance(10);
  let spare = 0;
  while (allowance.hasToSpare(0) && allowance.withdraw(0)) spare += 1;

  assert.deepEqual([spare, allowance.tokens(0)], [5, 5]);
  assert.equal(new Allowance(0.5).hasToSpare(0), false);
});

test('a changed rate counts at once: saved tokens stay, up to the new burst', () => {
  const allowance = new Allowance(10);
  for (let taken = 0; taken < 8; taken += 1) allowance.withdraw(0);

  allowance.change(40, 0);
  assert.equal(allowance.tokens(0), 2);
  assert.equal(allowance.tokens(100), 6);
  allowance.change(3, 100);
  assert.equal(allowance.tokens(100), 3);
  allowance.change(undefined, 100);
  assert.equal(allowance.isSpent(100), false);
  allowance.change(5, 200);
  assert.equal(allowance.tokens(200), 5);
});

test('a used-up allowance is news once, and again after a minute without a refused request', () => {
  const allowance = new Allowance(1);

  assert.deepEqual(
    [0, 1, 60_000, 120_000, 180_001].map((nowMs) => allowance.refuse(nowMs)),
    [true, false, false, false, true],
  );
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
