import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bucketOf, bucketCount, mergeCounts, quantile } from '../../src/status/latency.ts';
import { binBounds, binOf, countOf, distanceBins, distancesOf, latencyOf, Traffic } from '../../src/status/traffic.ts';

test('quantiles are right to a bucket, two to a doubling, for times from a tenth of a millisecond to ten seconds', () => {
  for (const [seconds, ms] of [
    [0.0001, 0.1],
    [0.002, 2],
    [0.35, 350],
    [9, 9_000],
  ] as const) {
    const traffic = new Traffic(0);
    for (let turn = 0; turn < 100; turn += 1) {
      traffic.count({ route: 'view', outcome: 'miss', version: undefined, isTold: true }, seconds);
    }
    const [window] = traffic.windows.told(0);
    const found = quantile(latencyOf(window!, { route: 'view' }), 0.99) ?? 0;
    assert.ok(Math.abs(found - ms) <= ms * 0.42, `${ms}: ${found}`);
    assert.equal(quantile(latencyOf(window!, { route: 'resource' }), 0.99), undefined);
  }
});

test('a quantile is where so many of the times are below', () => {
  const counts = [
    [1, 90],
    [10, 9],
    [100, 1],
  ] as const;
  assert.ok((quantile(counts, 0.5) ?? 0) <= 1);
  assert.equal(Math.round(quantile(counts, 0.99) ?? 0), 10);
  assert.equal(Math.round(quantile(counts, 1) ?? 0), 100);
  assert.deepEqual(
    mergeCounts([
      [
        [10, 2],
        [20, 1],
      ],
      [
        [5, 1],
        [10, 3],
      ],
    ]),
    [
      [5, 1],
      [10, 5],
      [20, 1],
    ],
  );
});

test('every time has a bucket, also none at all and for ever', () => {
  for (const seconds of [0, -1, 1e-12, 1e-3, 60, 1e12, Infinity]) {
    const bucket = bucketOf(seconds);
    assert.ok(Number.isInteger(bucket) && bucket >= 0 && bucket < bucketCount, `${seconds}: ${bucket}`);
  }
});

test('requests are told by route and outcome', () => {
  const traffic = new Traffic(0);
  traffic.count({ route: 'resource', outcome: 'memory', version: undefined, isTold: true }, 0.001);
  traffic.count({ route: 'resource', outcome: 'miss', version: undefined, isTold: true }, 0.001);
  traffic.count({ route: 'none', outcome: 'refused', version: undefined, isTold: true }, 0.001);

  const [window] = traffic.windows.told(0);

  assert.equal(countOf(window!, {}), 3);
  assert.equal(countOf(window!, { route: 'resource' }), 2);
  assert.equal(countOf(window!, { outcome: 'miss' }), 1);
  assert.equal(countOf(window!, { route: 'resource', outcome: 'refused' }), 0);
});

test('distances from the head fall into doublings, from the head itself to version 0 of any ledger', () => {
  const distances = [0, 1, 2, 3, 4, 1_023, 1_024, 2 ** 31 - 1, 2 ** 31, 2 ** 40, 2 ** 46, 2 ** 60];
  assert.deepEqual(distances.map(binOf), [0, 1, 2, 2, 3, 10, 11, 31, 32, 41, 47, distanceBins - 1]);
  for (const distance of distances.slice(0, -1)) {
    const [from, to] = binBounds(binOf(distance));
    assert.ok(from <= distance && distance < to, String(distance));
  }
});

test('reads are told by how far behind the head they were, held apart from asked', () => {
  const traffic = new Traffic(0);
  traffic.count({ route: 'resource', outcome: 'memory', version: 5n, isTold: true }, 0.001);
  traffic.head = 1_000n;
  traffic.count({ route: 'resource', outcome: 'memory', version: 1_000n, isTold: true }, 0.001);
  traffic.count({ route: 'resource', outcome: 'memory', version: 1_007n, isTold: true }, 0.001);
  traffic.count({ route: 'resource', outcome: 'miss', version: 0n, isTold: true }, 0.001);

  const [window] = traffic.windows.told(0);
  const bins = distancesOf(window!);

  // Nothing is known of a distance before there was a head.
  assert.equal(
    bins.reduce((sum, { held, asked }) => sum + held + asked, 0),
    3,
  );
  assert.deepEqual(bins[0], { held: 2, asked: 0 });
  assert.deepEqual(bins[binOf(1_000)], { held: 0, asked: 1 });
});
