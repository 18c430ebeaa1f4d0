/** The cost of requests, and the headers that report it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { costOf, leastCostOf, type Settled } from '../../../src/access/limits/cost.ts';
import { limitHeaders } from '../../../src/access/limits/counter.ts';
import { fc } from '../../support/fast-check.ts';
import { hit, usualCosts } from '../../support/limits.ts';

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
