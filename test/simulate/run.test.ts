/** Properties of simulated deployments: seeds, limits, and a sample that stands for the whole. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { capacityOf } from '../../simulate/capacity.ts';
import { simulate, type RunOptions } from '../../simulate/run.ts';
import { shapeOf, shapes, usualTraffic, type Shape } from '../../simulate/shape.ts';
import { requestShapes, type RequestShape } from '../../simulate/shapes.ts';

const deepOnly: readonly RequestShape[] = [
  { route: 'resource', share: 1, subjects: { kind: 'state', of: 1_000, pinned: 1, deep: 1 }, bytes: 400 },
];

function run(shape: Shape, options: Partial<RunOptions> = {}) {
  const outcome = simulate(shape, { seed: 1, requests: 2_500, ...options });
  return { outcome, capacity: capacityOf(outcome) };
}

const redis = { shards: 1, rttMs: 0.5, historyMs: 0, news: 'version' } as const;
const small = { ...usualTraffic, accounts: 1_000, links: 1_000, rate: 1_000 };

test('one seed gives one outcome, another seed another', () => {
  const shape = shapes.find(({ redis }) => redis !== undefined);
  assert.ok(shape);
  const [one, again, other] = [1, 1, 2].map((seed) => run(shape, { seed }).outcome.tally);
  assert.deepEqual(again, one);
  assert.notDeepEqual(other, one);
});

test('reads that are all different are all of nodes', () => {
  const traffic = { ...small, requests: deepOnly, links: 1_000_000, linkSkew: 0 };
  const { capacity } = run(shapeOf('', 1_000, { traffic }));
  assert.ok(capacity.shares.upstream > 0.99);
  // Below every full node's edge.
  assert.equal(capacity.calls.full, 0);
});

test('one key is asked for once by each replica', () => {
  const traffic = { ...small, requests: deepOnly, links: 1 };
  const shape = shapeOf('', 1_000, { traffic, replicas: 4 });
  // In the warm-up, so that nothing is left to be counted.
  assert.equal(run(shape, { sample: 4 }).capacity.calls.archival, 0);
  assert.equal(run(shape, { sample: 4 }).capacity.shares.memory, 1);
});

test('one simulated replica stands for eight: the others are drawn, or simulated as well', () => {
  const traffic = { ...small, accounts: 20_000, rate: 8_000 };
  const shape = shapeOf('', 8_000, { traffic, replicas: 8, redis });
  const [drawn, whole] = [run(shape, { requests: 5_000 }), run(shape, { sample: 8, requests: 40_000 })];
  for (const server of ['memory', 'redis', 'upstream'] as const) {
    const [a, b] = [drawn.capacity.shares[server], whole.capacity.shares[server]];
    assert.ok(Math.abs(a - b) < 0.03, `${server}: ${a} drawn, ${b} simulated`);
  }
});

test('a tenth of the traffic on a tenth of the replicas is a tenth of the work, where nothing is shared', () => {
  const [large, little] = [100, 10].map((replicas) => run(shapeOf('', replicas * 1_000, { replicas })).capacity);
  assert.ok(large && little);
  assert.ok(Math.abs(large.calls.all / little.calls.all - 10) < 0.5);
  assert.ok(Math.abs(large.cores / little.cores - 10) < 0.5);
});

test('the shares of the routes add up to all requests, and name each route once', () => {
  const sum = requestShapes.reduce((all, { share }) => all + share, 0);
  assert.ok(Math.abs(sum - 1) < 1e-9, String(sum));
  assert.equal(new Set(requestShapes.map(({ route }) => route)).size, requestShapes.length);
});

test('a follower makes ten calls a second, and answers the transactions of its pages', () => {
  const requests: readonly RequestShape[] = [
    { route: 'byHash', share: 1, subjects: { kind: 'hash', own: 0 }, bytes: 1_500 },
  ];
  const traffic = { ...small, requests, rate: 100 };
  const [off, always, brief] = [undefined, 30_000, 0].map((keptMs) => {
    const follow = keptMs === undefined ? undefined : { everyMs: 100, keptMs };
    return run(shapeOf('', 100, { traffic, ...(follow && { follow }) })).capacity;
  });
  assert.ok(off && always && brief);
  // A few in a hundred are of a block behind the last page, or older than what is kept.
  assert.ok(always.calls.full < 15 && always.calls.full >= 9.9, String(always.calls.full));
  assert.ok(Math.abs(brief.calls.full - off.calls.full - 10) < 0.2, `${brief.calls.full} beside ${off.calls.full}`);
});
