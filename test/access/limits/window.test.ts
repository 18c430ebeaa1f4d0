/** Windows against an exact log of what was let in. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Bounds, LimitCount } from '../../../src/access/limits/counter.ts';
import { MemoryCounter } from '../../../src/access/limits/memory-counter.ts';
import { partMsOf, Window } from '../../../src/access/limits/window.ts';
import { fc } from '../../support/fast-check.ts';

interface Step {
  readonly afterMs: number;
  readonly amount: number;
}

const steps = fc.array(
  fc.record({ afterMs: fc.oneof(fc.nat(30), fc.nat(3_000)), amount: fc.integer({ min: 1, max: 5 }) }),
  { minLength: 1, maxLength: 200 },
);
const spans = fc.integer({ min: 1_000, max: 4_000 });
const limits = fc.integer({ min: 5, max: 40 });
const starts = fc.nat(2 ** 31);

/** Lets in what has room; gives the exact log. */
function run({ spanMs, limit, startMs, given }: { spanMs: number; limit: number; startMs: number; given: Step[] }) {
  const window = new Window(spanMs);
  const log: { readonly atMs: number; readonly amount: number }[] = [];
  const refused: { readonly atMs: number; readonly amount: number; readonly freeAtMs: number }[] = [];
  let nowMs = startMs;
  for (const { afterMs, amount } of given) {
    nowMs += afterMs;
    const freeAtMs = window.freeAtMs(nowMs, limit - amount);
    if (freeAtMs <= nowMs) {
      window.add(nowMs, amount);
      log.push({ atMs: nowMs, amount });
    } else refused.push({ atMs: nowMs, amount, freeAtMs });
  }
  return { log, refused };
}

const property = { spanMs: spans, limit: limits, startMs: starts, given: steps };

test('no span of time holds more than the limit, wherever it begins', () => {
  fc.assert(
    fc.property(fc.record(property), (input) => {
      const { log } = run(input);
      for (const { atMs: fromMs } of log) {
        const within = log.filter(({ atMs }) => atMs >= fromMs && atMs <= fromMs + input.spanMs);
        assert.ok(within.reduce((sum, { amount }) => sum + amount, 0) <= input.limit);
      }
    }),
  );
});

test('a refused amount would exceed a span that is one part longer', () => {
  fc.assert(
    fc.property(fc.record(property), (input) => {
      const { log, refused } = run(input);
      const longerMs = input.spanMs + partMsOf(input.spanMs) + 20;
      for (const { atMs: nowMs, amount } of refused) {
        const within = log.filter(({ atMs }) => atMs <= nowMs && atMs > nowMs - longerMs);
        assert.ok(within.reduce((sum, entry) => sum + entry.amount, amount) > input.limit);
      }
    }),
  );
});

test('a window computes exactly the time of room', () => {
  fc.assert(
    fc.property(fc.record(property), ({ spanMs, limit, startMs, given }) => {
      const window = new Window(spanMs);
      let nowMs = startMs;
      for (const { afterMs, amount } of given) {
        nowMs += afterMs;
        const freeAtMs = window.freeAtMs(nowMs, limit - amount);
        if (freeAtMs > nowMs) {
          assert.ok(freeAtMs - nowMs <= spanMs + 2 * partMsOf(spanMs));
          assert.ok(window.freeAtMs(freeAtMs - 1, limit - amount) > freeAtMs - 1, 'not before');
          assert.equal(window.freeAtMs(freeAtMs, limit - amount), freeAtMs, 'and then');
          nowMs = freeAtMs;
        }
        window.add(nowMs, amount);
      }
    }),
  );
});

test('a window computes exactly the time at which a part is freed', () => {
  fc.assert(
    fc.property(spans, starts, steps, (spanMs, startMs, given) => {
      const [window, twin] = [new Window(spanMs), new Window(spanMs)];
      let nowMs = startMs;
      for (const { afterMs, amount } of given) {
        nowMs += afterMs;
        // Some are looked at before anything is added, so that windows without anything in use are among them.
        const used = window.used(nowMs);
        const freeAtMs = window.nextFreeAtMs(nowMs);
        assert.equal(freeAtMs === undefined, used === 0);
        if (amount > 3) continue;
        for (const one of [window, twin]) one.add(nowMs, amount);
      }
      const used = window.used(nowMs);
      const freeAtMs = window.nextFreeAtMs(nowMs);
      if (freeAtMs === undefined) return assert.equal(used, 0);
      assert.equal(twin.used(freeAtMs - 1), used);
      assert.ok(twin.used(freeAtMs) < used);
    }),
  );
});

test('a clock that goes back frees nothing', () => {
  const window = new Window(1_000);
  window.add(100_000, 5);
  assert.equal(window.used(50_000), 5);
  window.add(50_000, 1);
  assert.equal(window.used(101_000), 6);
  assert.equal(window.used(101_050), 0);
});

/** An account at times that a test gives. */
function account() {
  let nowMs = 0;
  const counter = new MemoryCounter(1, undefined, () => nowMs);
  const ends: ((extraCost: number) => void)[] = [];
  return {
    take: (bounds: Bounds, cost: number, atMs: number): LimitCount => {
      nowMs = atMs;
      const { count, settle } = counter.take({ subject: 'a', hasKey: true, bounds, cost });
      if (count.isAdmitted) ends.push(settle);
      return count;
    },
    /** Ends the oldest request. */
    settle: (extraCost: number, atMs: number): void => {
      nowMs = atMs;
      ends.shift()?.(extraCost);
    },
  };
}

test('all bounds hold together, and the slowest decides the time of the next attempt', () => {
  const { take, settle } = account();
  const bounds = { windowMs: 10_000, requests: 3, burst: 2, concurrency: 2, cost: 100 };
  assert.equal(take(bounds, 1, 0).isAdmitted, true);
  assert.deepEqual(take(bounds, 1, 10), {
    isAdmitted: true,
    standings: [
      { name: 'requests', remaining: 1, freeInMs: 10_490 },
      { name: 'cost', remaining: 98, freeInMs: 10_490 },
      { name: 'burst', remaining: 0, freeInMs: 1_040 },
    ],
  });
  const burst = take(bounds, 1, 20);
  assert.ok(!burst.isAdmitted && burst.over === 'burst' && burst.freeInMs === 1_030);
  const busy = take(bounds, 1, 2_000);
  assert.ok(!busy.isAdmitted && busy.over === 'concurrency');
  settle(0, 2_000);
  assert.equal(take(bounds, 1, 2_000).isAdmitted, true);
  settle(0, 2_100);
  settle(0, 2_100);
  const over = take(bounds, 1, 4_000);
  assert.ok(!over.isAdmitted && over.over === 'requests' && over.freeInMs === 6_500);
});

test('cost beyond the charge may go over the limit, and then nothing is let in until it is paid', () => {
  const { take, settle } = account();
  const bounds = { windowMs: 1_000, cost: 10 };
  assert.equal(take(bounds, 2, 0).isAdmitted, true);
  settle(500, 100);
  const over = take(bounds, 2, 200);
  assert.ok(!over.isAdmitted && over.over === 'cost' && over.freeInMs === 950);
  assert.deepEqual(over.standings, [{ name: 'cost', remaining: 0, freeInMs: 850 }]);
  assert.equal(take(bounds, 2, 1_150).isAdmitted, true);
});

test('a bound on cost admits what still fits, and no more', () => {
  const { take } = account();
  const bounds = { windowMs: 10_000, cost: 10 };
  assert.equal(take(bounds, 6, 0).isAdmitted, true);
  assert.deepEqual(take(bounds, 5, 0), {
    isAdmitted: false,
    over: 'cost',
    freeInMs: 10_500,
    standings: [{ name: 'cost', remaining: 4, freeInMs: 10_500 }],
  });
  assert.equal(take(bounds, 4, 0).isAdmitted, true);
  assert.equal(take(bounds, 1, 0).isAdmitted, false);
});

test('a request that costs more than a window grants is possible in an empty one', () => {
  const { take } = account();
  assert.equal(take({ windowMs: 1_000, cost: 5 }, 50, 0).isAdmitted, true);
  assert.equal(take({ windowMs: 1_000, cost: 5 }, 1, 10).isAdmitted, false);
});

test('a request that cost less than its charge gives nothing back', () => {
  const { take, settle } = account();
  const bounds = { windowMs: 1_000, cost: 10 };
  assert.equal(take(bounds, 2, 0).isAdmitted, true);
  settle(-2, 10);
  assert.deepEqual(
    take(bounds, 2, 20).standings.map(({ remaining }) => remaining),
    [6],
  );
});

test('with nothing in use there is no time at which something is free', () => {
  const refused = account().take({ windowMs: 1_000, requests: 3, concurrency: 0 }, 1, 0);
  assert.equal(refused.isAdmitted, false);
  assert.deepEqual(refused.standings, [{ name: 'requests', remaining: 3, freeInMs: undefined }]);
});
