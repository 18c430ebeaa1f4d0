/** Windows against an exact log of what was let in. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { costOf, leastCostOf, type Settled } from '../../../src/access/limits/cost.ts';
import {
  type Bounds,
  type LimitCount,
  type Charge,
  type Counted,
  limitHeaders,
} from '../../../src/access/limits/counter.ts';
import { MemoryCounter } from '../../../src/access/limits/memory-counter.ts';
import { GatewayCounts } from '../../../src/access/limits/primary-counter.ts';
import { partMsOf, Window } from '../../../src/access/limits/window.ts';
import { fc } from '../../support/fast-check.ts';
import {
  isAdmitted,
  peersOf,
  planOf,
  principalOf,
  replica,
  type Replica,
  hit,
  usualCosts,
} from '../../support/limits.ts';

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

// Counting in memory, and what it costs to have many addresses.

function charge(subject: string, changes: Partial<Charge> = {}): Charge {
  return { subject, hasKey: true, bounds: { windowMs: 10_000, requests: 3 }, cost: 1, ...changes };
}

const hasRoom = ({ count }: Counted): boolean => count.isAdmitted;

test('tenants are counted apart, and each process of several grants its share', () => {
  const counter = new MemoryCounter();
  const admitted = (subject: string) => [1, 2, 3, 4].filter(() => hasRoom(counter.take(charge(subject)))).length;
  assert.equal(admitted('a'), 3);
  assert.equal(admitted('b'), 3);
  const half = new MemoryCounter(2);
  assert.equal([1, 2, 3, 4].filter(() => hasRoom(half.take(charge('a')))).length, 1);
});

test('any number of addresses takes bounded memory, and evicts no key; one forgets its debt only behind as many', () => {
  // No debt is forgiven while this runs, however long it takes.
  const counter = new MemoryCounter(1, undefined, () => 0);
  const address = (name: string) => hasRoom(counter.take(charge(name, { hasKey: false })));
  for (let count = 0; count < 3; count += 1) counter.take(charge('key'));
  for (let count = 0; count < 3; count += 1) address('greedy');
  for (let others = 0; others < 16_383; others += 1) address(`other ${others}`);
  assert.equal(address('greedy'), false);
  for (let others = 0; others < 20_000; others += 1) address(`another ${others}`);
  assert.equal(counter.size, 16_385);
  assert.equal(hasRoom(counter.take(charge('key'))), false, 'its debt is still known');
});

test('workers together get what one process would grant, and a worker that is gone holds no place', async (t) => {
  const service = new GatewayCounts();
  const principal = principalOf(planOf({ requests: 10, concurrency: 6 }));
  const join = (id: number): Promise<Replica> => replica(t, { peers: peersOf(service, id), processes: 2 });
  const hammer = async (...workers: readonly Replica[]) => {
    const turns = [...Array(20).keys()].map(async (at) => workers[at % workers.length]!.ask(principal));
    return (await Promise.all(turns)).filter(isAdmitted).length;
  };
  const [first, second] = [await join(1), await join(2)];
  assert.equal(await hammer(first, second), 6, 'at once');
  service.release(1);
  service.release(1);
  assert.equal(await hammer(second), 3, 'those of the first worker are free again');
  service.release(2);
  assert.equal(await hammer(await join(3)), 1, 'ten in all');
});

test('a request that is counted after the exit of its worker holds no place', async () => {
  const service = new GatewayCounts();
  const bounds = { windowMs: 10_000, requests: 100, concurrency: 2 };
  const [late, other] = [service.handlersFor(1), service.handlersFor(2)];
  service.release(1);
  for (let id = 0; id < 5; id += 1) late.take({ id, charge: charge('a', { bounds }) });
  assert.deepEqual(
    [0, 1, 2].map((id) => other.take({ id, charge: charge('a', { bounds }) }).isAdmitted),
    [true, true, false],
  );
});

test('a primary that does not answer is not waited for twice, and gets back what it may have counted', async (t) => {
  const settled: number[] = [];
  let asked = 0;
  const limitService = {
    take: () => {
      asked += 1;
      return Promise.reject(new Error('no answer'));
    },
    settle: ({ id }: { readonly id: number }) => settled.push(id),
    countAlone: () => assert.fail('the plan has no quota'),
    standings: () => Promise.reject(new Error('no answer')),
  };
  const { usage: usageStore } = new GatewayCounts();
  const worker = await replica(t, { peers: { limitService, usageStore }, processes: 3 });
  const principal = principalOf(planOf({ requests: 3 }));
  const taken = [await worker.ask(principal), await worker.ask(principal)];
  assert.deepEqual(taken.map(isAdmitted), [true, false], 'one of three: its share of three processes');
  assert.equal(asked, 1);
  assert.deepEqual(settled, [1]);
});

// The cost of requests, and the headers that report it.

const miss = { outcome: 'miss', upstreamMs: 30 } as const;

const table: readonly (readonly [string, Partial<Settled>, number])[] = [
  ['a hit', {}, 1],
  ['what another request was read for', { outcome: 'collapsed' }, 1],
  ['what is known here', { outcome: 'local' }, 1],
  ['a miss', miss, 2 + 3],
  ['a read that failed at a node', { outcome: 'error', upstreamMs: 200 }, 1 + 20],
  ['a view that was run', { operation: 'view', ...miss, gasUsed: '700' }, 2 + 3 + 7],
  ['a view of which no gas is told', { operation: 'view', ...miss }, 2 + 3],
  ['a view whose gas is no number of digits', { operation: 'view', ...miss, gasUsed: '7e2' }, 2 + 3],
  ['a view from the cache, whatever it once used', { operation: 'view', gasUsed: '700' }, 1],
  ['a view that was given up', { operation: 'view', outcome: 'error', upstreamMs: 30 }, 2 + 3],
  [
    'a view whose answer was given up',
    { operation: 'view', outcome: 'error', upstreamMs: 30, gasUsed: '700' },
    2 + 3 + 7,
  ],
  ['a view that waited for another run', { operation: 'view', outcome: 'collapsed', upstreamMs: 30 }, 1 + 3],
  ['a view that failed here', { operation: 'view', outcome: 'error' }, 1],
  ['a signing message', { operation: 'encode', outcome: 'local', bodyBytes: 1_536 }, 1 + 1.5],
  ['a signing message that a node made', { operation: 'encode', ...miss, bodyBytes: 1_024 }, 1 + 1 + 3],
  ['a submission', { operation: 'submit', ...miss, bodyBytes: 5_000 }, 10 + 3],
  ['what is passed through', { operation: 'pass', ...miss }, 2 + 3],
  ['an absurd amount of gas', { operation: 'view', ...miss, gasUsed: String(2n ** 64n - 1n) }, 1_000_000_000],
];

for (const [what, changes, cost] of table) {
  test(`${what} costs ${cost}`, () => assert.equal(costOf({ ...hit, ...changes }, usualCosts), cost));
}

test('each operation is charged at least its own amount, a read or view the smaller of hit and miss', () => {
  const costs = { ...usualCosts, hit: 3, miss: 2, encode: 5, encodeKiB: 4, submit: 7, pass: 11 };
  const least = (['read', 'view', 'encode', 'submit', 'pass'] as const).map((operation) =>
    leastCostOf(operation, costs),
  );
  assert.deepEqual(least, [2, 2, 5, 7, 11]);
  assert.equal(costOf({ ...hit, operation: 'encode', outcome: 'local', bodyBytes: 1_536 }, costs), 5 + 1.5 * 4);
});

test('no request costs less than it was charged, whatever the table', () => {
  const amount = fc.double({ min: 0, max: 1_000_000, noNaN: true });
  const costs: fc.Arbitrary<typeof usualCosts> = fc.record({
    hit: amount,
    miss: amount,
    upstreamMs: amount,
    gasUnit: amount,
    encode: amount,
    encodeKiB: amount,
    submit: amount,
    pass: amount,
  });
  const settled: fc.Arbitrary<Settled> = fc.record({
    operation: fc.constantFrom('read', 'view', 'encode', 'submit', 'pass'),
    outcome: fc.constantFrom('hit', 'miss', 'collapsed', 'local', 'error'),
    status: fc.constant(200),
    upstreamMs: fc.nat(10_000),
    gasUsed: fc.option(fc.oneof(fc.string(), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String)), {
      nil: undefined,
    }),
    bytes: fc.nat(),
    bodyBytes: fc.nat(),
  });
  fc.assert(
    fc.property(costs, settled, (costs, settled) => {
      const cost = costOf(settled, costs);
      assert.ok(cost >= leastCostOf(settled.operation, costs) - 0.0005 && cost <= 1_000_000_000);
    }),
  );
});

test('a policy for each bound over time, with what is left and when there is more', () => {
  const bounds = { windowMs: 10_500, requests: 100, cost: 500, burst: 20, concurrency: 10 };
  const headers = limitHeaders(bounds, [
    { name: 'requests', remaining: 50, freeInMs: 29_001 },
    { name: 'cost', remaining: 0, freeInMs: 1 },
    { name: 'burst', remaining: 20, freeInMs: undefined },
  ]);
  assert.deepEqual(headers, [
    'RateLimit',
    '"requests";r=50;t=30, "cost";r=0;t=1, "burst";r=20',
    'RateLimit-Policy',
    '"requests";q=100;w=11, "cost";q=500;w=11, "burst";q=20;w=1',
  ]);
  assert.deepEqual(limitHeaders({ windowMs: 1_000, concurrency: 3 }, []), []);
});
