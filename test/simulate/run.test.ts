/** What is known of simulated deployments beforehand: seeds, limits, and that a sample stands for the whole. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { capacityOf } from '../../simulate/capacity.ts';
import { simulate, type RunOptions } from '../../simulate/run.ts';
import type { Mix, Shape } from '../../simulate/shape.ts';
import { shapeOf, shapes, usualTraffic } from '../../simulate/shapes.ts';

const only = (kind: keyof Mix): Mix => ({
  ...(Object.fromEntries(Object.keys(usualTraffic.mix).map((name) => [name, 0])) as unknown as Mix),
  [kind]: 1,
});

function run(shape: Shape, options: Partial<RunOptions> = {}) {
  const outcome = simulate(shape, { seed: 1, sample: 1, requests: 2_500, ...options });
  return { outcome, capacity: capacityOf(outcome) };
}

const redis = { shards: 1, scope: 'region', nearMs: 0.5, farMs: 80, timeoutMs: 50, historyMs: 0 } as const;
const small = { ...usualTraffic, accounts: 1_000, links: 1_000, rate: 1_000 };

test('one seed gives one outcome, another seed another', () => {
  const shape = shapes.find(({ cdn, redis }) => cdn !== undefined && redis !== undefined);
  assert.ok(shape);
  const [one, again, other] = [1, 1, 2].map((seed) => run(shape, { seed }).outcome.tally);
  assert.deepEqual(again, one);
  assert.notDeepEqual(other, one);
});

test('reads that are all different are all of nodes', () => {
  const traffic = { ...small, mix: only('deep'), links: 1_000_000, linkSkew: 0 };
  const { capacity } = run(shapeOf('', 1_000, { traffic, nodes: { ...shapeOf('', 1).nodes, full: 1 } }));
  assert.ok(capacity.shares.upstream > 0.99);
  // Below every full node's edge.
  assert.equal(capacity.calls.full, 0);
});

test('one key is asked for once by each replica', () => {
  const traffic = { ...small, mix: only('deep'), links: 1 };
  const shape = shapeOf('', 1_000, { traffic, replicas: 4 });
  // In the warm-up, so that nothing is left to be counted.
  assert.equal(run(shape, { sample: 4 }).capacity.calls.archival, 0);
  assert.equal(run(shape, { sample: 4 }).capacity.shares.memory, 1);
});

test('a CDN that has read the whole catalogue lets none of it through, and nothing else is kept by it', () => {
  const cdn = { places: 2, historyMs: 1e9 };
  const pinned = run(shapeOf('', 1_000, { traffic: { ...small, mix: only('deep') }, replicas: 10, cdn }));
  assert.equal(pinned.capacity.shares.cdn, 1);
  for (const kind of ['latest', 'latestView', 'headView', 'hash'] as const) {
    const { capacity } = run(shapeOf('', 1_000, { traffic: { ...small, mix: only(kind) }, replicas: 10, cdn }));
    assert.equal(capacity.shares.cdn, 0, kind);
  }
});

test('no read of the latest state comes from a look that is older than the bound', () => {
  for (const maxStalenessMs of [100, 200, 1_000]) {
    const { tally } = run(shapeOf('', 1_000, { replicas: 10, maxStalenessMs })).outcome;
    assert.ok(tally.snapshotAgeMs.length > 500);
    assert.ok(Math.max(...tally.snapshotAgeMs) <= maxStalenessMs);
  }
});

test('a Redis that is farther away than its time-out is left alone', () => {
  const far = { ...redis, scope: 'global' } as const;
  const { capacity } = run(shapeOf('', 1_000, { replicas: 10, regions: 2, redis: far, news: 'none' }));
  assert.deepEqual([capacity.redis?.commands, capacity.shares.redis], [0, 0]);
});

test('one simulated replica stands for eight: the others are drawn, or simulated as well', () => {
  // Without news replicas show blocks by chance, which evens out only where there are many more of them.
  const bounds = { 'first tells': 0.03, none: 0.06 } as const;
  for (const news of ['first tells', 'none'] as const) {
    const traffic = { ...small, accounts: 20_000, rate: 8_000 };
    const shape = shapeOf('', 8_000, { traffic, replicas: 8, redis, news });
    const [drawn, whole] = [run(shape, { requests: 5_000 }), run(shape, { sample: 8, requests: 40_000 })];
    for (const server of ['memory', 'redis', 'upstream'] as const) {
      const [a, b] = [drawn.capacity.shares[server], whole.capacity.shares[server]];
      assert.ok(Math.abs(a - b) < bounds[news], `${news}, ${server}: ${a} drawn, ${b} simulated`);
    }
  }
});

test('a tenth of the traffic on a tenth of the replicas is a tenth of the work, where nothing is shared', () => {
  const [large, little] = [100, 10].map((replicas) => run(shapeOf('', replicas * 1_000, { replicas })).capacity);
  assert.ok(large && little);
  assert.ok(Math.abs(large.calls.all / little.calls.all - 10) < 0.5);
  assert.ok(Math.abs(large.cores.front / little.cores.front - 10) < 0.5);
});
